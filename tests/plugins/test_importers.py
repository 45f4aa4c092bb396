"""Importers of plug-ins: their file runs in the user's environment, as those of edgeopt do."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from edgeopt.cli.main import run
from edgeopt.importing.sources import is_source, recognize

CHILD = Path(__file__).parents[1] / "importing" / "planted_child.py"
OFFER = ("importer", "planted", ".reader", 'suffixes = [".twolayers"]')


@pytest.fixture
def imported(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)

    def imported(content):
        (tmp_path / "model.twolayers").write_text(content)
        code = run(["import", "model.twolayers", "-o", "out.onnx", "--json"])
        return code, json.loads(capfd.readouterr().out.splitlines()[-1])

    return imported


def test_format_of_a_plugin_is_imported_and_proved(plant, imported, tmp_path, no_plugin_code):
    (plant("reader", "raise RuntimeError('imported')", OFFER) / "reader.py").write_text(CHILD.read_text())
    assert is_source("model.twolayers")
    code, last = imported("none")
    assert (code, last["data"]["kind"]) == (0, "reader.planted"), last
    assert last["data"]["proof"]["equal"] is True
    assert onnx.load(tmp_path / "out.onnx").graph.input[0].name == "x"
    assert np.load(tmp_path / "out.npz")["x"].dtype == np.float32


def test_faults_of_an_importer_are_errors(plant, imported, tmp_path, no_plugin_code):
    (plant("reader", "", OFFER) / "reader.py").write_text(CHILD.read_text())
    code, last = imported("crash")
    assert code == 3
    assert "was ended by SIGABRT" in last["message"]
    assert not (tmp_path / "out.onnx").exists()
    code, last = imported("bias")
    assert (code, "does not answer as the original" in last["message"]) == (6, True)


def test_suffix_of_a_plugin_that_cannot_be_used(plant, tmp_path):
    from edgeopt.errors import InputError

    (tmp_path / "model.twolayers").write_text("")
    plant("reader", "", OFFER, needs=["no-such-package"])
    assert not is_source("model.twolayers")
    with pytest.raises(InputError, match="suffix of no known source"):
        recognize(str(tmp_path / "model.twolayers"))
