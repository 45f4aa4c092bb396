from PySide6.QtGui import QPalette

from edgeopt_gui.widgets.heading import heading, quiet


def test_a_higher_heading_is_larger(qtbot):
    labels = [heading("x", level) for level in (1, 2, 3)]
    for label in labels:
        qtbot.addWidget(label)
    sizes = [label.font().pointSizeF() for label in labels]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == 3


def test_quiet_text_takes_its_colour_from_the_palette(qtbot):
    label = quiet("why")
    qtbot.addWidget(label)
    assert label.foregroundRole() == QPalette.ColorRole.PlaceholderText
