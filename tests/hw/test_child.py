import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from edgeopt.hw.child import call_in_child, python_command
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


ROOT = Path(__file__).parents[2]
START = ROOT / "packaging" / "desktop" / "start.py"
SHOW = "import sys, json; print(json.dumps([__name__, sys.argv]))"
PACKAGES = (ROOT / "edgeopt", ROOT / "agent" / "edgeopt_agent", ROOT / "gui" / "edgeopt_gui")


@pytest.fixture
def frozen(monkeypatch):
    """As in the desktop package: `sys.executable` is the program of that package."""
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "executable", "/opt/edgeopt-desktop/edgeopt-run")


def test_a_module_starts_with_this_interpreter_and_its_options():
    assert python_command("-P", "-u", "-m", "m", "-c") == (sys.executable, "-P", "-u", "-m", "m", "-c")


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [(("-P", "-u", "-m", "m", "7", "-P"), ("-m", "m", "7", "-P")), (("-I", "-S", "-c", "p"), ("-c", "p"))],
)
def test_the_program_of_the_package_gets_no_options_of_python(frozen, arguments, kept):
    assert python_command(*arguments) == ("/opt/edgeopt-desktop/edgeopt-run", *kept)


def started(*arguments, **options):
    return subprocess.run(
        [sys.executable, str(START), *arguments], capture_output=True, text=True, check=False, **options
    )


def test_the_program_of_the_package_runs_code_as_python_does():
    done = started("-c", SHOW, "one", "-m")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == '["__main__", ["-c", "one", "-m"]]\n'


def test_the_program_of_the_package_runs_a_module_as_python_does(tmp_path):
    (tmp_path / "shown.py").write_text(SHOW)
    done = started("-m", "shown", "-c", "two", env={"PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r'\["__main__", \[".*shown(\.py)?", "-c", "two"\]\]\n', done.stdout)


def test_the_program_of_the_package_is_the_command_line_by_the_name_of_that(tmp_path):
    (tmp_path / "edgeopt").symlink_to(START)
    command = [sys.executable, str(tmp_path / "edgeopt"), "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(ROOT)})
    assert (done.returncode, done.stdout.split()[0]) == (0, "edgeopt")


def test_the_program_of_the_package_says_what_to_start_instead():
    done = started()
    assert (done.returncode, done.stdout) == (1, "")
    assert "edgeopt-gui" in done.stderr


def test_children_find_the_libraries_of_the_system_again():
    show = "import os; print(os.environ.get('LD_LIBRARY_PATH'), 'LD_LIBRARY_PATH_ORIG' in os.environ)"
    given = {"LD_LIBRARY_PATH": "/package", "LD_LIBRARY_PATH_ORIG": "/mine"}
    assert started("-c", show, env=given).stdout == "/mine False\n"


_CHILDREN = ("child", "tf_child", "lm_child")


def test_every_python_process_is_started_by_the_one_function():
    # The exported runner is a script of its own, which the package does not start; the children of imports run in
    # the environment of the user, and what runs on a device over SSH has no edgeopt to import. One only names it.
    named = ("hw/child.py", "commands/export/runner.py", *(f"importing/children/{name}.py" for name in _CHILDREN))
    others = {ROOT / "edgeopt" / name for name in (*named, "cli/progress.py", "remote/far.py")}
    paths = {path for package in PACKAGES for path in package.rglob("*.py")}
    assert [path for path in sorted(paths - others) if "sys.executable" in path.read_text()] == []


@pytest.mark.parametrize(
    ("library", "question", "expected"),
    [("onnxruntime", "onnxruntime_providers", "CPUExecutionProvider"), ("openvino", "openvino_devices", "CPU: ")],
)
def test_a_runtime_that_is_installed_answers(library, question, expected):
    pytest.importorskip(library)
    answer = call_in_child("edgeopt.hw.runtime_facts", question, 60)
    assert any(item.startswith(expected) for item in answer["providers"])


def test_openvino_tells_the_name_and_the_types_of_each_device():
    pytest.importorskip("openvino")
    answer = call_in_child("edgeopt.hw.runtime_facts", "openvino_devices", 60)
    assert answer["devices"]["CPU"]
    assert "FP32" in answer["capabilities"]["CPU"]
