import pytest

from edgeopt.graph.analysis.cost import Operand, cost_of
from edgeopt.graph.analysis.openvino_ir import layer_call, layer_type


def operands(*shapes):
    return [Operand(str(place), shape, 32) for place, shape in enumerate(shapes)]


@pytest.mark.parametrize(
    ("kind", "inputs", "output", "data", "macs"),
    [
        ("Convolution", [(1, 3, 4, 4), (8, 3, 3, 3)], (1, 8, 4, 4), {}, 128 * 27),
        ("GroupConvolution", [(1, 8, 4, 4), (8, 1, 1, 3, 3)], (1, 8, 4, 4), {}, 128 * 9),
        ("MatMul", [(7, 5), (7, 3)], (5, 3), {"transpose_a": "true", "transpose_b": "false"}, 15 * 7),
        (
            "LSTMSequence",
            [(2, 5, 3), (2, 1, 4), (2, 1, 4), (2,), (1, 16, 3), (1, 16, 4), (1, 16)],
            (2, 1, 5, 4),
            {"hidden_size": "4"},
            10 * (48 + 64),
        ),
    ],
)
def test_layers_cost_what_their_operators_cost(kind, inputs, output, data, macs):
    assert cost_of(layer_call(kind, operands(*inputs), operands(output), data)).macs == macs


def test_pools_know_their_kernel():
    cost = cost_of(layer_call("AvgPool", operands((1, 2, 4, 4)), operands((1, 2, 2, 2)), {"kernel": "2,2"}))
    assert cost.operations == 8 * 4


def test_a_layer_that_nobody_knows_is_unknown():
    assert layer_type("FarLayer") == "unknown"
    assert cost_of(layer_call("FarLayer", operands((1,)), operands((1,)), {})).unknown
