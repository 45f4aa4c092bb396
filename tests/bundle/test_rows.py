"""The record of a bundle about the rows of a batch, and bundles without it."""

import subprocess
import sys

import msgspec
import numpy as np
import onnx.parser
import pytest

import edgeopt
from edgeopt.bundle import write
from edgeopt.bundle.deployment import FILE, Deployment, Run, SourceModel, Tensor, read_deployment, to_toml
from edgeopt.bundle.manifest import write_manifest
from edgeopt.errors import UsageError

pytest.importorskip("onnxruntime")

APART = "float[n, 4] x) => (float[n, 4] y) { y = Softmax <axis = -1> (x) }"
MIXED = "float[n, 4] x) => (float[n, 4] y) { y = Softmax <axis = 0> (x) }"
FIXED = "float[2, 4] x) => (float[2, 4] y) { y = Softmax <axis = -1> (x) }"
WITHOUT_ONNX = """
import sys
sys.modules["onnx"] = sys.modules["onnx_ir"] = None
import edgeopt
with edgeopt.load(sys.argv[1], batching=edgeopt.Batching()) as session:
    print("batched" if session.batch_trial is not None else "")
"""


@pytest.fixture
def bundle(tmp_path):
    """Writes a bundle of a model; `recorded=False` as before bundles had the record."""

    def made(text, recorded=True):
        source = tmp_path / "m.onnx"
        onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g ({text}'), source)
        size = 2 if text == FIXED else "n"
        deployment = Deployment(
            *("m", "2026-01-01", "1", "any", "A test."),
            source=SourceModel("m.onnx", "0" * 64, 1),
            run=Run("onnxruntime-cpu", "model/m.onnx"),
            inputs=[Tensor("x", "float32", [size, 4])],
            outputs=[Tensor("y", "float32", [size, 4])],
        )
        folder = tmp_path / "m.edgeopt"
        folder.mkdir()
        samples = np.random.default_rng(1).standard_normal((2, 1, 4)).astype(np.float32)
        write.write_golden(folder, "inputs", [{"x": sample} for sample in samples])
        write.fill(folder, {"m.onnx": source}, deployment, {})
        if not recorded:
            old = msgspec.structs.replace(read_deployment(folder / FILE), batches=None)
            (folder / FILE).write_text(to_toml(old))
            write_manifest(folder)
        return folder

    return made


@pytest.mark.parametrize(("text", "rows"), [(APART, "independent"), (MIXED, "mixed")])
def test_bundle_records_whether_rows_mix(bundle, text, rows):
    found = read_deployment(bundle(text) / FILE).batches
    assert found.rows == rows
    assert ("Softmax" in found.sentence) == (rows == "mixed")


def test_bundle_without_batches_records_nothing(bundle):
    assert read_deployment(bundle(FIXED) / FILE).batches is None


@pytest.mark.parametrize("recorded", [True, False])
def test_bundle_whose_rows_mix_is_refused_with_the_operator(bundle, recorded):
    with pytest.raises(UsageError, match=r"its rows affect each other \(Softmax .*it works along the rows"):
        edgeopt.load(bundle(MIXED, recorded), batching=edgeopt.Batching())


def test_record_decides_without_the_graph(bundle, monkeypatch):
    folder = bundle(APART)
    monkeypatch.setattr("edgeopt.graph.rows.analysis.analyze_rows", None)
    edgeopt.load(folder, batching=edgeopt.Batching()).close()


def loaded_without_onnx(folder):
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_ONNX, str(folder)], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.processes
@pytest.mark.parametrize("recorded", [True, False])
def test_device_without_onnx_batches_what_keeps_rows_apart(bundle, recorded):
    done = loaded_without_onnx(bundle(APART, recorded))
    assert done.stdout == "batched\n", done.stderr


@pytest.mark.processes
@pytest.mark.parametrize("recorded", [True, False])
def test_device_without_onnx_refuses_what_mixes_rows(bundle, recorded):
    """Without the record and without `onnx`, samples decide."""
    done = loaded_without_onnx(bundle(MIXED, recorded))
    assert "UsageError: The model cannot run samples in batches" in done.stderr, done.stderr
