"""Passes that bring a model into common form: constants, plain nodes with names, the shapes that a user fixes."""

from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import Notes, Pass, PassContext, PassResult, inner_graphs, nodes_of, plural, quiet
from edgeopt.graph.shapes.infer import infer_shapes
from edgeopt.graph.structure import axis_orders
from edgeopt.nearest import near

if TYPE_CHECKING:
    import onnx_ir as ir

FIRST_WITHOUT = 4  # before this IR version every weight had to be an input


def take_weights_out_of_inputs(model: "ir.Model", context: PassContext) -> PassResult:
    """Takes weights out of the inputs of the main graph."""
    model, notes = context.copy(model), Notes()
    inputs = model.graph.inputs
    weights = [value for value in inputs if value.is_initializer()]
    if weights and len(weights) == len(inputs):
        notes.refuse("every input has a default value; without them the model would have no inputs")
    elif weights:
        kept = [value for value in inputs if not value.is_initializer()]
        inputs.clear()
        inputs.extend(kept)
        model.ir_version = max(model.ir_version, FIRST_WITHOUT)
        notes.did(f"made {plural(len(weights), 'weight')} constant", *(str(w.name) for w in weights))
    return notes.result(model)


WEIGHTS_OUT_OF_INPUTS = Pass(
    "weights-out-of-inputs", "weights that are listed as inputs become constants", take_weights_out_of_inputs
)


def inline_functions(model: "ir.Model", context: PassContext) -> PassResult:
    """Inlines all functions written in the model's opsets, called functions first."""
    import onnx_ir as ir
    from onnx_ir.passes import common

    source, model, notes = model, context.copy(model), Notes()
    if not model.functions:
        return notes.result(model)
    before = {_named(identifier) for identifier in model.functions}
    kept = {function: reason for function in model.functions.values() if (reason := _why_not(function, model))}
    for function, reason in kept.items():
        notes.refuse(reason, _named(function.identifier()))
    try:
        with quiet():
            model = common.InlinePass(criteria=lambda function: function not in kept)(model).model
            common.NameFixPass()(model)
    except ir.passes.PreconditionError:
        notes.refuse("functions call each other recursively", *sorted(before))
        return PassResult(source, (), notes.result(source).refused)
    gone = sorted(before - {_named(identifier) for identifier in model.functions})
    if gone:
        notes.did(f"inlined {plural(len(gone), 'function')}", *gone)
    return notes.result(model)


def _why_not(function: "ir.Function", model: "ir.Model") -> str | None:
    import onnx_ir as ir

    for domain, version in list(function.opset_imports.items()):
        here = model.opset_imports.get(domain, version)
        if here != version and _means_the_same(function, domain, version, here):
            function.opset_imports[domain] = here
        elif here != version:
            return f"it is written in opset {version} of '{domain or 'ai.onnx'}', and the model in {here}"
    calls = [node for node in nodes_of(model) if node.op_identifier() == function.identifier()]
    kinds = [attribute.type for call in calls for attribute in call.attributes.values()]
    if any(kind in {ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS} for kind in kinds):
        return "it is called with a graph as an attribute"
    return None


def _means_the_same(function: "ir.Function", domain: str, one: int, other: int) -> bool:
    """Whether no operator that the function uses changed between two opsets."""
    import onnx

    for node in function:
        if node.domain != domain:
            continue
        try:
            since = {onnx.defs.get_schema(node.op_type, opset, domain).since_version for opset in (one, other)}
        except onnx.defs.SchemaError:
            return False
        if len(since) > 1 or any(True for _ in inner_graphs(node)):
            return False
    return True


def _named(identifier: "ir.OperatorIdentifier") -> str:
    domain, name, overload = identifier
    return ".".join(part for part in (domain, name) if part) + (f":{overload}" if overload else "")


INLINE_FUNCTIONS = Pass(
    "inline-functions", "calls of the model's own functions are replaced by their nodes", inline_functions
)


def name_nodes(model: "ir.Model", context: PassContext) -> PassResult:
    """Gives nodes unique names: the first of a name keeps it, others are named by operator and first output."""
    model, notes = context.copy(model), Notes()
    nodes = list(nodes_of(model))
    taken: set[str] = set()
    nameless: list[ir.Node] = []
    for node in nodes:
        if node.name and node.name not in taken:
            taken.add(node.name)
        else:
            nameless.append(node)
    for node in nameless:
        node.name = _free(_described(node), taken)
        taken.add(node.name)
    if nameless:
        notes.did(f"named {plural(len(nameless), 'node')}", *(str(node.name) for node in nameless))
    return notes.result(model)


