import numpy as np
import onnx.parser
import onnx_ir as ir
import pytest

from edgeopt.backends.onnxruntime.lowering.forms import FORMS, LINES, OPERATOR_FORMS
from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.structure import infer_shapes

RANDOM = np.random.default_rng(2)
GRAPH = "g (float[1,32,5,5] x) => (float[1,32,5,5] y) {{ {} }}"
NUMBERS = {"two": 2, "three": 3, "zero": 0, "six": 6, "sixth": 1 / 6, "third": 1 / 3}


NORMALIZATION = """m = ReduceMean <axes = [-1]> (x) d = Sub(x, m) s = Pow(d, two) v = ReduceMean <axes = [-1]> (s)
    e = Add(v, sixth) r = Sqrt(e) n = Div(d, r) h = Mul(n, scale) y = Add(h, scale)"""


def model_of(text, **weights):
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    for name, array in {**NUMBERS, **weights}.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array, np.float32), name))
    model = ir.from_proto(proto)
    infer_shapes(model)
    return model


def kinds(model):
    return [node.op_type for graph in model.graphs() for node in graph]


@pytest.mark.parametrize(("text", "operators"), [
    ("y = Pow(x, two)", ["Mul"]),
    ("a = Add(x, three) b = Clip(a, zero, six) y = Div(b, six)", ["HardSigmoid"]),
    ("a = Add(three, x) b = Clip(a, zero, six) y = Mul(sixth, b)", ["HardSigmoid"]),
])  # fmt: skip
def test_activations_take_the_form_that_has_a_kernel(lower, text, operators):
    result = lower(OPERATOR_FORMS, model_of(GRAPH.format(text)))
    assert kinds(result.model) == operators


@pytest.mark.parametrize("width", [4, 8])
def test_narrow_groups_become_blocks_of_sixteen(lower, width):
    text = f"y = Conv <group = {32 // width}, pads = [1, 1, 1, 1]> (x, w, b)"
    weights = {"w": RANDOM.standard_normal((32, width, 3, 3)), "b": np.arange(32)}
    result = lower(OPERATOR_FORMS, model_of(GRAPH.format(text), **weights))
    (conv,) = result.model.graph
    assert conv.attributes["group"].as_int() == 2
    assert conv.inputs[1].shape == (32, 16, 3, 3)
    assert result.applied[0].nodes == ("Conv 'y'",)


def test_in_a_subgraph(lower):
    text = """g (float[2] x, int64 p) => (float[2] y) { c = Cast <to = 9> (p) y = If (c) <
        then_branch = t () => (float[2] u) { u = Pow(x, two) },
        else_branch = e () => (float[2] v) { v = Neg(x) } > }"""
    assert kinds(lower(OPERATOR_FORMS, model_of(text)).model) == ["Cast", "If", "Mul", "Neg"]


@pytest.mark.parametrize("text", [
    "y = Pow(x, three)",
    "a = Add(x, three) b = Clip(a, zero, six) y = Mul(b, third)",  # it would rise to 2
    "a = Add(x, three) b = Clip(a, three, six) y = Mul(b, sixth)",
    "y = Conv <group = 16, pads = [1, 1, 1, 1]> (x, pairs)",
    # A normalization, which stays whole.
    NORMALIZATION,
])  # fmt: skip
def test_what_only_looks_like_it_stays(text):
    weights = {"pairs": RANDOM.standard_normal((32, 2, 3, 3)), "scale": np.ones(5)}
    model = model_of(GRAPH.format(text), **weights)
    result = OPERATOR_FORMS.apply(model, PassContext())
    assert (result.applied, result.refused) == ((), ())
    assert kinds(result.model) == kinds(model)


def test_weights_that_would_become_large_stay_and_are_named(said):
    text = "g (float[1,2048,8,8] x) => (float[1,2048,1,1] y) { y = Conv <group = 512> (x, w) }"
    result = OPERATOR_FORMS.apply(model_of(text, w=np.zeros((2048, 4, 8, 8))), PassContext())
    assert not result.applied
    assert "too large with zeros" in said(result)
    assert result.refused[0].nodes == ("Conv 'y'",)


def test_they_are_of_this_runtime_alone():
    assert {form.runtimes for form in FORMS} == {("onnxruntime",)}


@pytest.mark.parametrize(("factor", "fused"), [(1 / 6, True), (0.1667, False), (1 / 6 + 1e-6, False)])
def test_a_hard_sigmoid_ends_at_one(lower, factor, fused):
    text = "a = Add(x, three) b = Clip(a, zero, six) y = Mul(b, factor)"
    result = OPERATOR_FORMS.apply(model_of(GRAPH.format(text), factor=np.float32(factor)), PassContext())
    assert ("HardSigmoid" in kinds(result.model)) is fused


