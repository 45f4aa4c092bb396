"""Small whole numbers that follow from shapes and constants: what exporters compute shapes with.

onnx's own data propagation stops at many of these operators, and all that is shaped by them stays open then.
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# protobuf classes carry no types; these are onnx's ModelProto, GraphProto, NodeProto and ValueInfoProto.
Proto = Any
Known = Mapping[str, "NDArray[np.generic]"]
MOST_ELEMENTS = 64
WHOLE = {2, 3, 4, 5, 6, 7, 9, 12, 13}  # integers and booleans, as TensorProto numbers them
FOLLOWED = frozenset({
    "Abs", "Add", "And", "Cast", "CastLike", "Ceil", "Concat", "ConstantOfShape", "Div", "Equal", "Expand",
    "Floor", "Gather", "Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual", "Max", "Min", "Mod",
    "Mul", "Neg", "Not", "Or", "Pow", "Range", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "ScatterND",
    "Slice", "Sub", "Tile", "Transpose", "Where", "Xor",
})  # fmt: skip
RESHAPES = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})


def put_in_numbers(model: Proto) -> int:
    """Turns nodes whose results follow from shapes into constants, in place; how many it could.

    Nodes keep their places, so that the model can still be laid beside the one that it was made from.
    """
    opsets = {opset.domain: opset.version for opset in model.opset_import}
    return _put_in(model.graph, opsets, {})


def _put_in(graph: Proto, opsets: dict[str, int], known: "dict[str, NDArray[np.generic]]") -> int:
    """Works on one graph; what is known in it is added to `known`, under names that subgraphs may read."""
    import onnx.numpy_helper

    given = {value.name for value in graph.input}
    for weight in graph.initializer:
        if weight.name not in given and _is_small(weight.dims) and _has_data(weight):
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
    """Gives an `If` whose condition is known the shapes of the branch that it takes; how many are new."""
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
    return math.prod(dims) <= MOST_ELEMENTS


def _has_data(tensor: Proto) -> bool:
    """Big weights are left out of what inference sees; text never shapes anything."""
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
    return array if array.size <= MOST_ELEMENTS else None


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
    wanted = {attribute.name: attribute.i for attribute in node.attribute}
    return np.array(sizes[wanted.get("start", 0) : wanted.get("end", len(sizes))], np.int64)


def _is_whole_and_small(info: Proto) -> bool:
    """Numbers that may become a shape; results of unknown size are not tried, they could be huge."""
    kind = info.type.tensor_type
    return kind.elem_type in WHOLE and _is_static(info) and _is_small(d.dim_value for d in kind.shape.dim)
