import subprocess
import sys

import numpy as np
import pytest

from edgeopt.graph.shapes.infer import fill_outputs, forget_claims, infer_shapes

CHAIN = "g (float[B,2] x) => (float[B,2] y) { a = Relu(x)  y = Neg(a) }"


def shape(model, name):
    values = [v for graph in model.ir.graphs() for node in graph for v in node.outputs]
    values += [v for f in model.ir.functions.values() for node in f.all_nodes() for v in node.outputs]
    return [str(dimension) for dimension in next(v for v in values if v.name == name).shape]


def test_shapes_are_filled_in_and_declared_ones_stay(make_model):
    model = make_model(CHAIN)
    infer_shapes(model.ir)
    assert shape(model, "a") == ["B", "2"]
    assert [str(dimension) for dimension in model.ir.graph.outputs[0].shape] == ["B", "2"]


def test_given_sizes_reach_everything_that_follows(make_model):
    model = make_model("""g (float[B,2] x, float[B,3] z) => (float[B,5] y) {
        a = Relu(x)  y = Concat<axis = 1>(a, z) }""")
    infer_shapes(model.ir, {"x": (7, 2)})
    assert shape(model, "a") == ["7", "2"]
    assert [str(dimension) for dimension in model.ir.graph.inputs[1].shape] == ["7", "3"], "B is one size"
    assert shape(model, "y") == ["7", "5"]


def test_a_given_size_does_not_overrule_a_declared_one(make_model):
    model = make_model(CHAIN)
    infer_shapes(model.ir, {"x": (7, 9), "nobody": (1,)})
    assert shape(model, "a") == ["7", "2"]


def test_an_input_without_a_shape_takes_the_given_one(make_model):
    model = make_model("g (float[] x) => (float[] y) { a = Relu(x)  y = Neg(a) }")
    model.ir.graph.inputs[0].shape = None
    infer_shapes(model.ir, {"x": (3, 4)})
    assert shape(model, "a") == ["3", "4"]


def test_shape_arithmetic_is_followed(make_model):
    model = make_model(
        """g (float[B,2,3] x) => (float[M,N] y) {
        s = Shape(x)  b = Gather(s, zero)  t = Concat<axis = 0>(b, minus)  a = Reshape(x, t)  y = Neg(a) }""",
        zero=np.int64([0]), minus=np.int64([-1]),
    )  # fmt: skip
    infer_shapes(model.ir, {"x": (5, 2, 3)})
    assert shape(model, "a") == ["5", "6"]


def test_what_a_loop_declares_of_its_state_is_a_claim(make_model):
    model = make_model("""g (int64 n, bool go, int64[1] x) => (int64[M] y) {
        y = Loop (n, go, x) <body = b (int64 i, bool c, int64[1] v) => (bool d, int64[2] w) {
            d = Identity(c)  a = Neg(v)  w = Concat<axis = 0>(a, a) }> }""")
    forget_claims(model.ir)
    infer_shapes(model.ir)
    body = model.ir.graph[0].attributes["body"].as_graph()
    assert [value.shape is None for value in body.inputs] == [False, False, True]
    assert all(value.shape is None or "2" not in map(str, value.shape) for value in body.outputs)


def test_subgraphs_get_shapes_too(make_model):
    model = make_model("""g (bool c, float[B,2] x) => (float[B,2] y) {
        y = If (c) <then_branch = t () => (float[B,2] p) { r = Exp(x)  p = Relu(r) },
                    else_branch = e () => (float[B,2] q) { q = Neg(x) }> }""")
    infer_shapes(model.ir, {"x": (4, 2)})
    assert shape(model, "r") == ["4", "2"]


FUNCTION = """<domain: "own", opset_import: ["" : 17]> twice <k> (u) => (v) {
    e = Transpose<perm: ints = @k>(u)  v = Exp(e) }"""


def test_functions_get_the_shapes_of_their_calls(make_model):
    text = "g (float[2,3] x) => (float[3,2] y) { a = own.twice<k = [1, 0]>(x)  y = Neg(a) }"
    model = make_model(text, functions=FUNCTION)
    infer_shapes(model.ir)
    assert shape(model, "e") == ["3", "2"]
    assert shape(model, "a") == ["3", "2"]


def test_calls_that_disagree_leave_open_what_they_disagree_in(make_model):
    text = """g (float[2,3] x, float[5,3] z) => (float[3,2] y, float[3,5] w) {
        y = own.twice<k = [1, 0]>(x)  w = own.twice<k = [1, 0]>(z) }"""
    model = make_model(text, functions=FUNCTION)
    infer_shapes(model.ir)
    assert shape(model, "e")[0] == "3"
    assert shape(model, "e")[1] not in {"2", "5"}


def test_what_follows_only_from_data_stays_open(make_model):
    model = make_model("g (float[8] x) => (int64[1,N] y) { n = NonZero(x)  a = Abs(x)  y = Neg(n) }")
    infer_shapes(model.ir)
    assert shape(model, "a") == ["8"]
    assert not {"8"} & {*shape(model, "n"), *shape(model, "y")}


def test_contradictions_do_not_raise(make_model):
    model = make_model("g (float[2,3] x, float[4,5] z) => (float[2,5] y) { y = MatMul(x, z) }")
    infer_shapes(model.ir, {"x": (1, 1, 1)})
    assert [str(dimension) for dimension in model.ir.graph.inputs[0].shape] == ["2", "3"]


@pytest.mark.parametrize("declared", ["float[] y", "float[M,N] y"])
def test_outputs_without_a_shape_get_one(make_model, declared):
    model = make_model(f"g (float[2,3] x) => ({declared}) {{ y = Transpose(x) }}")
    model.ir.graph.outputs[0].shape = None
    fill_outputs(model.ir)
    assert list(model.ir.graph.outputs[0].shape) == [3, 2]


HUGE = """
import resource, sys
from edgeopt.graph.model import load
from edgeopt.graph.shapes.infer import infer_shapes
model = load(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
infer_shapes(model.ir)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_a_huge_integer_tensor_is_not_followed_number_by_number(write_model):
    """onnx would take a gigabyte for this one; in a process of its own, where the peak can be told."""
    path = write_model("g (int64[8000000] x) => (int64[8000000] y) { a = Add(x, x)  y = Neg(a) }")
    done = subprocess.run(
        [sys.executable, "-c", HUGE, str(path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert int(done.stdout) * (1 if sys.platform == "darwin" else 1024) < 300e6