LINE_RANDOM = np.random.default_rng(4)
WEIGHTS = {"w": (8, 8, 3), "d": (8, 1, 3), "b": (8,), "gain": (8, 1), "along": (20,), "slope": ()}
LINE_GRAPH = "g (float[1,8,20] x) => (float[1,8,{}] y) {{ {} }}"


def lines_of(text, opset=17):
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {text}')
    for name, shape in WEIGHTS.items():
        array = LINE_RANDOM.standard_normal(shape).astype(np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), name))
    model = ir.from_proto(proto)
    infer_shapes(model)
    return model


def test_one_convolution(lower):
    text = "y = Conv <strides = [2], pads = [2, 1], dilations = [2], kernel_shape = [3]> (x, w, b)"
    result = lower(LINES, lines_of(LINE_GRAPH.format(10, text)))
    assert kinds(result.model) == ["Unsqueeze", "Conv", "Squeeze"]
    assert result.applied[0].nodes == ("Conv 'y'",)
    assert [value.name for value in result.model.graph.outputs] == ["y"]


@pytest.mark.parametrize(("text", "length", "between"), [
    ("a = Conv(x, w, b) r = Relu(a) y = Conv <group = 8> (r, d)", 16, ["Conv", "Relu", "Conv"]),
    ("a = Conv <auto_pad = \"SAME_UPPER\"> (x, w) m = Mul(a, gain) s = Add(m, along) y = Conv(s, w)", 18,
     ["Conv", "Mul", "Add", "Conv"]),
    ("a = Conv <pads = [1, 1]> (x, w) c = Conv <pads = [1, 1], group = 8> (x, d) y = Add(a, c)", 20,
     ["Conv", "Conv", "Add"]),
    ("a = Conv <pads = [1, 1]> (x, w) y = MaxPool <kernel_shape = [2], strides = [2]> (a)", 10,
     ["Conv", "MaxPool"]),
    ("a = Conv <pads = [1, 1]> (x, w) y = Add(a, x)", 20, ["Conv", "Add"]),
    ("a = Conv <pads = [1, 1]> (x, w) y = PRelu(a, gain)", 20, ["Conv", "PRelu"]),
])  # fmt: skip
def test_what_stands_between_is_taken_along(lower, text, length, between):
    result = lower(LINES, lines_of(LINE_GRAPH.format(length, text)))
    assert kinds(result.model) == ["Unsqueeze", *between, "Squeeze"]


def test_what_meets_another_line_comes_back_before(lower):
    text = "n = Neg(x) a = Conv <pads = [1, 1]> (x, w) y = Add(a, n)"
    result = lower(LINES, lines_of(LINE_GRAPH.format(20, text)))
    assert kinds(result.model) == ["Neg", "Unsqueeze", "Conv", "Squeeze", "Add"]


def test_what_others_read_is_there_as_a_line_too(lower):
    text = "r = Conv <pads = [1, 1]> (x, w) c = Conv <pads = [1, 1]> (r, w) m = Softmax(r) y = Add(c, m)"
    result = lower(LINES, lines_of(LINE_GRAPH.format(20, text)))
    assert kinds(result.model).count("Unsqueeze") == 1
    assert kinds(result.model).count("Conv") == 2


def test_lines_in_a_subgraph(lower):
    text = """g (float[1,8,20] x, int64 p) => (float[1,8,20] y) { c = Cast <to = 9> (p) y = If (c) <
        then_branch = t () => (float[1,8,20] u) { u = Conv <pads = [1, 1]> (x, w) },
        else_branch = e () => (float[1,8,20] v) { v = Neg(x) } > }"""
    assert kinds(lower(LINES, lines_of(text)).model) == ["Cast", "If", "Unsqueeze", "Conv", "Squeeze", "Neg"]


@pytest.mark.parametrize(("text", "opset", "says"), [
    ("v = Neg(w) y = Conv <pads = [1, 1]> (x, v)", 17, "its weights are not constant"),
    ("y = Conv <pads = [1, 1]> (x, w)", 12, "needs opset 13"),
])  # fmt: skip
def test_what_cannot_be_is_refused_by_name(said, text, opset, says):
    result = LINES.apply(lines_of(LINE_GRAPH.format(20, text), opset), PassContext())
    assert not result.applied
    assert says in said(result)
    assert result.refused[0].nodes == ("Conv 'y'",)


def test_pictures_are_left_alone():
    model = lines_of("g (float[1,8,5,5] x) => (float[1,8,5,5] y) { y = Relu(x) }")
    result = LINES.apply(model, PassContext())
    assert (result.applied, result.refused) == ((), ())
