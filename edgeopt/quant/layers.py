"""Layers: the parts of a model that can change precision, found in its graph."""

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from edgeopt.graph.nodes import constant, inner_graphs, is_op
from edgeopt.quant.records import Layer

if TYPE_CHECKING:
    import onnx_ir as ir

PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
RECURRENT = ("LSTM", "GRU", "RNN")
# A smaller layer saves less time than a runtime spends on calling it.
FEWEST_PARAMETERS = 64


def find_layers(model: "ir.Model", shapes: "Mapping[str, tuple[int, ...]] | None" = None) -> tuple[Layer, ...]:
    """Returns all layers in the order of the graph, some with a reason to stay float; `shapes` of one sample."""
    macs = _multiply_adds(model, dict(shapes or {}))
    groups: dict[object, list[tuple[str, ir.Node]]] = {}
    for key, node in keyed(model.graph):
        if not is_op(node, *PRODUCTS, *RECURRENT, "Gather"):
            continue
        weight = weight_of(node)
        if is_op(node, "Gather") and weight is None:
            continue
        # An embedding that shares its weights with the last product stays a layer of its own.
        groups.setdefault((node.op_type, weight) if weight is not None else node, []).append((key, node))
    layers = [_layer(nodes, macs) for nodes in groups.values()]
    return (*layers, *_hidden(model))


def keyed(graph: "ir.Graph") -> "Iterator[tuple[str, ir.Node]]":
    """Yields the nodes of a graph with keys that are unique and stay the same in a copy."""
    seen: set[str] = set()
    for node in graph:
        key = node.name or (node.outputs[0].name if node.outputs else "") or node.op_type
        if key in seen:
            key = f"{key}:{node.outputs[0].name}"
        seen.add(key)
        yield key, node


def nodes_by_key(graph: "ir.Graph") -> "dict[str, ir.Node]":
    return dict(keyed(graph))


def weight_of(node: "ir.Node") -> "ir.Value | None":
    """Returns the constant that a layer multiplies by, or None if it is computed."""
    places = (0,) if node.op_type == "Gather" else (1,)
    for place in places:
        value = node.inputs[place] if len(node.inputs) > place else None
        if value is not None and constant(value) is not None:
            return value
    return None


def computed_inputs(node: "ir.Node") -> "tuple[int, ...]":
    """Returns the positions of the factors that are not constants."""
    factors = (1,) if node.op_type == "Gather" else (0, 1)
    return tuple(
        k for k in factors if k < len(node.inputs) and node.inputs[k] is not None and not _is_constant(node, k)
    )


def _is_constant(node: "ir.Node", place: int) -> bool:
    return constant(node.inputs[place]) is not None


def _layer(nodes: "list[tuple[str, ir.Node]]", macs: "Mapping[ir.Node, int | None]") -> Layer:
    name, first = nodes[0]
    weight = weight_of(first)
    # The declared shape of a constant may have open dimensions; its array has none.
    array = constant(weight) if weight is not None else None
    shape = tuple(int(size) for size in array.shape) if array is not None else ()
    known = [count for _, node in nodes if (count := macs.get(node)) is not None]
    inputs = dict.fromkeys(str(node.inputs[k].name) for _, node in nodes for k in computed_inputs(node))
    return Layer(
        name=name,
        operator=first.op_type,
        nodes=tuple(key for key, _ in nodes),
        weight=str(weight.name) if weight is not None else "",
        inputs=tuple(inputs),
        outputs=tuple(str(node.outputs[0].name) for _, node in nodes),
        multiply_adds=sum(known),
        parameters=math.prod(shape) if weight is not None else 0,
        weight_shape=shape,
        channel_axis=_channel_axis(first, len(shape)) if weight is not None else None,
        reason=next(filter(None, (_reason(node, weight) for _, node in nodes)), ""),
    )


def _channel_axis(node: "ir.Node", rank: int) -> int | None:
    """Returns the axis of output channels; None if each matrix of a stack would need its own scales."""
    if node.op_type == "Gather":
        return 0
    if node.op_type == "Conv":
        return 0
    if node.op_type == "ConvTranspose":
        return 1 if _int(node, "group", 1) == 1 else None
    if node.op_type == "Gemm":
        return 0 if _int(node, "transB", 0) else 1
    return 1 if node.op_type == "MatMul" and rank == 2 else None


