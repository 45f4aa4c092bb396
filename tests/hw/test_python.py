import re
import subprocess
import sys
from pathlib import Path

import pytest

from edgeopt.hw.child import python_command

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


def test_every_python_process_is_started_by_the_one_function():
    # The exported runner is a script of its own, which the package does not start; the other one only names it.
    named = ("hw/python.py", "commands/export/runner.py", "cli/invocation.py")
    others = {ROOT / "edgeopt" / name for name in named}
    paths = {path for package in PACKAGES for path in package.rglob("*.py")}
    assert [path for path in sorted(paths - others) if "sys.executable" in path.read_text()] == []
