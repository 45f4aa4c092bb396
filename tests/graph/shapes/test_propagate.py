import itertools

import numpy as np
import onnx_ir as ir
import pytest

from edgeopt.graph.pipeline import run_pipeline
from edgeopt.graph.shapes.infer import infer_shapes


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


POOL = "{op}<ceil_mode = 1, kernel_shape = [2, 2], pads = {pads}, strides = {strides}>"
CASES = list(itertools.product(("MaxPool", "AveragePool"), (5, 6, 7), ((0, 0), (1, 1), (0, 1), (1, 0)), (1, 2, 3)))


@pytest.mark.parametrize("case", CASES)
def test_a_pool_that_rounds_up_has_the_size_that_runtimes_give_it(make_model, case):
    op, size, (before, after), stride = case
    runtime = pytest.importorskip("onnxruntime")
    pool = POOL.format(op=op, pads=[before, 0, after, 1], strides=[stride, 2])
    model = make_model(f"g (float[1,2,{size},6] x) => (float[1,2,M,N] y) {{ p = {pool}(x)  y = Neg(p) }}")
    infer_shapes(model.ir)
    session = runtime.InferenceSession(str(model.path), providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {"x": np.ones((1, 2, size, 6), np.float32)})
    known = next(node.outputs[0] for node in model.ir.graph if node.op_type == op)
    assert tuple(known.shape) == result.shape


def test_what_follows_from_its_size_is_folded_rightly(make_model, results, kinds):
    pool = POOL.format(op="MaxPool", pads=[1, 1, 1, 1], strides=[2, 2])
    model = make_model(f"g (float[1,2,5,5] x) => (int64[4] y) {{ p = {pool}(x)  a = Neg(p)  y = Shape(a) }}")
    result = run_pipeline(model)
    assert "MaxPool" not in kinds(result.model_ir)
    assert results(result.model_ir, x=np.ones((1, 2, 5, 5), np.float32))[0].tolist() == [1, 2, 3, 3]


def test_in_a_branch_and_behind_a_shape_that_has_to_be_computed(make_model):
    pool = POOL.format(op="MaxPool", pads=[1, 1, 1, 1], strides=[2, 2])
    text = f"""g (bool k, float[1,2,5,5] x) => (float[A,B,C,D] y) {{
        s = Shape(x)  r = Reshape(x, s)
        y = If (k) <then_branch = t () => (float[1,2,M,N] a) {{ p = {pool}(r)  a = Neg(p) }},
                    else_branch = e () => (float[1,2,M,N] b) {{ q = {pool}(r)  b = Abs(q) }}> }}"""
    model = make_model(text)
    infer_shapes(model.ir)
    inner = [node.outputs[0] for graph in model.ir.graphs() for node in graph if node.op_type == "MaxPool"]
    assert [tuple(value.shape) for value in inner] == [(1, 2, 3, 3)] * 2


def test_the_model_itself_keeps_its_pool(make_model):
    pool = POOL.format(op="MaxPool", pads=[1, 1, 1, 1], strides=[2, 2])
    model = make_model(f"g (float[1,2,5,5] x) => (float[1,2,M,N] y) {{ y = {pool}(x) }}")
    infer_shapes(model.ir)
    (node,) = model.ir.graph
    assert node.attributes["ceil_mode"].as_int() == 1
    assert list(node.attributes["pads"].as_ints()) == [1, 1, 1, 1]


def test_inside_a_function():
    """Small values and pools are followed there as in the graph."""
    text = """<ir_version: 9, opset_import: ["" : 17, "own" : 1]>
        g (float[1,2,5,5] x) => (float[A,B] y) { y = own.flat(x) }
        <domain: "own", opset_import: ["" : 17]> flat (x) => (y) {
        p = MaxPool<ceil_mode = 1, kernel_shape = [2, 2], pads = [1, 1, 1, 1], strides = [2, 2]>(x)
        n = Size(p)  two = Constant<value_ints = [2]>()  half = Div(n, two)  t = Concat<axis = 0>(two, half)
        y = Reshape(p, t) }"""
    model = ir.from_onnx_text(text)
    infer_shapes(model)
    (function,) = model.functions.values()
    known = {value.name: value.shape for node in function for value in node.outputs}
    assert known["p"] == (1, 2, 3, 3)
    assert known["y"] == (2, 9)
