from PySide6.QtWidgets import QLabel, QScrollArea, QSizePolicy

from edgeopt_gui.widgets.scrolled import Scrolled


def test_it_is_no_higher_than_its_wrapped_texts(qtbot):
    label = QLabel("many words " * 60)
    label.setWordWrap(True)
    label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
    page = Scrolled()
    page.column.addWidget(label)
    area = QScrollArea()
    area.setWidgetResizable(True)
    area.setWidget(page)
    qtbot.addWidget(area)
    area.resize(800, 60)
    area.show()
    qtbot.waitExposed(area)
    needed = page.heightForWidth(area.viewport().width())
    assert page.height() == max(needed, area.viewport().height())
