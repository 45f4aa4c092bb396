import subprocess
import sys
import threading

import pytest
from PySide6.QtCore import qWarning

from edgeopt_gui.faults import Faults


@pytest.fixture
def faults(qapp):
    installed = Faults()
    installed.install()
    yield installed
    installed.remove()


def test_what_nobody_caught_in_a_slot_is_told_with_its_place():
    """In a process of its own: pytest-qt would take the exception for itself."""
    program = """
from PySide6.QtCore import QCoreApplication, QTimer
from edgeopt_gui.faults import Faults
application = QCoreApplication([])
faults = Faults()
faults.install()
def break_it():
    raise ValueError("no such thing")
def tell(ending):
    print(ending.how, "|", ending.what, "|", "break_it" in ending.details)
    QTimer.singleShot(0, application.quit)
faults.happened.connect(tell)
QTimer.singleShot(0, break_it)
application.exec()
print("goes on")
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    expected = "crashed | Internal error of the app: ValueError: no such thing | True\ngoes on\n"
    assert done.stdout == expected


def test_a_fault_in_a_thread_is_told_too(qtbot, faults):
    def break_it():
        raise RuntimeError("in a thread")

    with qtbot.waitSignal(faults.happened, timeout=60_000) as told:
        thread = threading.Thread(target=break_it)
        thread.start()
        thread.join()
    assert "RuntimeError: in a thread" in told.args[0].what
    assert told.args[0].next_step


def test_what_qt_complains_about_is_told(qtbot, faults):
    with qtbot.waitSignal(faults.complained, timeout=60_000) as told:
        qWarning("something is odd")
    assert told.args == ["something is odd"]
