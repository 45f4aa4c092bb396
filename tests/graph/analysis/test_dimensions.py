import numpy as np

from edgeopt.graph.analysis.onnx import analyze_onnx
from edgeopt.graph.analysis.records import AnalysisOptions, OpenDimension


def test_a_named_dimension_has_one_size_and_is_counted(write_model):
    text = """g (int64[batch, seq] ids, float[batch, 4] z) => (float[batch, seq, 4] y) {
        e = Gather(table, ids)  r = Relu(e)  u = Unsqueeze(z, one)  y = Add(r, u) }"""
    path = write_model(text, table=np.zeros((9, 4), np.float32), one=np.array([1]))
    found = analyze_onnx(path, AnalysisOptions(shapes={"ids": (2, 7)}))
    assert found.dimensions == (
        OpenDimension("batch", 2, ("input 'ids', axis 0", "input 'z', axis 0"), 4),
        OpenDimension("seq", 7, ("input 'ids', axis 1",), 3),
    )
    assert found.work.shapes == ("batch = 2 (given)", "seq = 7 (given)")


def test_without_a_wish_sizes_are_assumed_by_name(write_model):
    path = write_model("g (int64[batch, seq] ids) => (int64[batch, seq] y) { y = Abs(ids) }")
    assert analyze_onnx(path).work.shapes == ("batch = 1 (assumed)", "seq = 16 (assumed)")


def test_a_dimension_without_a_name_is_called_by_its_place(write_model):
    path = write_model("g (float[?, 3] x) => (float[?, 3] y) { a = Sin(x)  y = Cos(a) }")
    (row,) = analyze_onnx(path).dimensions
    assert (row.name, row.size, row.set_by) == ("x[0]", 1, ("input 'x', axis 0",))
    assert row.tensors == 2


def test_what_a_node_makes_while_the_model_runs_is_set_by_that_node(write_model):
    path = write_model("g (float[4] x) => (int64[1, k] y) { n = NonZero(x)  y = Abs(n) }")
    found = analyze_onnx(path)
    (row,) = found.dimensions
    assert row == OpenDimension("k", None, ("NonZero 'n'",), 2)
    assert found.work.unknown == 2
    real = analyze_onnx(path, AnalysisOptions(real={"n": (1, 3), "y": (1, 3)}))
    assert real.dimensions[0].size == 3
    assert real.work.unknown == 0
