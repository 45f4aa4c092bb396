"""The wheel, used the way a stranger would: installed, from another folder, in a path with a space."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from edgeopt.version import __version__

ROOT = Path(__file__).parents[1]


def run(*command, cwd):
    """Runs a command without this checkout on Python's path."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
        cwd=cwd,
        env=env,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The programs of a new environment that has the wheel, and borrows what the wheel depends on."""
    folder = tmp_path_factory.mktemp("a folder with spaces")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (wheel,) = folder.glob("edgeopt-*.whl")
    environment = folder / "environment"
    venv.create(environment, with_pip=False, symlinks=os.name != "nt")
    python = environment / "bin" / "python"
    # A path in a .pth file brings the dependencies, but no .pth file that lies there: not this checkout.
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    run(*pip, "install", "--no-deps", "--no-index", wheel, cwd=folder)
    return environment / "bin"


def test_the_package_comes_from_the_wheel(installed, tmp_path):
    where = run(installed / "python", "-c", "import edgeopt; print(edgeopt.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(installed.parent)


@pytest.mark.parametrize("program", ["edgeopt", "edgeopt-agent", "edgeopt-gui"])
def test_each_program_starts(installed, tmp_path, program):
    assert run(installed / program, "--version", cwd=tmp_path).startswith(f"{program} {__version__}")


def test_python_starts_it_as_a_module(installed, tmp_path):
    told = run(installed / "python", "-m", "edgeopt", "--version", cwd=tmp_path)
    assert told == run(installed / "edgeopt", "--version", cwd=tmp_path)


def test_the_shipped_profiles_are_in_the_wheel(installed, tmp_path):
    lines = run(installed / "edgeopt", "targets", "--json", cwd=tmp_path).splitlines()
    result = json.loads(lines[-1])
    assert (result["event"], result["kind"]) == ("result", "targets")
    shipped = {path.stem for path in (ROOT / "profiles").glob("*.toml")}
    assert shipped
    told = json.dumps(result["data"])
    assert [name for name in sorted(shipped) if f'"{name}"' not in told] == []


def test_the_types_are_in_the_wheel(installed):
    assert list(installed.parent.glob("lib/python*/site-packages/edgeopt/py.typed"))