def _described(node: "ir.Node") -> str:
    output = next((value.name for value in node.outputs if value.name), None)
    return f"{node.op_type}_{output}" if output else node.op_type


def _free(name: str, taken: set[str]) -> str:
    number, free = 0, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


NAME_NODES = Pass("name-nodes", "nodes without a name of their own get one", name_nodes)


AS_IT_IS = -1


def fix_shapes(model: "ir.Model", context: PassContext) -> PassResult:
    """Gives inputs the shapes that the user names, so that sizes that depend on them are known ahead of time.

    A dimension that other inputs or outputs share by name gets the same size there; -1 keeps a dimension.
    """
    source, model, notes = model, context.copy(model), Notes()
    sizes: dict[str, int] = {}
    changed: list[str] = []
    for name, requested in context.shapes.items():
        order = axis_orders(model).get(name, ())
        target = tuple(requested[axis] for axis in order) if len(order) == len(requested) else requested
        value = next((v for v in model.graph.inputs if v.name == name and not v.is_initializer()), None)
        reason = _why_not_fixed(model, name, target) if value is None else _misfit(value, target, sizes)
        if reason is not None:
            notes.refuse(reason, name)
        elif value is not None and _set(value, target):
            changed.append(f"{name} {_written(value)}")
    if notes.refused:
        return PassResult(source, (), notes.result(source).refused)
    if changed:
        others = [value for value in (*model.graph.inputs, *model.graph.outputs) if _bind(value, sizes)]
        changed += [f"{value.name} {_written(value)}" for value in others]
        _infer_again(model)
        notes.did(f"fixed the shapes of {', '.join(changed)}")
    return notes.result(model)


def _why_not_fixed(model: "ir.Model", name: str, target: tuple[int, ...]) -> str:  # noqa: ARG001 - like its sister
    names = [str(value.name) for value in model.graph.inputs if not value.is_initializer()]
    meant = near(name, names, alike=0.0)
    return f"the model has no input '{name}'" + (f"; did you mean '{meant[0]}'?" if meant else "")


def _misfit(value: "ir.Value", target: tuple[int, ...], sizes: dict[str, int]) -> str | None:
    """Returns why an input cannot have this shape, or None; records the size of each named dimension in
    `sizes`."""
    if any(size < 1 and size != AS_IT_IS for size in target):
        return f"{_text(target)} is not a shape: sizes are at least 1, or -1 to keep a size"
    if value.shape is None:
        return None
    if len(value.shape) != len(target):
        return (
            f"{_text(target)} has {len(target)} dimensions, and the input {_written(value)} has {len(value.shape)}"
        )
    for have, size in zip(value.shape, target, strict=True):
        if size == AS_IT_IS:
            continue
        if isinstance(have, int):
            if have != size:
                return f"{_text(target)} contradicts the {have} in {_written(value)}"
        elif have.value is not None and sizes.setdefault(have.value, size) != size:
            return f"the dimension '{have.value}' cannot be {sizes[have.value]} and {size} at once"
    return None


def _set(value: "ir.Value", target: tuple[int, ...]) -> bool:
    import onnx_ir as ir

    before = value.shape
    have = [None] * len(target) if before is None else list(before)
    after = ir.Shape([old if new == AS_IT_IS else new for old, new in zip(have, target, strict=True)])
    value.shape = after
    return before is None or before != after


def _bind(value: "ir.Value", sizes: dict[str, int]) -> bool:
    import onnx_ir as ir

    if value.shape is None:
        return False
    after = ir.Shape([d if isinstance(d, int) else sizes.get(d.value or "", d) for d in value.shape])
    if after == value.shape:
        return False
    value.shape = after
    return True


def _infer_again(model: "ir.Model") -> None:
    """Infers all shapes again, because the old ones of inner values contain the open dimensions."""
    for value in (value for node in model.graph for value in node.outputs):
        if not value.is_graph_output():
            value.shape = None
    inputs = {str(v.name): v.shape for v in model.graph.inputs if v.shape is not None and v.shape.is_static()}
    infer_shapes(model, {name: tuple(shape.numpy()) for name, shape in inputs.items()})


def _written(value: "ir.Value") -> str:
    dims = [] if value.shape is None else [d if isinstance(d, int) else d.value or "?" for d in value.shape]
    return "[" + ", ".join(map(str, dims)) + "]"


def _text(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


FIX_SHAPES = Pass("fix-shapes", "inputs get the shapes that --shape names", fix_shapes, on_request=True)