def _int(node: "ir.Node", name: str, default: int) -> int:
    attribute = node.attributes.get(name)
    return attribute.as_int() if attribute is not None else default


def _float(node: "ir.Node", name: str, default: float) -> float:
    attribute = node.attributes.get(name)
    return attribute.as_float() if attribute is not None else default


def _reason(node: "ir.Node", weight: "ir.Value | None") -> str:
    """Returns the reason that only float fits a node, as the end of a sentence; empty if there is none."""
    if node.op_type in RECURRENT:
        return f"no scheme computes {_article(node.op_type)} {node.op_type} in fewer bits"
    if weight is None:
        return _reason_without_weights(node)
    if weight.is_graph_output():
        return "its weights are also an output of the model"
    kind = weight.const_value.dtype if weight.const_value is not None else weight.dtype
    if kind is not None and kind.name != "FLOAT":
        return f"its weights are {kind.name.lower()}, not float32"
    shape = [d for d in weight.shape or () if isinstance(d, int)]
    if node.op_type == "Gather":
        return _reason_to_look_up(node, len(shape))
    if not computed_inputs(node):
        return "its inputs are constant"
    if math.prod(shape) < FEWEST_PARAMETERS:
        return f"it has only {math.prod(shape)} weights"
    if node.op_type == "MatMul" and len(shape) == 1:
        return "its weights are a single vector"
    if node.op_type == "Gemm" and (_float(node, "alpha", 1.0) != 1.0 or _float(node, "beta", 1.0) != 1.0):
        return "it scales its product (alpha or beta), which products in eight bits do not"
    return ""


def _reason_without_weights(node: "ir.Node") -> str:
    if node.op_type != "MatMul":
        return "its weights are computed while the model runs, or are an input of it"
    if _is_constant(node, 0):
        return "its weights are the left operand, which runtimes do not support in eight bits"
    kinds = {value.dtype.name for value in node.inputs if value is not None and value.dtype is not None}
    odd = sorted(kinds - {"FLOAT"})
    return f"it multiplies {odd[0].lower()}, not float32" if odd else ""


def _reason_to_look_up(node: "ir.Node", rank: int) -> str:
    if rank != 2 or _int(node, "axis", 0) != 0:
        return "it does not look up rows of a matrix"
    return ""


def _article(word: str) -> str:
    return "an" if word[0] in "LR" else "a"


def _multiply_adds(model: "ir.Model", shapes: dict[str, tuple[int, ...]]) -> "dict[ir.Node, int | None]":
    from edgeopt.graph.analysis.dimensions import open_dimensions
    from edgeopt.graph.analysis.onnx import sizes_of, walk
    from edgeopt.graph.analysis.records import AnalysisOptions

    known_shapes = AnalysisOptions(shapes=shapes)
    sizes = sizes_of(model, known_shapes, open_dimensions(model, known_shapes))
    return {
        node: each.cost.macs * each.runs if each.cost.macs is not None else None
        for (node, _), each in zip(walk(model.graph), sizes.weights, strict=True)
    }


def _hidden(model: "ir.Model") -> Iterator[Layer]:
    """Yields the layers in branches, loops and functions, which no scheme supports."""
    for key, node in keyed(model.graph):
        for graph in inner_graphs(node):
            yield from _all_in(graph, f"{key}/", f"it is in a branch or loop ('{key}')")
    for function in model.functions.values():
        yield from _all_in(function, f"{function.name}/", f"it is in the function '{function.name}'")


def _all_in(part: "ir.Graph | ir.Function", prefix: str, reason: str) -> Iterator[Layer]:
    for key, node in keyed(part):
        if is_op(node, *PRODUCTS, *RECURRENT):
            yield Layer(f"{prefix}{key}", node.op_type, (f"{prefix}{key}",), "", (), (), 0, reason=reason)
        for graph in inner_graphs(node):
            yield from _all_in(graph, f"{prefix}{key}/", reason)
