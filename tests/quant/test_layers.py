import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgeopt.graph.model import load
from edgeopt.quant.layers import find_layers, nodes_by_key
from tests.conftest import seeded, write_onnx
from tests.quant.small_models import odd_net, picture_net, token_net


def layers_of(path, **shapes):
    return find_layers(load(path).ir, shapes)


def only(path, **shapes):
    (layer,) = layers_of(path, **shapes)
    return layer


def test_they_come_in_the_order_of_the_graph_with_all_that_is_known_of_them(tmp_path):
    layers = picture_net(tmp_path).layers
    assert [layer.operator for layer in layers] == ["Conv", "Conv", "Conv", "Conv", "Gemm"]
    first, depthwise, last = layers[0], layers[1], layers[-1]
    assert (first.weight, first.inputs, first.outputs) == ("k1", ("x",), ("c1",))
    assert (first.multiply_adds, first.parameters) == (16 * 3 * 9 * 64, 16 * 3 * 9)
    assert depthwise.multiply_adds == 16 * 9 * 64
    assert (last.weight_shape, last.channel_axis, last.multiply_adds) == ((10, 24), 0, 240)
    assert not any(layer.reason for layer in layers)


def test_weights_whose_recorded_shape_names_open_dimensions_are_measured_by_their_numbers(tmp_path):
    model = load(picture_net(tmp_path).path).ir
    weight = model.graph.initializers["k1"]
    weight.shape = ir.Shape(["many", *weight.shape[1:]])
    first = find_layers(model, {})[0]
    assert (first.weight_shape, first.parameters) == ((16, 3, 3, 3), 16 * 3 * 9)


def test_products_of_activations_are_layers_without_weights(tmp_path):
    layers = token_net(tmp_path).layers
    assert [(layer.weight, layer.inputs) for layer in layers if not layer.weight] == [
        ("", ("q", "kt")),
        ("", ("shares", "v")),
    ]
    assert [layer.channel_axis for layer in layers if layer.weight] == [1, 1, 1, 1]


def test_nodes_that_share_weights_are_one_layer(tmp_path):
    one = odd_net(tmp_path)
    shared = one.layers[0]
    assert shared.nodes == ("c1", "c2"), "nodes without names are called by what they give"
    assert shared.inputs == ("x", "c1")
    assert shared.multiply_adds == 2 * 4 * 4 * 9 * 64
    assert set(shared.nodes) <= set(nodes_by_key(one.model.graph))


def test_channels_of_weights(tmp_path):
    found = {layer.operator: layer.channel_axis for layer in odd_net(tmp_path).layers}
    assert found == {"Conv": 0, "ConvTranspose": 1, "MatMul": None, "Gather": 0}
    path = write_onnx(
        tmp_path / "m.onnx",
        [("ConvTranspose", ["x", "t"], ["y"], {"group": 2})],
        {"t": seeded(4, 4, 3, 3)},
        {"x": [1, 4, 8, 8]},
        {"y": [1, 8, 10, 10]},
    )
    assert only(path).channel_axis is None, "the groups share what would be the channels' scales"


def test_shapes_are_those_of_the_data(matmul_model):
    one, three = (layers_of(matmul_model, x=(batch, 32))[0].multiply_adds for batch in (1, 3))
    assert (one, three) == (32 * 64, 3 * 32 * 64)


X = {"x": [1, 16]}
Y = {"y": [1, 8]}
LARGE = seeded(16, 8)


