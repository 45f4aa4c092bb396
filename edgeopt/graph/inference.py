"""Sizes that onnx's own shape inference misses or gets wrong: computed numbers, rounded-up pools, empty axes.

- Exporters compute shapes with small whole numbers; onnx's data propagation stops at many of these operators, and
  all that is shaped by them stays open then.
- No window of a pool that rounds up may begin behind the input. Where onnx counts such a window, the copy for
  inference has a pool that rounds down, with the padding that gives the runtimes' size. See docs/upstream.md.
- A Squeeze whose list of axes is empty drops every dimension of 1 in runtimes, and none in onnx's own tools.
"""

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from edgeopt.graph.nodes import constant, is_op

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir as ir
    from numpy.typing import NDArray

# protobuf classes carry no types; these are onnx's ModelProto, GraphProto, NodeProto and ValueInfoProto.
Proto = Any
Known = Mapping[str, "NDArray[np.generic]"]
MAX_ELEMENTS = 64
WHOLE = {2, 3, 4, 5, 6, 7, 9, 12, 13}  # integers and booleans, as TensorProto numbers them
FOLLOWED = frozenset({
    "Abs", "Add", "And", "Cast", "CastLike", "Ceil", "Concat", "ConstantOfShape", "Div", "Equal", "Expand",
    "Floor", "Gather", "Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual", "Max", "Min", "Mod",
    "Mul", "Neg", "Not", "Or", "Pow", "Range", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "ScatterND",
    "Slice", "Sub", "Tile", "Transpose", "Where", "Xor",
})  # fmt: skip
RESHAPES = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})


def put_in_numbers(model: Proto) -> int:
    """Replaces nodes whose results follow from shapes by constants, in place; returns how many.

    Nodes keep their positions, so that the model can still be compared node by node with its source.
    """
    opsets = {opset.domain: opset.version for opset in model.opset_import}
    return _put_in(model.graph, opsets, {})


def _put_in(graph: Proto, opsets: dict[str, int], known: "dict[str, NDArray[np.generic]]") -> int:
    """Replaces nodes of one graph by constants and adds their values to `known`, which subgraphs may read."""
    import onnx.numpy_helper

    inputs = {value.name for value in graph.input}
    for weight in graph.initializer:
        if weight.name not in inputs and _is_small(weight.dims) and _has_data(weight):
            known[weight.name] = onnx.numpy_helper.to_array(weight)
    infos = {info.name: info for info in (*graph.value_info, *graph.input, *graph.output)}
    count = 0
    for node in graph.node:
        if node.op_type == "Constant" and not node.domain:
            held = [a.t for a in node.attribute if a.name == "value"]
            if held and _is_small(held[0].dims) and _has_data(held[0]):
                known[node.output[0]] = onnx.numpy_helper.to_array(held[0])
            continue
        found = _result(node, known, infos, opsets)
        if found is not None:
            name, array = node.output[0], found
            known[name] = array
            value = onnx.numpy_helper.from_array(array, "")
            node.CopyFrom(onnx.helper.make_node("Constant", [], [name], name=node.name, value=value))
            count += 1
            continue
        branches = {a.name: a.g for a in node.attribute if a.HasField("g")}
        inside = {name: dict(known) for name in branches}
        count += sum(_put_in(branch, opsets, inside[name]) for name, branch in branches.items())
        if node.op_type == "If" and node.input[0] in known:
            taken = "then_branch" if known[node.input[0]].item() else "else_branch"
            count += _take_branch(node, branches[taken], graph, infos)
            for outer, inner in zip(node.output, branches[taken].output, strict=False):
                if inner.name in inside[taken]:
                    known[outer] = inside[taken][inner.name]
    return count


def _take_branch(node: Proto, taken: Proto, graph: Proto, infos: dict[str, Proto]) -> int:
    """Gives an `If` with a known condition the shapes of its branch; returns the number of new shapes."""
    count = 0
    inner_infos = {info.name: info for info in (*taken.output, *taken.value_info)}
    for name, inner in zip(node.output, taken.output, strict=False):
        found, had = inner_infos[inner.name], infos.get(name)
        if not _is_static(found) or (had is not None and _is_static(had)):
            continue
        if had is None:
            had = infos[name] = graph.value_info.add(name=name)
        had.type.CopyFrom(found.type)
        count += 1
    return count


