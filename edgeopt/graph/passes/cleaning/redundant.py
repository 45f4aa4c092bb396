"""Passes that remove what no result needs: dead nodes, copies of weights and of computations, metadata."""

import hashlib
import re
from collections.abc import Hashable
from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import (
    Notes,
    Pass,
    PassContext,
    PassResult,
    inner_graphs,
    is_random,
    label,
    nodes_of,
    parts,
    plural,
    quiet,
    replace_value,
)

if TYPE_CHECKING:
    import onnx_ir as ir


def remove_dead_nodes(model: "ir.Model", context: PassContext) -> PassResult:
    """Removes nodes, weights and functions that no output needs; keeps all inputs."""
    from onnx_ir.passes import common

    model, notes = context.copy(model), Notes()
    nodes = {node: label(node) for node in nodes_of(model)}
    weights, functions = _weights(model), set(model.functions)
    with quiet():
        common.RemoveUnusedNodesPass()(model)
        _remove_unused_weights_of_subgraphs(model)
        common.RemoveUnusedFunctionsPass()(model)
        common.RemoveUnusedOpsetsPass()(model)
    left = set(nodes_of(model))
    dead = [name for node, name in nodes.items() if node not in left]
    if dead:
        notes.did(f"removed {plural(len(dead), 'node')} that no output needs", *dead)
    if gone := sorted(weights - _weights(model)):
        notes.did(f"removed {plural(len(gone), 'unused weight')}", *gone)
    if lost := sorted(name for _, name, _ in functions - set(model.functions)):
        notes.did(f"removed {plural(len(lost), 'unused function')}", *lost)
    return notes.result(model)


def _weights(model: "ir.Model") -> set[str]:
    return {str(name) for graph in model.graphs() for name in graph.initializers}


def _remove_unused_weights_of_subgraphs(model: "ir.Model") -> None:
    for graph in model.graphs():
        for name, weight in list(graph.initializers.items()):
            if not (weight.uses() or weight.is_graph_output() or weight.is_graph_input()):
                del graph.initializers[name]


DEAD_NODES = Pass("dead-nodes", "nodes, weights and functions that no output needs are removed", remove_dead_nodes)


Sketch = tuple[object, tuple[int, ...], bytes]
SKETCH_ELEMENTS = 256
SMALL_BYTES = 1 << 16


def deduplicate_weights(model: "ir.Model", context: PassContext) -> PassResult:
    """Keeps one copy of weights that are equal to the last bit; subgraphs use the main graph's copy.

    Vectors of floats are not merged: they are small, and OpenVINO fuses a bias with the product before it only if
    nothing else reads that bias.
    """
    model, notes = context.copy(model), Notes()
    main: dict[Sketch, list[ir.Value]] = {}
    digests: dict[ir.Value, bytes] = {}
    merged: list[str] = []
    saved_bytes = 0
    for graph in model.graphs():
        known = main if graph is model.graph else {sketch: list(alike) for sketch, alike in main.items()}
        for name, weight in list(graph.initializers.items()):
            tensor = weight.const_value
            if tensor is None or tensor.dtype.is_string() or weight.is_graph_input() or weight.is_graph_output():
                continue
            if _is_vector(tensor):
                continue
            alike = known.setdefault(_sketch(tensor), [])
            twin = next((other for other in alike if _digest(other, digests) == _digest(weight, digests)), None)
            if twin is None:
                alike.append(weight)
                continue
            weight.replace_all_uses_with(twin)
            del graph.initializers[name]
            merged.append(str(name))
            saved_bytes += tensor.nbytes
    if merged:
        notes.did(f"merged {plural(len(merged), 'equal weight')} ({saved_bytes:,} bytes)", *merged)
    return notes.result(model)


def _is_vector(tensor: "ir.TensorProtocol") -> bool:
    sizes = [int(dim) for dim in tensor.shape if dim != 1]
    return tensor.dtype.is_floating_point() and len(sizes) == 1 and tensor.nbytes <= SMALL_BYTES


def _sketch(tensor: "ir.TensorProtocol") -> Sketch:
    """Returns type, shape, and first and last elements of a tensor, which need no full read to compare."""
    flat = tensor.numpy().reshape(-1)
    ends = flat[:SKETCH_ELEMENTS].tobytes() + flat[-SKETCH_ELEMENTS:].tobytes()
    return tensor.dtype, tuple(int(dim) for dim in tensor.shape), ends


def _digest(weight: "ir.Value", digests: "dict[ir.Value, bytes]") -> bytes:
    if weight not in digests:
        assert weight.const_value is not None  # noqa: S101 - the caller saw to it
        digests[weight] = hashlib.sha256(weight.const_value.tobytes()).digest()
    return digests[weight]


DEDUPLICATE_WEIGHTS = Pass("deduplicate-weights", "equal weights are kept once", deduplicate_weights)


