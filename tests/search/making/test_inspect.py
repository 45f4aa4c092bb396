import numpy as np
import onnx
import onnx.parser
import pytest

from edgeopt.errors import ModelError
from edgeopt.graph.model import load
from edgeopt.search.making.inspect import describe


@pytest.fixture
def parsed(tmp_path):
    """A model from onnx's text form, loaded."""

    def make(text, **weights):
        proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
        for name, array in weights.items():
            proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
        onnx.save(proto, tmp_path / "m.onnx")
        return load(tmp_path / "m.onnx")

    return make


def test_a_model(conv_model):
    facts = describe(load(conv_model))
    assert [(i.name, i.dtype, i.shape) for i in facts.inputs] == [("x", "float32", ("batch", 3, 16, 16))]
    assert [(o.name, o.shape) for o in facts.outputs] == [("y", ("batch", 10))]
    assert facts.nodes == sum(facts.operators.values()) == 6
    assert facts.size_bytes == conv_model.stat().st_size
    assert not facts.external


def test_weights_that_are_listed_as_inputs_are_weights(parsed):
    model = parsed("g (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }", w=np.float32([1, 2]))
    assert [i.name for i in describe(model).inputs] == ["x"]


def test_every_type_of_input(parsed):
    text = "g (int64[2] i, bool[2] b, string[2] s, float16[n] h) => (int64[2] y) { y = Identity(i) }"
    assert [i.dtype for i in describe(parsed(text)).inputs] == ["int64", "bool", "str", "float16"]


def test_external_weights_are_named_and_counted(tmp_path):
    big = np.zeros(5000, np.float32)
    graph = onnx.parser.parse_graph("g (float[5000] x) => (float[5000] y) { y = Add(x, w) }")
    graph.initializer.append(onnx.numpy_helper.from_array(big, "w"))
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin")
    facts = describe(load(tmp_path / "m.onnx"))
    assert facts.external == ("w.bin",)
    assert facts.size_bytes > 20_000


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("g () => (float[2] y) { y = Constant<value_floats = [1.0, 2.0]>() }", "no input"),
        ("g (seq(float[2]) x) => (seq(float[2]) y) { y = Identity(x) }", "'x' is not a plain tensor"),
        ("g (float x) => (float[n] y) { y = Relu(x) }", "number of dimensions"),
    ],
    ids=["constant", "sequence", "rank"],
)
def test_what_cannot_be_optimized(parsed, text, says):
    model = parsed(text)
    if says == "number of dimensions":
        model.ir.graph.inputs[0].shape = None
    with pytest.raises(ModelError, match=says) as raised:
        describe(model)
    assert raised.value.hint
