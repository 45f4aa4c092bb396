from edgeopt.graph.model import load
from edgeopt.quant.layers import find_layers
from edgeopt.quant.plan.borders import borders, neighbours
from edgeopt.quant.records import Gain
from tests.conftest import seeded, write_onnx


def forked(tmp_path):
    """first -> Relu -> (second, third) -> Add -> last"""
    nodes = [
        ("MatMul", ["x", "w0"], ["a"], {}),
        ("Relu", ["a"], ["r"], {}),
        ("MatMul", ["r", "w1"], ["b"], {}),
        ("MatMul", ["r", "w2"], ["c"], {}),
        ("Add", ["b", "c"], ["s"], {}),
        ("MatMul", ["s", "w3"], ["y"], {}),
    ]
    weights = {f"w{k}": seeded(8, 8, seed=k) for k in range(4)}
    model = load(write_onnx(tmp_path / "forked.onnx", nodes, weights, {"x": (1, 8)}, {"y": (1, 8)})).ir
    return model, find_layers(model, {"x": (1, 8)})


def test_neighbours_have_no_other_layer_between_them(tmp_path):
    model, layers = forked(tmp_path)
    first, second, third, last = (layer.name for layer in layers)
    assert set(neighbours(model, layers)) == {(first, second), (first, third), (second, last), (third, last)}


def test_what_a_layer_pays_is_divided_among_its_neighbours(tmp_path):
    model, layers = forked(tmp_path)
    gains = [Gain(layer.name, "int8", 1.0, 0.5, boundary_ms=0.4) for layer in layers]
    found = borders(model, layers, gains)
    assert len(found) == 4
    assert sum(border.cost_ms for border in found) == 0.5 * sum(gain.boundary_ms for gain in gains)


def test_where_nothing_is_converted_there_are_none(tmp_path):
    model, layers = forked(tmp_path)
    assert borders(model, layers, [Gain(layer.name, "int8", 1.0, 0.5) for layer in layers]) == ()
