"""What an ONNX model is made of. Weights stay on the disk: only their sizes are looked at."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from edgeopt.graph.analysis.records import (
    Analysis,
    FileRow,
    NodeRow,
    Tensor,
    WeightRow,
    largest,
    operator_rows,
    unknown_shapes,
)
from edgeopt.graph.analysis.twins import twin_bytes
from edgeopt.graph.model import Model, load
from edgeopt.graph.structure import infer_shapes

if TYPE_CHECKING:
    import onnx_ir as ir

OWN_DOMAINS = ("", "ai.onnx")


def analyze_onnx(path: Path) -> Analysis:
    """Reads a model and says what is in it; raises ModelError for what is none."""
    model = load(path)
    infer_shapes(model.ir)
    weights = _weights(model)
    nodes = tuple(_rows(model.ir, {id(value): row for value, row in weights if value is not None}))
    rows = [row for _, row in weights]
    graph = model.ir.graph
    names = {value.name for value in graph.inputs if value.name in graph.initializers}
    producer = f"{model.ir.producer_name or ''} {model.ir.producer_version or ''}".strip()
    return Analysis(
        name=path.name,
        path=str(path),
        kind="model",
        format="ONNX",
        digest=model.digest,
        size_bytes=path.stat().st_size + sum(file.stat().st_size for file in model.external),
        weights_bytes=sum(row.size_bytes for row in rows),
        parameters=sum(row.parameters for row in rows),
        nodes_count=len(nodes),
        inputs=tuple(_tensor(value) for value in graph.inputs if value.name not in names),
        outputs=tuple(_tensor(value) for value in graph.outputs),
        operators=operator_rows(nodes),
        nodes=nodes,
        weights_count=len(rows),
        weights=largest(rows),
        ir_version=model.ir.ir_version,
        opsets=dict(model.ir.opset_imports),
        producer=producer,
        functions_count=len(model.ir.functions),
        external_files=tuple(
            FileRow(file.relative_to(path.parent).as_posix(), file.stat().st_size) for file in model.external
        ),
        warnings=tuple(_warnings(model, nodes, len(names))),
    )


def _weights(model: Model) -> "list[tuple[ir.Value | None, WeightRow]]":
    """Every weight with its row: the initializers of all graphs, and the tensors of Constant nodes."""
    found: list[tuple[ir.Value | None, WeightRow]] = []
    for graph in model.ir.graphs():
        for name, value in graph.initializers.items():
            if value.const_value is not None:
                found.append((value, _weight_row(name, value.const_value)))
        for node in graph:
            tensor = constant_tensor(node)
            if tensor is not None:
                found.append((node.outputs[0], _weight_row(node.outputs[0].name or node.name or "", tensor)))
    return found


def constant_tensor(node: "ir.Node") -> "ir.TensorProtocol | None":
    """What a Constant node holds; None for other nodes, and for the short forms of a single number or text."""
    if node.op_type != "Constant" or node.domain not in OWN_DOMAINS or "value" not in node.attributes:
        return None
    attribute = node.attributes["value"]
    return None if attribute.is_ref() else attribute.as_tensor()


def _weight_row(name: str, tensor: "ir.TensorProtocol") -> WeightRow:
    import onnx_ir as ir

    shape = tuple(int(d) for d in tensor.shape if isinstance(d, int))
    file = str(tensor.location) if isinstance(tensor, ir.ExternalTensor) else ""
    return WeightRow(name, _dtype_name(tensor.dtype), shape, size_bytes(tensor), tensor.size, file)


def size_bytes(tensor: "ir.TensorProtocol") -> int:
    """Texts have no fixed size, so theirs are counted one by one."""
    import onnx_ir as ir

    if tensor.dtype is ir.DataType.STRING:
        return sum(len(text) for text in tensor.numpy().flat)
    return int(tensor.nbytes)


def _rows(model: "ir.Model", weights: dict[int, WeightRow]) -> Iterator[NodeRow]:
    for position, (node, inside) in enumerate(_nodes(model.graph, "")):
        read = {id(value): weights[id(value)] for value in node.inputs if id(value) in weights}
        if node.op_type == "Constant" and id(node.outputs[0]) in weights:
            read = {0: weights[id(node.outputs[0])]}
        yield NodeRow(
            position,
            node.name or "",
            node.op_type,
            "" if node.domain in OWN_DOMAINS else node.domain,
            tuple(_tensor(value) for value in node.inputs),
            tuple(_tensor(value) for value in node.outputs),
            sum(row.size_bytes for row in read.values()),
            sum(row.parameters for row in read.values()),
            inside,
        )


def _nodes(graph: "ir.Graph", inside: str) -> "Iterator[tuple[ir.Node, str]]":
    """Every node in the order of the file, those of a subgraph after the node that holds it."""
    import onnx_ir as ir

    for node in graph:
        yield node, inside
        for name, attribute in node.attributes.items():
            if attribute.is_ref():
                continue
            held: tuple[ir.Graph, ...] = ()
            if attribute.type is ir.AttributeType.GRAPH:
                held = (attribute.as_graph(),)
            elif attribute.type is ir.AttributeType.GRAPHS:
                held = tuple(attribute.as_graphs())
            for inner in held:
                yield from _nodes(inner, f"{inside}{'/' if inside else ''}{node.name or node.op_type}/{name}")


def _tensor(value: "ir.Value | None") -> Tensor:
    """A value as a record; an input that a node leaves out has no name."""
    import onnx_ir as ir

    if value is None:
        return Tensor("")
    dtype = None
    if isinstance(value.type, ir.TensorType):
        dtype = None if value.type.dtype is ir.DataType.UNDEFINED else _dtype_name(value.type.dtype)
    elif value.type is not None:
        dtype = type(value.type).__name__.removesuffix("Type").lower()
    elif value.const_value is not None:
        dtype = _dtype_name(value.const_value.dtype)
    shape = value.shape if value.shape is not None else getattr(value.const_value, "shape", None)
    if shape is None:
        return Tensor(value.name or "", dtype)
    return Tensor(value.name or "", dtype, tuple(d if isinstance(d, int) else d.value for d in shape))


def _dtype_name(dtype: "ir.DataType") -> str:
    """numpy's name where it has one: `float32`, where ONNX says FLOAT."""
    import onnx_ir as ir

    if dtype is ir.DataType.STRING:
        return "str"
    try:
        return str(dtype.numpy().name)
    except TypeError:
        return str(dtype.name).lower()


def _warnings(model: Model, nodes: tuple[NodeRow, ...], listed: int) -> Iterator[str]:
    if listed:
        yield (
            f"{listed:,} weights are listed as inputs, which keeps runtimes from optimizing them; "
            "`edgeopt simplify` takes them out."
        )
    own = [input_ for input_ in model.ir.graph.inputs if not input_.is_initializer()]
    if not own:
        yield "The model has no input: all that it computes is a constant."
    shapes = unknown_shapes(nodes)
    if shapes:
        yield shapes
    foreign: dict[str, int] = defaultdict(int)
    for node in nodes:
        if node.domain:
            foreign[node.domain] += 1
    for domain, count in foreign.items():
        yield f"{count:,} nodes are of the domain '{domain}', which not every runtime knows."
    twins = twin_bytes(model)
    if twins:
        yield f"{twins:,} bytes of weights are there more than once; `edgeopt simplify` merges them."
