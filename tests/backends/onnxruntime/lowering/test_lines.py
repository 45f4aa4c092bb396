import numpy as np
import onnx.parser
import onnx_ir as ir
import pytest

from edgeopt.backends.onnxruntime.lowering.forms import LINES
from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.structure import infer_shapes

RANDOM = np.random.default_rng(4)
WEIGHTS = {"w": (8, 8, 3), "d": (8, 1, 3), "b": (8,), "gain": (8, 1), "along": (20,), "slope": ()}
GRAPH = "g (float[1,8,20] x) => (float[1,8,{}] y) {{ {} }}"


def model_of(text, opset=17):
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {text}')
    for name, shape in WEIGHTS.items():
        array = RANDOM.standard_normal(shape).astype(np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), name))
    model = ir.from_proto(proto)
    infer_shapes(model)
    return model


def kinds(model):
    return [node.op_type for graph in model.graphs() for node in graph]


def test_one_convolution(lower):
    text = "y = Conv <strides = [2], pads = [2, 1], dilations = [2], kernel_shape = [3]> (x, w, b)"
    result = lower(LINES, model_of(GRAPH.format(10, text)))
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
    result = lower(LINES, model_of(GRAPH.format(length, text)))
    assert kinds(result.model) == ["Unsqueeze", *between, "Squeeze"]


def test_what_meets_another_line_comes_back_before(lower):
    text = "n = Neg(x) a = Conv <pads = [1, 1]> (x, w) y = Add(a, n)"
    result = lower(LINES, model_of(GRAPH.format(20, text)))
    assert kinds(result.model) == ["Neg", "Unsqueeze", "Conv", "Squeeze", "Add"]


def test_what_others_read_is_there_as_a_line_too(lower):
    text = "r = Conv <pads = [1, 1]> (x, w) c = Conv <pads = [1, 1]> (r, w) m = Softmax(r) y = Add(c, m)"
    result = lower(LINES, model_of(GRAPH.format(20, text)))
    assert kinds(result.model).count("Unsqueeze") == 1
    assert kinds(result.model).count("Conv") == 2


def test_in_a_subgraph(lower):
    text = """g (float[1,8,20] x, int64 p) => (float[1,8,20] y) { c = Cast <to = 9> (p) y = If (c) <
        then_branch = t () => (float[1,8,20] u) { u = Conv <pads = [1, 1]> (x, w) },
        else_branch = e () => (float[1,8,20] v) { v = Neg(x) } > }"""
    assert kinds(lower(LINES, model_of(text)).model) == ["Cast", "If", "Unsqueeze", "Conv", "Squeeze", "Neg"]


@pytest.mark.parametrize(("text", "opset", "says"), [
    ("v = Neg(w) y = Conv <pads = [1, 1]> (x, v)", 17, "its weights are not constant"),
    ("y = Conv <pads = [1, 1]> (x, w)", 12, "needs opset 13"),
])  # fmt: skip
def test_what_cannot_be_is_refused_by_name(said, text, opset, says):
    result = LINES.apply(model_of(GRAPH.format(20, text), opset), PassContext())
    assert not result.applied
    assert says in said(result)
    assert result.refused[0].nodes == ("Conv 'y'",)


def test_pictures_are_left_alone():
    model = model_of("g (float[1,8,5,5] x) => (float[1,8,5,5] y) { y = Relu(x) }")
    result = LINES.apply(model, PassContext())
    assert (result.applied, result.refused) == ((), ())
