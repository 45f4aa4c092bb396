"""What each form of each layer does to the layer's own output, with the float model's inputs.

All of it in one run a sample: beside each layer stand its forms, and only sums of squares come out.
"""

import math
from typing import TYPE_CHECKING

from edgeopt.data.samples import Samples
from edgeopt.quant.records import FLOAT
from edgeopt.quant.sensitivity.fakes import Fakes
from edgeopt.quant.sensitivity.switchboard import Switchboard, session

if TYPE_CHECKING:
    import onnx_ir as ir

Pair = tuple[str, str]
Meter = tuple[str, str, str]
"""Layer, form, node."""


def local_noise(board: Switchboard, samples: Samples) -> dict[Pair, float]:
    """For each layer and form the noise power over the signal power at the layer's outputs, all samples together.

    Of what the form does to the factors: rounding the result as well cuts off what a Relu behind it would, too.
    """
    if not board.pairs:
        return {}
    model, meters = _with_meters(board)
    running = session(model, 0)
    sums = dict.fromkeys(meters, 0.0)
    for place in range(len(samples)):
        for meter, value in zip(meters, running.run(None, samples.feeds(place)), strict=True):
            sums[meter] += float(value)
    totals: dict[Pair, float] = {}
    for (layer, form, _), value in sums.items():
        totals[layer, form] = totals.get((layer, form), 0.0) + value
    return {pair: _ratio(totals[pair], totals[pair[0], FLOAT]) for pair in board.pairs}


def _ratio(noise: float, signal: float) -> float:
    if not (math.isfinite(noise) and math.isfinite(signal)):
        return math.inf
    return noise / signal if signal else (math.inf if noise else 0.0)


def _with_meters(board: Switchboard) -> "tuple[ir.Model, list[Meter]]":
    """A copy of the model that returns only sums of squares, for each product and its change by each scheme."""
    from onnx_ir.passes import common

    from edgeopt.graph.nodes import quiet
    from edgeopt.quant.layers import nodes_by_key

    copy = board.model.clone()
    nodes = nodes_by_key(copy.graph)
    fakes = Fakes(board.model, copy, board.context)
    sums: dict[Meter, ir.Value] = {}
    for layer in board.layers:
        for key in layer.nodes:
            node = nodes[key]
            exact = node.outputs[0]
            last, sums[layer.name, FLOAT, key] = _summed(copy.graph, node, exact, None)
            for form in board.forms[layer.name]:
                made, (faked, *_) = fakes.nodes(key, layer, form, round_outputs=False)
                copy.graph.insert_after(last, made)
                last, sums[layer.name, form.name, key] = _summed(copy.graph, made[-1], faked, exact)
    copy.graph.outputs.clear()
    copy.graph.outputs.extend(sums.values())
    with quiet():
        common.RemoveUnusedNodesPass()(copy)
    return copy, list(sums)


def _summed(
    graph: "ir.Graph", behind: "ir.Node", value: "ir.Value", exact: "ir.Value | None"
) -> "tuple[ir.Node, ir.Value]":
    """The sum of squares of a value, or of its difference from the exact one."""
    import onnx_ir as ir

    nodes = [ir.node("Sub", [value, exact])] if exact is not None else []
    square = ir.node("ReduceSumSquare", [nodes[0].outputs[0] if nodes else value], {"keepdims": 0})
    for node in (*nodes, square):
        node.outputs[0].name = f"edgeopt/{node.op_type}/{value.name}"
    square.outputs[0].type, square.outputs[0].shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape([])
    graph.insert_after(behind, [*nodes, square])
    return square, square.outputs[0]
