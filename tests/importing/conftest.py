"""The program as its users run it, and a small framework whose exporter has faults on request."""

import fcntl
import json
import os
import subprocess
import venv
from pathlib import Path

import pytest

from edgeopt.cli.main import run
from edgeopt.importing import sources

PLANTED = sources.Source(
    "planted", "planted model", (".planted",), str(Path(__file__).with_name("planted_child.py"))
)

PACKAGES = (
    *("torch==2.13.*", "onnx", "onnxscript", "transformers", "pillow", "keras"),
    *("scikit-learn", "joblib", "skl2onnx"),
)


@pytest.fixture(scope="session")
def frameworks(tmp_path_factory):
    return environment("EDGEOPT_FRAMEWORKS", PACKAGES, tmp_path_factory)


def environment(variable, packages, tmp_path_factory):
    """The Python of an environment with packages and without edgeopt, made once for all workers."""
    if (python := os.environ.get(variable)) is not None:
        return python
    place = tmp_path_factory.getbasetemp().parent / variable.lower()
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "done").exists():
            venv.create(place, with_pip=True)
            command = [place / "bin" / "python", "-m", "pip", "install", "--quiet", *packages]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"the frameworks cannot be installed: {done.stderr[-300:]}")
            (place / "done").touch()
    return str(place / "bin" / "python")


@pytest.fixture
def imports(tmp_path, capfd, monkeypatch):
    """Runs `edgeopt import` in an empty folder: its exit code, its last record, and the files that it left."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sources, "SOURCES", (*sources.SOURCES, PLANTED))

    def imported(source, *arguments, out="out.onnx"):
        before = {path.name for path in tmp_path.iterdir()}
        code = run(["import", str(source), "-o", str(out), "--json", *map(str, arguments)])
        last = json.loads(capfd.readouterr().out.splitlines()[-1])
        return code, last, {path.name for path in tmp_path.iterdir()} - before - {"__pycache__"}

    return imported


@pytest.fixture
def planted(tmp_path):
    def write(fault):
        path = tmp_path / "model.planted"
        path.write_text(fault)
        return path

    return write