def _is_static(info: Proto) -> bool:
    kind = info.type.tensor_type
    return kind.HasField("shape") and all(dimension.HasField("dim_value") for dimension in kind.shape.dim)


def _is_small(dims: Proto) -> bool:
    return math.prod(dims) <= MAX_ELEMENTS


def _has_data(tensor: Proto) -> bool:
    """Whether a tensor has numeric data; placeholders of big weights have none, and text never affects shapes."""
    return tensor.data_type != 8 and (
        tensor.HasField("raw_data")
        or any(len(getattr(tensor, f)) for f in ("int64_data", "int32_data", "float_data", "double_data"))
    )


def _result(
    node: Proto, known: Known, infos: dict[str, Proto], opsets: dict[str, int]
) -> "NDArray[np.generic] | None":
    if node.domain or len(node.output) != 1:
        return None
    if node.op_type in {"Shape", "Size"}:
        return _of_shape(node, infos)
    if (
        node.op_type not in FOLLOWED | RESHAPES
        or not node.input
        or any(name and name not in known for name in node.input)
    ):
        return None
    info = infos.get(node.output[0])
    if info is None or not _is_whole_and_small(info):
        return None
    if node.op_type in RESHAPES:
        return known[node.input[0]].reshape([d.dim_value for d in info.type.tensor_type.shape.dim])
    from onnx.reference import ReferenceEvaluator

    try:
        (array,) = ReferenceEvaluator(node, opsets=opsets).run(None, {n: known[n] for n in node.input if n})
    except Exception:  # noqa: BLE001 - the evaluator does not know every old form of an operator; its number stays open
        return None
    return array if array.size <= MAX_ELEMENTS else None


def _of_shape(node: Proto, infos: dict[str, Proto]) -> "NDArray[np.generic] | None":
    import numpy as np

    info = infos.get(node.input[0])
    if info is None or not info.type.tensor_type.HasField("shape"):
        return None
    dims = info.type.tensor_type.shape.dim
    if not all(dimension.HasField("dim_value") for dimension in dims):
        return None
    sizes = [dimension.dim_value for dimension in dims]
    if node.op_type == "Size":
        return np.array(math.prod(sizes), np.int64)
    attributes = {attribute.name: attribute.i for attribute in node.attribute}
    return np.array(sizes[attributes.get("start", 0) : attributes.get("end", len(sizes))], np.int64)


def _is_whole_and_small(info: Proto) -> bool:
    """Whether a value is integers of a known small number; a result of unknown size could be huge."""
    kind = info.type.tensor_type
    return kind.elem_type in WHOLE and _is_static(info) and _is_small(d.dim_value for d in kind.shape.dim)


POOLS = ("MaxPool", "AveragePool", "LpPool")


def correct_a_pool(proto: Proto, found: Proto) -> bool:
    """Corrects the first pool of `proto` whose inferred size in `found` is wrong; returns whether there is one.

    The shapes after the pool must be inferred again.
    """
    return any(_correct(node, sizes) for node, sizes in _pools(proto.graph, found.graph, {}))


def rounds_up(proto: Proto) -> bool:
    """Whether a pool in the model rounds up; most models have none."""
    return any(True for _ in _pools(proto.graph, proto.graph, {}))


def _pools(graph: Proto, found: Proto, outer: Mapping[str, Proto]) -> Iterator[tuple[Proto, Mapping[str, Proto]]]:
    """Yields the pools that round up, including subgraphs, with the known shapes around them."""
    sizes = {**outer, **{info.name: info for info in (*found.value_info, *found.input, *found.output)}}
    for node, twin in zip(graph.node, found.node, strict=False):
        if node.op_type in POOLS and not node.domain and _integer(node, "ceil_mode"):
            yield node, sizes
        inner = {attribute.name: attribute.g for attribute in twin.attribute if attribute.HasField("g")}
        for attribute in node.attribute:
            if attribute.HasField("g") and attribute.name in inner:
                yield from _pools(attribute.g, inner[attribute.name], sizes)


