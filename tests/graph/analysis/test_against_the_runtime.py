"""The sizes that costs stand on, against those of a real run; and that no model of onnx's own fails."""

import os
from pathlib import Path

import numpy as np
import onnx
import pytest

from edgeopt.backends.onnxruntime.real_shapes import real_shapes
from edgeopt.data.demo import DATA, MODEL
from edgeopt.graph.analysis.dimensions import open_dimensions
from edgeopt.graph.analysis.onnx import analyze_onnx, sizes_of
from edgeopt.graph.analysis.records import Given
from edgeopt.graph.model import load
from edgeopt.graph.shapes import infer_shapes

LIGHT = sorted((Path(onnx.__file__).parent / "backend/test/data/light").glob("*.onnx"))
CORPUS = sorted(Path(os.environ.get("EDGEOPT_CORPUS", "/nonexistent")).glob("*.onnx"))


def check(path, data):
    model = load(path)
    infer_shapes(model.ir)
    feeds = {}
    with np.load(data) as arrays:
        for value in model.ir.graph.inputs:
            if value.name in arrays:
                first = arrays[value.name][:1]
                rank = None if value.shape is None else len(value.shape)
                feeds[value.name] = np.asarray(first if rank in {None, first.ndim} else first[0])
    real = real_shapes(path, feeds)
    given = Given(shapes={name: array.shape for name, array in feeds.items()})
    sizes = sizes_of(model.ir, given, open_dimensions(model.ir, given))
    # What only the run tells comes from a branch that both shapes fit; all that is told without it is right.
    told = {value.name: shape for value, shape in sizes.shapes.items() if value.name in real}
    assert {name: (shape, real[name]) for name, shape in told.items() if shape != real[name]} == {}
    assert len(told) > 20
    found = analyze_onnx(path, Given(shapes=given.shapes, real=real))
    assert (found.work.unknown, found.work.unsized) == (0, 0)


def test_the_sizes_of_the_sample_model_are_those_of_a_run():
    check(MODEL, DATA)


@pytest.mark.corpus
@pytest.mark.slow
@pytest.mark.skipif(not CORPUS, reason="EDGEOPT_CORPUS names no folder of models")
@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_the_sizes_of_real_models_are_those_of_a_run(path):
    data = path.with_suffix(".npz")
    if not data.is_file():
        pytest.skip("there is no data for it")
    check(path, data)


@pytest.mark.parametrize("path", LIGHT, ids=lambda path: path.stem)
def test_the_models_of_onnx_itself_are_analyzed(path):
    found = analyze_onnx(path)
    assert found.work.macs > 1e6
    assert found.work.unknown == 0
    assert all(
        node.cost.unknown or None not in {node.cost.operations, node.cost.read_bytes, node.cost.written_bytes}
        for node in found.nodes
    )
