import numpy as np
import pytest

from edgeopt.graph.shapes import infer_shapes


def sizes(model, name):
    value = next(v for node in model.ir.graph for v in node.outputs if v.name == name)
    return None if value.shape is None else [str(dimension) for dimension in value.shape]


def test_a_size_that_is_computed_from_two_shapes(make_model):
    """onnx's own propagation does not divide."""
    model = make_model(
        """g (float[2,3,8] x) => (float[M,N,K] y) {
        s = Shape(x)  last = Gather(s, two)  half = Div(last, two)  t = Concat<axis = 0>(start, half)
        a = Reshape(x, t)  y = Neg(a) }""",
        two=np.int64([2]), start=np.int64([2, -1]),
    )  # fmt: skip
    infer_shapes(model.ir)
    assert sizes(model, "a") == ["2", "6", "4"]
    assert sizes(model, "y") == ["M", "N", "K"], "the output keeps its names"


BRANCHES = """g (float[2,3] x) => (float[M,N] y) {{
    s = Size(x)  c = Equal(s, {})
    a = If (c) <then_branch = t () => (float[2,3] p) {{ p = Relu(x) }},
                else_branch = e () => (float[3,2] q) {{ q = Transpose(x) }}>
    b = Neg(a)  y = Abs(b) }}"""


@pytest.mark.parametrize(("number", "shape"), [("six", ["2", "3"]), ("one", ["3", "2"])])
def test_the_branch_that_shapes_decide(make_model, number, shape):
    model = make_model(BRANCHES.format(number), six=np.int64(6), one=np.int64(1))
    infer_shapes(model.ir)
    assert sizes(model, "b") == shape


def test_a_branch_that_data_decide_stays_open(make_model):
    model = make_model("""g (bool c, float[2,3] x) => (float[M,N] y) {
        a = If (c) <then_branch = t () => (float[2,3] p) { p = Relu(x) },
                    else_branch = e () => (float[3,2] q) { q = Transpose(x) }>
        y = Neg(a) }""")
    infer_shapes(model.ir)
    assert not {"2", "3"} & set(sizes(model, "a"))


def test_the_model_itself_keeps_its_nodes(make_model, kinds):
    model = make_model(BRANCHES.format("six"), six=np.int64(6))
    before = kinds(model.ir)
    infer_shapes(model.ir)
    assert kinds(model.ir) == before
