"""The wheel, used the way a stranger would: installed, from another folder, in a path with a space."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from edgeopt.version import __version__

ROOT = Path(__file__).parents[1]
EPOCH = "1700000000"


def run(*command, cwd, **variables):
    """Runs a command without this checkout on Python's path."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | variables
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
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("a folder with spaces")
    command = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT)
    run(*command, cwd=folder, SOURCE_DATE_EPOCH=EPOCH)
    (made,) = folder.glob("edgeopt-*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel):
    """The programs of a new environment that has the wheel, and borrows what the wheel depends on."""
    folder = wheel.parent
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


@pytest.mark.parametrize("program", ["edgeopt", "edgeopt-agent", "edgeopt-gui"])
def test_python_starts_each_program_as_a_module(installed, tmp_path, program):
    told = run(installed / "python", "-m", program.replace("-", "_"), "--version", cwd=tmp_path)
    assert told.startswith(f"{program} {__version__}")


def test_the_shipped_profiles_are_in_the_wheel(installed, tmp_path):
    lines = run(installed / "edgeopt", "targets", "--json", cwd=tmp_path).splitlines()
    result = json.loads(lines[-1])
    assert (result["event"], result["kind"]) == ("result", "targets")
    shipped = {path.stem for path in (ROOT / "profiles").glob("*.toml")}
    assert shipped
    told = json.dumps(result["data"])
    assert [name for name in sorted(shipped) if f'"{name}"' not in told] == []


def test_presets_are_in_the_wheel(installed, tmp_path):
    result = json.loads(run(installed / "edgeopt", "presets", "--json", cwd=tmp_path).splitlines()[-1])
    shipped = {path.stem for path in (ROOT / "profiles" / "presets").glob("*.toml")}
    assert {each["name"] for each in result["data"]["presets"]} == shipped > set()


def test_the_unit_of_systemd_is_in_the_wheel(installed):
    unit = installed.parent / "share" / "edgeopt" / "edgeopt-agent.service"
    assert unit.read_text() == (ROOT / "packaging" / "edgeopt-agent.service").read_text()


def test_the_icons_are_in_the_wheel(installed):
    icons = ROOT / "gui" / "edgeopt_gui" / "theme" / "icons"
    (there,) = installed.parent.glob("lib/python*/site-packages/edgeopt_gui/theme/icons")
    assert {path.name for path in there.iterdir()} >= {path.name for path in icons.glob("*.svg")} > set()


def test_the_types_are_in_the_wheel(installed):
    assert list(installed.parent.glob("lib/python*/site-packages/edgeopt/py.typed"))


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The source distribution, and the wheel that was built from it and not from the checkout."""
    folder = tmp_path_factory.mktemp("built")
    command = (sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    run(*command, cwd=folder, SOURCE_DATE_EPOCH=EPOCH)
    (wheel,) = folder.glob("*.whl")
    (source,) = folder.glob("*.tar.gz")
    return source, wheel


@pytest.mark.slow
def test_two_builds_give_the_same_bytes_also_from_the_source_distribution(built, wheel):
    with zipfile.ZipFile(wheel) as direct, zipfile.ZipFile(built[1]) as by_source:
        assert set(direct.namelist()) == set(by_source.namelist())  # says more than that the bytes differ
    assert wheel.read_bytes() == built[1].read_bytes()


@pytest.mark.slow
def test_the_source_distribution_holds_every_file_that_documents_name(built):
    texts = [path.read_text() for path in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"))]
    named = {name.rstrip(".") for text in texts for name in re.findall(r"\b[a-z]+/[\w./-]+", text)}
    # What make writes into build is there only after it has run.
    named = {name for name in named if (ROOT / name).is_file() and not name.startswith("build/")}
    assert "packaging/edgeopt-agent.service" in named
    with tarfile.open(built[0]) as archive:
        there = {name.partition("/")[2] for name in archive.getnames()}
    assert named | {"Makefile", "constraints.txt", "LICENSE"} <= there
