from pathlib import Path

from PySide6.QtCore import Qt

from edgeopt_gui.widgets.recent_files import RecentFiles


def test_the_latest_files_are_a_button_each(qtbot, tmp_path):
    recent = RecentFiles()
    qtbot.addWidget(recent)
    recent.set([])
    assert not recent.isVisible()
    paths = [tmp_path / f"{k}.onnx" for k in range(9)]
    recent.set(paths)
    recent.show()
    assert [Path(button.toolTip()) for button in recent.buttons] == paths[:5]
    with qtbot.waitSignal(recent.chosen, timeout=1000) as chosen:
        qtbot.keyClick(recent.buttons[2], Qt.Key.Key_Space)
    assert chosen.args == [paths[2]]
    recent.set(paths[:1])
    assert len(recent.buttons) == 1
