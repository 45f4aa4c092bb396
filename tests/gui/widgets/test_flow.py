"""Widgets side by side, in as many rows as the width needs."""

from PySide6.QtWidgets import QLabel, QWidget

from edgeopt_gui.widgets.flow import FlowLayout


def test_widgets_wrap_where_the_width_ends_and_hidden_ones_take_no_room(qtbot):
    box = QWidget()
    qtbot.addWidget(box)
    flow = FlowLayout(10, 5)
    box.setLayout(flow)
    labels = [QLabel(text) for text in ("one", "two", "three")]
    for label in labels:
        label.setFixedSize(100, 20)
        flow.addWidget(label)
    assert [flow.heightForWidth(width) for width in (320, 319, 100, 50)] == [20, 45, 70, 70]
    assert (flow.minimumSize().width(), flow.minimumSize().height()) == (100, 20)
    flow.setContentsMargins(7, 3, 0, 0)
    box.resize(217, 80)
    box.show()
    qtbot.waitExposed(box)
    assert [(label.x(), label.y()) for label in labels] == [(7, 3), (117, 3), (7, 28)]
    labels[0].hide()
    qtbot.waitUntil(lambda: [(label.x(), label.y()) for label in labels[1:]] == [(7, 3), (117, 3)])