EXPORTERS = ("pkg.torch", "pkg.onnxscript", "pkg.onnx_ir", "torch.", "namespace")
PATH = re.compile(r"(^|[\s\"'(=])(/[^/\s]+){2,}|[A-Za-z]:\\[^\s]")


def strip_metadata(model: "ir.Model", context: PassContext) -> PassResult:
    """Removes exporters' metadata: doc strings, stack traces, source paths, and the exporter's name.

    The model's own metadata stays, because applications read class names, strides and the like from it. The name
    of a quantizer stays too, because tools recognize a quantized model by it.
    """
    model, notes = context.copy(model), Notes()
    cleared = 0
    if model.doc_string:
        model.doc_string, cleared = None, 1
    for part in parts(model):
        things = [part, *part.inputs]
        things += [thing for node in part for thing in (node, *node.outputs)]
        for thing in (*things, *getattr(part, "initializers", {}).values()):
            if thing.doc_string or thing.metadata_props:
                thing.doc_string = None
                thing.metadata_props.clear()
                cleared += 1
    if cleared:
        notes.did(f"cleared notes of the exporter in {plural(cleared, 'place')}")
    leaks = [k for k, v in model.metadata_props.items() if k.startswith(EXPORTERS) or PATH.search(v)]
    for key in leaks:
        del model.metadata_props[key]
    if leaks:
        notes.did(
            f"dropped {plural(len(leaks), 'property')} of the exporter".replace("propertys", "properties"), *leaks
        )
    if (name := model.producer_name) and "quant" not in name:
        model.producer_name, model.producer_version = None, None
        notes.did(f"dropped the name of the exporter ({name})")
    return notes.result(model)


STRIP_METADATA = Pass("strip-metadata", "doc strings and exporters' notes are removed", strip_metadata)


SHORT_BYTES = 1 << 14
SMALL_ELEMENTS = 64  # comparing larger attributes costs more than it saves


def merge_equal_subexpressions(model: "ir.Model", context: PassContext) -> PassResult:
    """Merges nodes with the same operator, inputs and attributes."""
    model, notes, merged = context.copy(model), Notes(), []
    for root in (model.graph, *model.functions.values()):
        merged += _merge(root, {}, notes)
    if merged:
        notes.did(f"merged {plural(len(merged), 'node')} with an equal one", *merged)
    return notes.result(model)


def _merge(part: "ir.Graph | ir.Function", outside: "dict[Hashable, ir.Node]", notes: Notes) -> list[str]:
    first, merged = dict(outside), []
    for node in list(part):
        if _merged(node, first, notes):
            merged.append(label(node))
            part.remove(node, safe=True)
            continue
        for inner in inner_graphs(node):
            merged += _merge(inner, first, notes)
    return merged


def _merged(node: "ir.Node", first: "dict[Hashable, ir.Node]", notes: Notes) -> bool:
    """Redirects the readers of a node to an equal earlier node; returns whether there is one."""
    key = _key(node)
    twin = node if key is None else first.setdefault(key, node)
    if twin is node:
        return False
    pairs = list(zip(node.outputs, twin.outputs, strict=True))
    if is_random(node):
        notes.refuse("it draws random numbers", label(node))
    elif twin.graph is not node.graph and any(old.is_graph_output() for old in node.outputs):
        notes.refuse("a branch returns its result, so it must stay there", label(node))
    elif any(old.is_graph_output() and new.is_graph_output() for old, new in pairs):
        notes.refuse("both results are outputs of the graph", label(node))
    else:
        for old, new in pairs:
            replace_value(old, new)
        return True
    return False


def _key(node: "ir.Node") -> Hashable | None:
    import onnx_ir as ir

    attributes = []
    for name, attribute in node.attributes.items():
        if attribute.is_ref() or attribute.type in {ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS}:
            return None
        value = attribute.value
        if attribute.type == ir.AttributeType.TENSOR:
            if value.size > SMALL_ELEMENTS or value.dtype.is_string():
                return None
            value = (value.dtype, tuple(value.shape), value.tobytes())
        elif isinstance(value, list | tuple):
            value = tuple(value)
        if not isinstance(value, Hashable):
            return None
        attributes.append((name, attribute.type, value))
    # Which optional outputs a node has can change what it computes (BatchNormalization before opset 14).
    present = tuple(bool(output.name) for output in node.outputs)
    return (
        node.op_identifier(),
        tuple(_alike(value) for value in node.inputs),
        tuple(sorted(attributes, key=str)),
        present,
    )


def _alike(value: "ir.Value | None") -> Hashable:
    """Returns a key for equal inputs: the content of a short weight, as deduplicate-weights skips some, else the
    id."""
    tensor = None if value is None or value.is_graph_input() else value.const_value
    if tensor is None or tensor.dtype.is_string() or tensor.nbytes > SHORT_BYTES:
        return id(value)
    return tensor.dtype, tuple(int(dim) for dim in tensor.shape), tensor.tobytes()


EQUAL_SUBEXPRESSIONS = Pass(
    "equal-subexpressions", "equal subexpressions are computed once", merge_equal_subexpressions
)
