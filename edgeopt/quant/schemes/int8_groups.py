"""Scheme with 8-bit weights, and activations rounded to eight bits by groups while the model runs."""

from typing import TYPE_CHECKING

from edgeopt.backends.base import Array
from edgeopt.graph.ledger import Change
from edgeopt.graph.passes.base import plural
from edgeopt.quant.layers import nodes_by_key
from edgeopt.quant.records import Layer
from edgeopt.quant.schemes import blocks
from edgeopt.quant.schemes.base import Scheme, SchemeContext
from edgeopt.quant.schemes.blocks import grouped, inputs_count
from edgeopt.quant.schemes.writer import Writer

if TYPE_CHECKING:
    import onnx_ir as ir

BITS = 8


def fits(layer: Layer, context: SchemeContext) -> str:
    if reason := blocks.no_matrix(layer):
        return reason
    inputs, size = inputs_count(layer), context.settings.group_size
    if not blocks.runs_n_bits(context) and (size < 1 or inputs % size):
        return f"its {inputs} inputs are not a multiple of the group size, {size}"
    return ""


def fake_weights(weight: Array, layer: Layer, context: SchemeContext) -> Array:
    return blocks.fake_weights(BITS, weight, layer, context)


def fake_input(
    graph: "ir.Graph", node: "ir.Node", value: "ir.Value", layer: Layer, context: SchemeContext
) -> "ir.Value":
    own = blocks.runs_n_bits(context)
    size = blocks.block_size(layer, context) if own else context.settings.group_size
    return grouped(graph, node, value, inputs_count(layer), size)


def write(model: "ir.Model", layers: tuple[Layer, ...], context: SchemeContext) -> tuple[Change, ...]:
    writer, found = Writer(model.graph), nodes_by_key(model.graph)
    for layer in layers:
        nodes = [found[key] for key in layer.nodes]
        blocks.write_blocks(writer, layer, nodes, context, BITS, blocks.EIGHT_BITS)
    keys = tuple(key for layer in layers for key in layer.nodes)
    return (Change(f"stored the weights of {plural(len(keys), 'product')} in eight bits, by blocks", keys),)


SCHEME = Scheme(
    name="int8-groups",
    title="eight bits for weights, and for activations by groups, rounded while the model runs",
    operators=blocks.MATRIX_PRODUCTS,
    backends=("openvino-cpu", "onnxruntime-cpu"),
    lowest_opset=21,
    needs_ranges=False,
    fits=fits,
    write=write,
    fake_weights=fake_weights,
    fake_input=fake_input,
)
