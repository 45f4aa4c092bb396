"""Layout of picture inputs and outputs: transposes them to the order that the user requests.

With an order of dimensions p and its inverse q (of four: 0, 2, 3, 1 and 0, 3, 1, 2), the model y = f(x) becomes

    y' = Transpose(f(Transpose(x', q)), p)        x' = Transpose(x, p),  y' = Transpose(y, p)

An input is a picture if a convolution, a pooling, a resizing or the like reads it, directly or after transposes
and layout-agnostic operators; their order shows which dimension is the channels. An output is a picture if it
derives from one. The pass `transposes` removes transposes at the border if it can: a model that transposed its
pictures itself loses those transposes.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import Notes, Pass, PassContext, PassResult, constant, is_op, label
from edgeopt.graph.passes.knowledge.agnostic import tensors_of
from edgeopt.graph.passes.knowledge.names import separate_names
from edgeopt.graph.structure import Order, axis_orders, record_axis_orders

if TYPE_CHECKING:
    import onnx_ir as ir

FIRST, LAST = "channels-first", "channels-last"
LAYOUTS = (FIRST, LAST)
RANKS = (3, 4, 5)
TYPES = ("FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE", "UINT8")
PICTURE = (
    "AveragePool", "BatchNormalization", "Conv", "ConvInteger", "ConvTranspose", "DepthToSpace",
    "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "GridSample", "InstanceNormalization", "LRN",
    "LpPool", "MaxPool", "MaxRoiPool", "QLinearConv", "RoiAlign", "SpaceToDepth",
)  # fmt: skip
"""Operators that read their first input as a channels-first picture; most also return one."""
RESIZE = ("Resize", "Upsample")
QUANTIZE = ("DynamicQuantizeLinear",)
SIZES_ONLY = ("Shape", "Size")
"""Operators that read only the shape, so that transposing their small results costs nothing."""


@dataclass(slots=True)
class Sight:
    """Readers of an input, by the layout in which they read it."""

    orders: dict[str, list[str]] = field(default_factory=dict)
    """Nodes that read the input as a picture, by layout."""
    strangers: list[str] = field(default_factory=list)
    """Nodes that depend on the order of dimensions but read no picture."""


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    model, notes, blocked = context.copy(model), Notes(), Notes()
    layout = context.layout
    if layout not in LAYOUTS:
        notes.refuse(f"choose the order: --layout {LAST} or --layout {FIRST}")
        return notes.result(model)
    done = axis_orders(model)
    sights = _sights(model)
    inputs = {str(value.name): value for value in model.graph.inputs}
    pictures: dict[ir.Value, str] = {}
    chosen: list[ir.Value] = []
    for name, sight in sights.items():
        if name in done:
            pictures[inputs[name]] = layout
        elif reason := _why_not(name, sight, layout):
            nodes = sight.strangers if len(sight.orders) == 1 else [n for ns in sight.orders.values() for n in ns]
            blocked.refuse(reason, *nodes)
        elif sight.orders:
            pictures[inputs[name]] = next(iter(sight.orders))
            if layout not in sight.orders:
                chosen.append(inputs[name])
            else:
                notes.refuse(f"the input '{name}' is {layout} already", *sight.orders[layout])
    if blocked.refused:
        return blocked.result(model)  # all pictures get the same layout, or none
    layouts = _layouts_of(model, pictures)
    leaving = [v for v in model.graph.outputs if v.name not in done and layouts.get(v) == _other(layout)]
    for value in chosen:
        _transpose_input(model, value, layout)
        notes.did(f"takes '{value.name}' as {_dims(value)}", str(value.name))
    for value in leaving:
        output = _transpose_output(model, value, layout)
        notes.did(f"gives '{output.name}' as {_dims(output)}", str(output.name))
    if not (notes.applied or notes.refused or done):
        notes.refuse("no input is read as a picture, and no output comes from one")
    separate_names(model)
    return notes.result(model)


def _why_not(name: str, sight: Sight, layout: str) -> str | None:
    if len(sight.orders) > 1:
        return f"the input '{name}' is read as a picture in both orders"
    if sight.orders and layout not in sight.orders and sight.strangers:
        return f"the input '{name}' is also read by nodes that depend on the order of its dimensions"
    return None


def _sights(model: "ir.Model") -> dict[str, Sight]:
    """Follows the inputs that may be pictures to their readers."""
    sights: dict[str, Sight] = {}
    known: dict[ir.Value, dict[str, Order]] = {}
    for value in model.graph.inputs:
        if value.is_initializer() or value.shape is None or value.dtype is None:
            continue
        if len(value.shape) in RANKS and value.dtype.name in TYPES:
            sights[str(value.name)] = Sight()
            known[value] = {str(value.name): tuple(range(len(value.shape)))}
    for node in model.graph.all_nodes():
        read = [value for value in node.inputs if value in known]
        if not read or is_op(node, *SIZES_ONLY):
            continue
        passed = _passed(node, known)
        if passed is not None:
            known |= dict.fromkeys(_passing(node), passed)
            continue
        for value in read:
            for name, order in known[value].items():
                layout = _layout_of(node, order) if value is node.inputs[0] else None
                if layout is None:
                    sights[name].strangers.append(label(node))
                else:
                    sights[name].orders.setdefault(layout, []).append(label(node))
    return sights


def _layouts_of(model: "ir.Model", pictures: "dict[ir.Value, str]") -> "dict[ir.Value, str]":
    """Returns the layouts of values that are pictures, or derive from pictures without losing the layout."""
    known: dict[ir.Value, dict[str, Order]] = {}
    for value, layout in pictures.items():
        rank = len(value.shape or ())
        known[value] = {"": _last(rank) if layout == LAST else tuple(range(rank))}
    for node in model.graph:
        own = _own_layout(node)
        if own and (dims := _rank(node.outputs[0]) or _rank(node.inputs[0])):
            known[node.outputs[0]] = {"": _last(dims) if own == LAST else tuple(range(dims))}
        elif not own and any(value in known for value in node.inputs):
            passed = _passed(node, known)
            known |= dict.fromkeys(_passing(node), passed or {})
    return {
        value: FIRST if order == tuple(range(len(order))) else LAST
        for value, orders in known.items()
        for order in orders.values()
        if order in {tuple(range(len(order))), _last(len(order))}
    }


def _passed(node: "ir.Node", known: "dict[ir.Value, dict[str, Order]]") -> dict[str, Order] | None:
    """Returns the order of a node's results relative to each input; None if the node does not preserve pictures.

    Values that combine inputs with other values have no order.
    """
    if is_op(node, "Transpose"):
        return _transposed(node, known)
    first = node.inputs[0] if node.inputs else None
    if first in known and (is_op(node, *QUANTIZE) or (is_op(node, *RESIZE) and _own_layout(node) is None)):
        return known[first]  # a resizing node is assumed to work the same in any order
    tensors = [value for value in tensors_of(node) if constant(value) is None]
    if not tensors:
        return None
    found: dict[str, Order] = {}
    ranks = {_rank(value) for value in (*tensors, *(output for output in node.outputs if output.name))}
    for value in tensors:
        if value not in known:
            return {}
        for name, order in known[value].items():
            if len(ranks) > 1 or found.setdefault(name, order) != order:
                return None
    return found


def _passing(node: "ir.Node") -> "list[ir.Value]":
    """Returns the results with the dimensions of the input."""
    outputs = node.outputs[:1] if is_op(node, *QUANTIZE) else node.outputs
    return [output for output in outputs if output.name]


def _transposed(node: "ir.Node", known: "dict[ir.Value, dict[str, Order]]") -> dict[str, Order] | None:
    source, perm = node.inputs[0], _perm(node)
    if source not in known or perm is None:
        return None
    return {name: tuple(order[axis] for axis in perm) for name, order in known[source].items()}


def _perm(node: "ir.Node") -> Order | None:
    rank = _rank(node.inputs[0])
    if "perm" in node.attributes:
        return tuple(node.attributes["perm"].as_ints())
    return None if rank is None else tuple(range(rank))[::-1]


def _layout_of(node: "ir.Node", order: Order) -> str | None:
    """Returns the layout of an input that a node reads as a picture after a permutation to this order."""
    own, same = _own_layout(node), tuple(range(len(order)))
    if own is not None and order == same:
        return own
    if own == FIRST:
        return LAST if order == _first(len(order)) else None
    return FIRST if own == LAST and order == _last(len(order)) else None


def _own_layout(node: "ir.Node") -> str | None:
    """Returns the layout in which a node reads and returns pictures; None if it has none or it is unknown."""
    if is_op(node, *PICTURE):
        return FIRST if _rank(node.inputs[0]) in RANKS else None
    if not is_op(node, *RESIZE):
        return None
    rank, kept = _rank(node.inputs[0]), _kept(node)
    if rank not in RANKS or not {0}.issubset(kept) or {1, rank - 1}.issubset(kept):
        return None
    return FIRST if 1 in kept else LAST if rank - 1 in kept else None


def _kept(node: "ir.Node") -> set[int]:
    """Returns the axes that a Resize does not change, if its constants show that."""
    rank = _rank(node.inputs[0]) or 0
    axes = list(node.attributes["axes"].as_ints()) if "axes" in node.attributes else list(range(rank))
    changed: set[int] = set()
    scales = [constant(value) for value in node.inputs[1:3]]
    sizes = constant(node.inputs[3]) if len(node.inputs) > 3 else None
    by_scale = next((array for array in reversed(scales) if array is not None and array.size == len(axes)), None)
    shape = list(node.inputs[0].shape or ()) if node.inputs[0] is not None else []
    if sizes is not None and sizes.size == len(axes) and shape:
        changed = {axis % rank for axis, size in zip(axes, sizes, strict=True) if shape[axis] != int(size)}
    elif by_scale is not None:
        changed = {axis % rank for axis, scale in zip(axes, by_scale, strict=True) if float(scale) != 1.0}
    elif "axes" in node.attributes:
        changed = {axis % rank for axis in axes}
    return set(range(rank)) - changed if changed else set()


def _transpose_input(model: "ir.Model", value: "ir.Value", layout: str) -> None:
    """Gives an input the requested layout and its readers a transposed value."""
    import onnx_ir as ir

    rank = len(value.shape or ())
    order, back = (_last(rank), _first(rank)) if layout == LAST else (_first(rank), _last(rank))
    node = ir.node("Transpose", [value], {"perm": list(back)}, name=_inner_name(value, layout))
    out = node.outputs[0]
    out.name, out.type, out.shape = _inner_name(value, layout), value.type, value.shape
    for use in list(value.uses()):
        result = use.node.outputs[0]
        if use.node is node:
            continue
        if is_op(use.node, "Transpose") and _perm(use.node) == order and not result.is_graph_output():
            result.replace_all_uses_with(value)  # the input already has this order now
            use.node.graph.remove(use.node, safe=True)
        else:
            use.node.replace_input_with(use.idx, out)
    if out.uses():
        model.graph.insert_before(model.graph[0], node)
    else:
        node.replace_input_with(0, None)
    value.shape = ir.Shape([value.shape[axis] for axis in order]) if value.shape is not None else None
    record_axis_orders(model, {str(value.name): order})


def _transpose_output(model: "ir.Model", value: "ir.Value", layout: str) -> "ir.Value":
    """Transposes an output to the requested layout under the output's name."""
    import onnx_ir as ir

    graph, name, rank = model.graph, str(value.name), len(value.shape or ())
    order = _last(rank) if layout == LAST else _first(rank)
    producer = value.producer()
    assert producer is not None  # noqa: S101 - tells mypy; inputs that are outputs are none of those
    node = ir.node("Transpose", [value], {"perm": list(order)}, name=_inner_name(value, _other(layout)))
    out = node.outputs[0]
    out.type = value.type
    out.shape = ir.Shape([value.shape[axis] for axis in order]) if value.shape is not None else None
    graph.insert_after(producer, node)
    for place, output in enumerate(graph.outputs):
        if output is value:
            graph.outputs[place] = out
    value.name, out.name = _inner_name(value, layout), name
    record_axis_orders(model, {name: order})
    return out


def _inner_name(value: "ir.Value", layout: str) -> str:
    """Returns a name for a picture inside the model, because the transposed input or output keeps the original
    name."""
    return f"{value.name}_{_other(layout).replace('-', '_')}"


def _other(layout: str) -> str:
    return FIRST if layout == LAST else LAST


def _last(rank: int) -> Order:
    """Returns the permutation from channels first to channels last."""
    return (0, *range(2, rank), 1)


def _first(rank: int) -> Order:
    """Returns the permutation from channels last to channels first."""
    return (0, rank - 1, *range(1, rank - 1))


def _rank(value: "ir.Value | None") -> int | None:
    return None if value is None or value.shape is None else len(value.shape)


def _dims(value: "ir.Value") -> str:
    return f"[{', '.join(str(d if isinstance(d, int) else d.value or '?') for d in value.shape or ())}]"


PASS = Pass("picture-order", "pictures enter and leave in the order of --layout", apply, on_request=True)
