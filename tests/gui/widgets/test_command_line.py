from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QToolButton

from edgeopt_gui.jobs.command import Command
from edgeopt_gui.widgets.command_line import CommandLine


def test_it_shows_what_to_type_and_copies_it(qtbot):
    line = CommandLine()
    qtbot.addWidget(line)
    assert not line.isVisible()
    line.set(Command("Reading", ("analyze", "my model.onnx")))
    line.show()
    assert line.text() == "edgeopt analyze 'my model.onnx'"
    qtbot.keyClick(line.findChild(QToolButton), Qt.Key.Key_Space)
    assert QGuiApplication.clipboard().text() == line.text()
    line.set(None)
    assert not line.isVisible()
