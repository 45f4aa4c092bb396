"""The program as its users run it, and a small framework whose exporter has faults on request."""

import json
from pathlib import Path

import pytest

from edgeopt.cli.main import run
from edgeopt.importing import sources

PLANTED = sources.Source(
    "planted", "planted model", (".planted",), str(Path(__file__).with_name("planted_child.py"))
)


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