@pytest.mark.parametrize(
    ("node", "weights", "said"),
    [
        (("MatMul", ["x", "w"], ["y"], {}), {"w": LARGE[:, :2]}, "it has only 32 weights"),
        (("MatMul", ["x", "w"], ["y"], {}), {"w": seeded(16)}, "it has only 16 weights"),
        (("MatMul", ["w", "x"], ["y"], {}), {"w": seeded(16, 16)}, "its weights are the left operand"),
        (("Gemm", ["x", "w"], ["y"], {"alpha": 0.5}), {"w": LARGE}, "it scales its product"),
        (("LSTM", ["x", "w", "r"], ["y"], {"hidden_size": 4}), {"w": seeded(1, 16, 16), "r": seeded(1, 16, 4)},
         "no scheme computes an LSTM"),
        (("MatMul", ["x", "w"], ["y"], {}), {"w": LARGE}, ""),
    ],
)  # fmt: skip
def test_what_stays_float_says_why(tmp_path, node, weights, said):
    layer = only(write_onnx(tmp_path / "m.onnx", [node], weights, X, Y))
    assert layer.reason.startswith(said)
    assert bool(said) == bool(layer.reason)


def test_half_precision_stays(tmp_path):
    nodes = [("Cast", ["x"], ["h"], {"to": TensorProto.FLOAT16}), ("MatMul", ["h", "w"], ["m"], {}),
             ("Cast", ["m"], ["y"], {"to": TensorProto.FLOAT})]  # fmt: skip
    layer = only(write_onnx(tmp_path / "m.onnx", nodes, {"w": LARGE.astype(np.float16)}, X, Y))
    assert layer.reason == "its weights are float16, not float32"


def test_computed_weights_stay(tmp_path):
    nodes = [("Mul", ["k", "s"], ["scaled"], {}), ("Conv", ["x", "scaled"], ["y"], {})]
    path = write_onnx(
        tmp_path / "m.onnx",
        nodes,
        {"k": seeded(8, 4, 3, 3)},
        {"x": [1, 4, 6, 6], "s": [1]},
        {"y": [1, 8, 4, 4]},
    )
    assert only(path).reason == "its weights are computed while the model runs, or are an input of it"


def test_weights_that_are_an_output_stay(tmp_path):
    path = write_onnx(
        tmp_path / "m.onnx", [("MatMul", ["x", "w"], ["y"], {})], {"w": LARGE}, X, {**Y, "w": [16, 8]}
    )
    assert only(path).reason == "its weights are also an output of the model"


def branching(path):
    """A model with a product in each branch, and one in a function."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [1, 16]), ("y", [1, 16])))
    weight = numpy_helper.from_array(seeded(16, 16), "w")

    def branch(name):
        out = helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 16])
        return helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], [name], f"{name}_product")], name, [], [out]
        )

    nodes = [
        helper.make_node("If", ["c"], ["m"], "choose", then_branch=branch("a"), else_branch=branch("b")),
        helper.make_node("Twice", ["m", "w"], ["y"], "called", domain="own"),
    ]
    inner = [helper.make_node("MatMul", ["p", "q"], ["r"], "inner")]
    function = helper.make_function("own", "Twice", ["p", "q"], ["r"], inner, [helper.make_opsetid("", 17)])
    c = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    model = helper.make_model(
        helper.make_graph(nodes, "m", [x, c], [y], [weight]),
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("own", 1)],
        functions=[function],
        ir_version=8,
    )
    onnx.save(model, path)
    return path


def test_what_stands_inside_others_is_listed_and_stays(tmp_path):
    found = {layer.name: layer.reason for layer in layers_of(branching(tmp_path / "m.onnx"))}
    assert found == {
        "choose/a_product": "it is in a branch or loop ('choose')",
        "choose/b_product": "it is in a branch or loop ('choose')",
        "Twice/inner": "it is in the function 'Twice'",
    }


def test_names_that_come_twice_can_be_told_apart(tmp_path):
    nodes = [("MatMul", ["x", "a"], ["m"], {}), ("MatMul", ["m", "b"], ["y"], {})]
    path = write_onnx(tmp_path / "m.onnx", nodes, {"a": seeded(16, 16), "b": seeded(16, 8)}, X, Y)
    proto = onnx.load(path)
    for node in proto.graph.node:
        node.name = "same"
    onnx.save(proto, path)
    model = load(path).ir
    first, second = find_layers(model)
    assert first.name != second.name
    assert nodes_by_key(model.graph)[second.name].outputs[0].name == "y"
