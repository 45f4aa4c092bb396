"""Whole models, whose work is counted by hand beside them."""

import os
from pathlib import Path

import numpy as np
import onnx
import pytest

from edgeopt.backends.onnxruntime.profile import real_shapes
from edgeopt.data.demo import DATA, MODEL
from edgeopt.graph.analysis.dimensions import open_dimensions
from edgeopt.graph.analysis.onnx import analyze_onnx, sizes_of
from edgeopt.graph.analysis.records import AnalysisOptions
from edgeopt.graph.model import load
from edgeopt.graph.shapes.infer import infer_shapes


def ones(*shape):
    return np.ones(shape, np.float32)


def of_categories(analysis):
    return {row.category: row.operations for row in analysis.categories if row.operations}


def test_a_convolutional_net(write_model):
    text = """g (float[n, 3, 32, 32] x) => (float[n, 10] y) {
        c = Conv<pads = [1, 1, 1, 1]>(x, w)
        b = BatchNormalization(c, one, one, one, one)
        r = Relu(b)
        d = Conv<pads = [1, 1, 1, 1], strides = [2, 2], group = 16>(r, depth)
        p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(d)
        f = Flatten(p)
        y = Gemm<transB = 1>(f, classes, bias) }"""
    path = write_model(
        text, w=ones(16, 3, 3, 3), one=ones(16), depth=ones(16, 1, 3, 3), classes=ones(10, 1024), bias=ones(10)
    )
    work = analyze_onnx(path).work
    macs = (
        16 * 32 * 32 * 27  # 442,368: each of 16,384 elements from 3 channels of 3 x 3
        + 16 * 16 * 16 * 9  # 36,864: one channel each
        + 10 * 1024  # 10,240
    )
    assert work.macs == macs == 489_472
    others = (
        2 * 16_384  # normalization: scale and shift
        + 16_384  # Relu
        + 16 * 8 * 8 * 4  # four are compared for each of 1,024
    )
    assert work.operations == 2 * macs + others == 1_032_192
    moved = 4 * (
        (3_072 + 432 + 16_384)  # the first convolution: input, weights, output
        + (16_384 + 64 + 16_384)
        + (16_384 + 16_384)
        + (16_384 + 144 + 4_096)
        + (4_096 + 1_024)
        + (1_024 + 10_240 + 10 + 10)
    )
    assert work.moved_bytes == moved
    assert work.shapes == ("n = 1 (assumed)",)
    # The input is held all the time, and two results of 16 x 32 x 32.
    assert work.peak_activation_bytes == 4 * (3_072 + 2 * 16_384)


LAYER = """g (float[b, s, 64] x) => (float[b, s, 64] y) {
    q = MatMul(x, wq)  k = MatMul(x, wk)  v = MatMul(x, wv)
    heads = Constant<value = int64[4] {0, 0, 4, 16}>()
    q4 = Reshape(q, heads)  qh = Transpose<perm = [0, 2, 1, 3]>(q4)
    k4 = Reshape(k, heads)  kh = Transpose<perm = [0, 2, 3, 1]>(k4)
    v4 = Reshape(v, heads)  vh = Transpose<perm = [0, 2, 1, 3]>(v4)
    scores = MatMul(qh, kh)
    scaled = Mul(scores, eighth)
    weights = Softmax<axis = -1>(scaled)
    mixed = MatMul(weights, vh)
    back = Transpose<perm = [0, 2, 1, 3]>(mixed)
    together = Constant<value = int64[3] {0, 0, 64}>()
    joined = Reshape(back, together)
    o = MatMul(joined, wo)  a = Add(x, o)  n = LayerNormalization<axis = -1>(a, scale, shift)
    up = MatMul(n, w1)  g = Relu(up)  down = MatMul(g, w2)  y = Add(n, down) }"""


@pytest.mark.parametrize(("batch", "length"), [(1, 16), (2, 10)])
def test_a_transformer_layer(write_model, batch, length):
    square = dict.fromkeys(("wq", "wk", "wv", "wo"), ones(64, 64))
    path = write_model(
        LAYER,
        **square,
        w1=ones(64, 256),
        w2=ones(256, 64),
        scale=ones(64),
        shift=ones(64),
        eighth=np.float32(0.25),
    )
    given = AnalysisOptions() if (batch, length) == (1, 16) else AnalysisOptions(shapes={"x": (batch, length, 64)})
    found = analyze_onnx(path, given)
    tokens = batch * length
    macs = (
        4 * tokens * 64 * 64  # queries, keys, values, and what joins the heads
        + 2 * tokens * length * 64  # every query with every key, and as many with the values
        + 2 * tokens * 64 * 256
    )
    assert found.work.macs == macs
    scores = batch * 4 * length * length
    # scale 1, softmax 5; two residual sums, a norm of 5, Relu
    others = scores * 6 + 2 * tokens * 64 + 5 * tokens * 64 + tokens * 256
    assert found.work.operations == 2 * macs + others
    assert found.work.unknown == 0
    assert of_categories(found) == {
        "matrix product": 2 * macs,
        "normalization": 5 * scores + 5 * tokens * 64,
        "element-wise": scores + 2 * tokens * 64,
        "activation": tokens * 256,
    }
    assert sum(row.operations for row in found.operators) == found.work.operations


def test_figures_are_for_the_shapes_that_were_asked_for(write_model):
    path = write_model("g (float[b, s] x) => (float[b, s] y) { y = Relu(x) }")
    found = analyze_onnx(path, AnalysisOptions(shapes={"x": (3, 5)}))
    assert found.work.operations == 15
    assert found.work.shapes == ("b = 3 (given)", "s = 5 (given)")
    # What people read is the model as it is.
    assert found.nodes[0].outputs[0].shape == ("b", "s")


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
    given = AnalysisOptions(shapes={name: array.shape for name, array in feeds.items()})
    sizes = sizes_of(model.ir, given, open_dimensions(model.ir, given))
    # What only the run tells comes from a branch that both shapes fit; all that is told without it is right.
    told = {value.name: shape for value, shape in sizes.shapes.items() if value.name in real}
    assert {name: (shape, real[name]) for name, shape in told.items() if shape != real[name]} == {}
    assert len(told) > 20
    found = analyze_onnx(path, AnalysisOptions(shapes=given.shapes, real=real))
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
