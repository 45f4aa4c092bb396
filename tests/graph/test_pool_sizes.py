import itertools

import numpy as np
import pytest

from edgeopt.graph.pipeline import run_pipeline
from edgeopt.graph.shapes import infer_shapes

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