def _correct(node: Proto, infos: Mapping[str, Proto]) -> bool:
    """Makes a pool round down to its actual size if inference computes a different one."""
    source, result = (_sides(infos.get(name)) for name in (node.input[0], node.output[0]))
    kernel = _integers(node, "kernel_shape")
    axes = len(kernel)
    if len(source) != axes or len(result) != axes or _text(node, "auto_pad") not in {"", "NOTSET"}:
        return False
    pads = _integers(node, "pads") or [0] * (2 * axes)
    strides, dilations = _integers(node, "strides") or [1] * axes, _integers(node, "dilations") or [1] * axes
    right = [
        None if size is None else size_of(size, (pads[k], pads[axes + k]), kernel[k], strides[k], dilations[k])
        for k, size in enumerate(source)
    ]
    if all(a is None or b is None or a == b for a, b in zip(right, result, strict=True)):
        return False
    for k, (size, target) in enumerate(zip(source, right, strict=True)):
        if size is not None and target is not None:
            reach = dilations[k] * (kernel[k] - 1) + 1
            pads[axes + k] = max(0, (target - 1) * strides[k] + reach - size - pads[k])
    kept = [one for one in node.attribute if one.name not in {"ceil_mode", "pads"}]
    import onnx

    del node.attribute[:]
    node.attribute.extend([*kept, onnx.helper.make_attribute("pads", pads)])
    return True


def size_of(size: int, pads: tuple[int, int], kernel: int, stride: int, dilation: int) -> int:
    """Returns the output size of a pool with ceil_mode; each window starts in the input or the padding before
    it."""
    reach = dilation * (kernel - 1) + 1
    windows = -(-(size + sum(pads) - reach) // stride) + 1
    return windows - 1 if (windows - 1) * stride >= size + pads[0] else windows


def _sides(info: Proto | None) -> list[int | None]:
    """Returns the sizes after batch and channels; empty if even their number is unknown."""
    if info is None or not info.type.tensor_type.HasField("shape"):
        return []
    return [d.dim_value if d.HasField("dim_value") else None for d in info.type.tensor_type.shape.dim[2:]]


def _integer(node: Proto, name: str) -> int:
    return next((int(one.i) for one in node.attribute if one.name == name), 0)


def _integers(node: Proto, name: str) -> list[int]:
    return next((list(one.ints) for one in node.attribute if one.name == name), [])


def _text(node: Proto, name: str) -> str:
    return next((one.s.decode() for one in node.attribute if one.name == name), "")


def squeezes_by_no_axes(node: "ir.Node") -> bool:
    """Whether a Squeeze has an explicit list of axes that is empty or known only at run time."""
    if not is_op(node, "Squeeze"):
        return False
    if "axes" in node.attributes:
        return not node.attributes["axes"].as_ints()
    if len(node.inputs) < 2 or node.inputs[1] is None:
        return False
    axes = constant(node.inputs[1])
    return axes is not None and not axes.size


def leave_out_empty_axes(graph: Proto) -> None:
    """Removes empty axes of Squeezes, including subgraphs, so that shape inference follows the runtimes."""
    empty = {weight.name for weight in graph.initializer if 0 in weight.dims}
    for node in graph.node:
        if node.op_type == "Constant":
            values = [a for a in node.attribute if a.name == "value" and 0 in a.t.dims]
            lists = [a for a in node.attribute if a.name == "value_ints" and not a.ints]
            empty.update(node.output if values or lists else ())
        if node.op_type == "Squeeze" and not node.domain:
            if len(node.input) > 1 and node.input[1] in empty:
                del node.input[1:]
            for attribute in [a for a in node.attribute if a.name == "axes" and not a.ints]:
                node.attribute.remove(attribute)
        for attribute in node.attribute:
            for inner in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                leave_out_empty_axes(inner)
