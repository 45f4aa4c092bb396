import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

from edgeopt.backends.openvino.lowering.forms import FORMS, PASS
from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.structure import infer_shapes

RANDOM = np.random.default_rng(6)
KEYS = "g (float[n,3,2,5] x, float[n,7,2,5] z) => (float[n,2,3,7] y) {{ {} y = MatMul(q, k) }}"
TURNED = "q = Transpose <perm = [0, 2, 1, 3]> (x) k = Transpose <perm = [0, 2, 3, 1]> (z)"
PATCHES = """g (float[n,3,8,12] x) => (float[n,6,5] y) {{ c = Conv <strides = [4, 4], kernel_shape = [4, 4]> ({})
    r = Reshape(c, flat) y = Transpose <perm = [0, 2, 1]> (r) }}"""


def model_of(text, **weights):
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    for name, array in weights.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), name))
    model = ir.from_proto(proto)
    infer_shapes(model)
    return model


def numbers(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def kinds(model):
    return [node.op_type for graph in model.graphs() for node in graph]


def lowered(model, **feeds):
    """The lowered model; it is valid and says the same."""
    result = PASS.apply(model, PassContext())
    onnx.checker.check_model(ir.to_proto(result.model))
    (wanted,), (got,) = (ReferenceEvaluator(ir.to_proto(one)).run(None, feeds) for one in (model, result.model))
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
    return result


def test_keys_are_turned_in_two_steps():
    result = lowered(model_of(KEYS.format(TURNED)), x=numbers(2, 3, 2, 5), z=numbers(2, 7, 2, 5))
    orders = [
        list(node.attributes["perm"].as_ints()) for node in result.model.graph if node.op_type == "Transpose"
    ]
    assert orders == [[0, 2, 1, 3], [0, 2, 1, 3], [0, 1, 3, 2]]
    assert result.applied[0].nodes == ("Transpose 'k'",)


@pytest.mark.parametrize("inputs", ["x, w", "x, w, b"])
def test_points_of_a_line_are_multiplied(inputs):
    text = f"g (float[n,4,9] x) => (float[n,6,9] y) {{ y = Conv({inputs}) }}"
    result = lowered(model_of(text, w=numbers(6, 4, 1), b=numbers(6)), x=numbers(2, 4, 9))
    assert kinds(result.model) == ["MatMul", *(["Add"] if "b" in inputs else [])]


@pytest.mark.parametrize("inputs", ["x, w", "x, w, b"])
def test_patches_of_a_picture_are_multiplied(inputs):
    weights = {"w": numbers(5, 3, 4, 4), "b": numbers(5), "flat": np.int64([0, 5, 6])}
    result = lowered(model_of(PATCHES.format(inputs), **weights), x=numbers(2, 3, 8, 12))
    assert kinds(result.model)[:4] == ["Reshape", "Transpose", "Reshape", "MatMul"]
    assert result.applied[0].nodes == ("Conv 'c'", "Reshape 'r'", "Transpose 'y'")


def test_in_a_subgraph():
    text = """g (float[1,4,9] x, bool p) => (float[1,4,9] y) { y = If (p) <
        then_branch = t () => (float[1,4,9] u) { u = Conv(x, w) },
        else_branch = e () => (float[1,4,9] v) { v = Neg(x) } > }"""
    result = lowered(model_of(text, w=numbers(4, 4, 1)), x=numbers(1, 4, 9), p=np.array(True))
    assert kinds(result.model) == ["If", "MatMul", "Neg"]


def test_keys_that_others_read_stay_and_are_named():
    text = KEYS.format(TURNED).replace("y)", "y, float[n,2,5,7] k)", 1)
    result = PASS.apply(model_of(text), PassContext())
    assert not result.applied
    (refusal,) = result.refused
    assert refusal.reason == "what Transpose 'k' gives is used elsewhere too"
    assert refusal.nodes == ("MatMul 'y'",)


@pytest.mark.parametrize("text", [
    "g (float[1,4,9] x) => (float[1,4,9] y) { y = Conv <pads = [1, 1]> (x, three) }",
    "g (float[1,4,9] x) => (float[1,4,5] y) { y = Conv <strides = [2]> (x, one) }",
    "g (float[1,8,9] x) => (float[1,4,9] y) { y = Conv <group = 2> (x, one) }",
    # A border that the patches leave out.
    PATCHES.format("x, w").replace("8,12", "9,12"),
])  # fmt: skip
def test_what_only_looks_like_it_stays(text):
    weights = {
        "three": numbers(4, 4, 3),
        "one": numbers(4, 4, 1),
        "w": numbers(5, 3, 4, 4),
        "flat": np.int64([0, 5, 6]),
    }
    model = model_of(text, **weights)
    result = PASS.apply(model, PassContext())
    assert (result.applied, result.refused) == ((), ())
    assert kinds(result.model) == kinds(model)


def test_they_are_of_this_runtime_alone():
    assert {form.runtimes for form in FORMS} == {("openvino",)}
