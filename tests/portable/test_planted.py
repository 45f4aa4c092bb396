"""Uses of POSIX that are planted into edgeopt's modules while they are imported make commands and the app fail."""

import json

import pytest

from tests.portable.systems import USES, uses

RUN = ("-m", "edgeopt", "run", "BUNDLE", "--data", "DATA", "-o", "results")
END_AT_ONCE = """
import sys
from PySide6.QtCore import QTimer
from edgeopt_gui import application
from edgeopt_gui.main import main
begin = application._begin
def end(window, *rest):
    begin(window, *rest)
    QTimer.singleShot(0, window, window.quit_now)
application._begin = end
sys.exit(main([]))
"""
APP = ("-c", END_AT_ONCE)
ANALYZE = ("-m", "edgeopt", "analyze", "MODEL")
PROBE = ("-m", "edgeopt", "probe", "--json")
TARGETS = ("-m", "edgeopt", "targets")
PLACES = {
    "a command": ("edgeopt.commands.probe", "probe", PROBE),
    "an exit": ("edgeopt.cli.main", "", TARGETS),
    "a worker": ("edgeopt.commands.analyze.tasks", "cover", ANALYZE),
    "a backend": ("edgeopt.backends.onnxruntime.opening", "open_session", RUN),
    "the app": ("edgeopt_gui.application", "run", APP),
}
PLANTED = {
    "a command": "import pwd",
    "an exit": "import atexit, os; atexit.register(lambda: os.killpg(os.getpgrp(), 0))",
    "a worker": "import os; os.sched_getaffinity(0)",
    "a backend": "open('/proc/self/stat').close()",
    "the app": "import select; select.poll()",
}
HARMLESS = "import os; os.getpid()"


@pytest.fixture
def planted(python, tmp_path, conv_model, conv_data, conv_bundle):
    """Runs a program as on Windows with a planted statement; returns whether that was found, and the output."""
    names = {"MODEL": str(conv_model), "DATA": str(conv_data), "BUNDLE": str(conv_bundle)}

    def run(place, statement):
        module, function, command = PLACES[place]
        variables = {"EDGEOPT_PLANTED": json.dumps([module, function, statement]), "QT_QPA_PLATFORM": "offscreen"}
        arguments = [names.get(each, each) for each in command]
        process = python("win32", tmp_path, *arguments, variables=variables)
        printed, _ = process.communicate(timeout=60)
        used = uses(tmp_path)
        (tmp_path / USES).unlink(missing_ok=True)
        return process.returncode != 0 or bool(used), printed

    return run


@pytest.mark.parametrize("place", PLACES)
def test_a_planted_use_of_posix_fails(planted, place):
    if place == "the app":
        pytest.importorskip("PySide6")
    found, printed = planted(place, PLANTED[place])
    assert found, printed


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_a_planted_statement_that_windows_has_passes(planted, place):
    if place == "the app":
        pytest.importorskip("PySide6")
    found, printed = planted(place, HARMLESS)
    assert not found, printed
