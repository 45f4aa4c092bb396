import platform

import pytest

from edgeopt.hw.child import call_in_child
from edgeopt.hw.device import Unavailable


def test_the_answer_comes_from_another_process():
    import os

    assert call_in_child("platform", "python_version", 20) == platform.python_version()
    assert call_in_child("os", "getpid", 20) != os.getpid()


@pytest.mark.parametrize(
    ("library", "function", "limit_s", "reason"),
    [
        ("os", "abort", 20, "os.abort() crashed: SIGABRT"),
        ("no_such_runtime", "devices", 20, "No module named 'no_such_runtime'"),
        ("signal", "pause", 0.5, "signal.pause() did not answer within 0.5 s"),
    ],
)
def test_a_failure_is_a_reason(library, function, limit_s, reason):
    answer = call_in_child(library, function, limit_s)
    assert isinstance(answer, Unavailable)
    assert reason in answer.reason


def test_what_a_library_prints_does_not_disturb_the_answer(tmp_path, monkeypatch):
    (tmp_path / "chatty.py").write_text("import os\nos.system('echo noise')\ndef ask():\n    return ['x']\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert call_in_child("chatty", "ask", 20) == ["x"]


def test_the_current_folder_hides_no_library(tmp_path, monkeypatch):
    (tmp_path / "platform.py").write_text("def machine():\n    return 'planted'\n")
    monkeypatch.chdir(tmp_path)
    assert call_in_child("platform", "machine", 20) == platform.machine()


def test_what_a_library_leaves_in_the_temporary_folder_goes_with_the_child():
    import tempfile
    from pathlib import Path

    theirs = call_in_child("tempfile", "gettempdir", 20)
    assert Path(theirs).parent == Path(tempfile.gettempdir())
    assert not Path(theirs).exists()
