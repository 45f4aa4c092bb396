import subprocess
import sys
from pathlib import Path

import pytest

from edgeopt.version import __version__
from edgeopt_gui.main import MODULES

ROOT = Path(__file__).parents[2]


def run_gui(*arguments, extra_path=None):
    """Runs the app in a Python that sees no installed package but those in `extra_path`, and no display."""
    paths = [str(path) for path in (ROOT, ROOT / "gui", extra_path) if path]
    program = f"import sys; sys.path[:0] = {paths!r}; from edgeopt_gui.main import main; raise SystemExit(main())"
    command = [sys.executable, "-I", "-S", "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env={})


def put_empty_packages(folder, modules):
    for module in modules:
        (folder / module).mkdir()
        (folder / module / "__init__.py").touch()


def test_says_which_extra_is_missing_on_a_bare_python():
    done = run_gui()
    assert done.returncode == 5
    assert "needs the 'gui' extra" in done.stderr
    assert "pip install pyside6-essentials pyqtgraph" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("absent", MODULES)
def test_one_missing_part_of_the_extra_is_enough(tmp_path, absent):
    put_empty_packages(tmp_path, [module for module in MODULES if module != absent])
    assert "needs the 'gui' extra" in run_gui(extra_path=tmp_path).stderr


def test_without_a_screen_it_says_so_instead_of_aborting(tmp_path):
    put_empty_packages(tmp_path, MODULES)
    done = run_gui(extra_path=tmp_path)
    assert done.returncode == 5
    assert "No display" in done.stderr
    assert "edgeopt --help" in done.stderr
    assert "Traceback" not in done.stderr


def test_version_and_help_work_on_a_bare_python():
    version = run_gui("--version")
    assert (version.returncode, version.stdout) == (0, f"edgeopt-gui {__version__}\n")
    described = run_gui("--help")
    assert described.returncode == 0
    assert "MODEL|BUNDLE" in described.stdout


def test_wrong_usage_leaves_with_2():
    assert run_gui("--no-such-option").returncode == 2
