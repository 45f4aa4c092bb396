"""Structure and cost of ONNX models; external weights are read in blocks and never loaded whole."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgeopt import units
from edgeopt.graph.analysis.categories import HEAVY
from edgeopt.graph.analysis.cost.call import ALIASES, ONLY_SHAPES
from edgeopt.graph.analysis.dimensions import OpenSizes, claims, concrete, dimensions, open_dimensions
from edgeopt.graph.analysis.records import (
    Analysis,
    AnalysisOptions,
    FileRow,
    NodeRow,
    WeightRow,
    largest,
    unknown_shapes,
)
from edgeopt.graph.analysis.roofline import timed
from edgeopt.graph.analysis.sums import category_rows, operator_rows, work
from edgeopt.graph.analysis.tensors import (
    OWN_DOMAINS,
    Operands,
    attribute_text,
    constant_tensor,
    dtype_name,
    size_bytes,
    tensor_row,
)
from edgeopt.graph.analysis.weigh import Weight, weigh
from edgeopt.graph.analysis.weights import Content, Looked, look
from edgeopt.graph.import_proof import import_proof_in
from edgeopt.graph.model import Model, load
from edgeopt.graph.nodes import subgraphs
from edgeopt.graph.shapes.infer import infer_shapes
from edgeopt.graph.shapes.propagate import propagate

if TYPE_CHECKING:
    import onnx_ir as ir

AS_IN_THE_FILE = AnalysisOptions()


@dataclass(frozen=True, slots=True)
class _Stored:
    """A weight with the value that refers to it, its tensor, and its row."""

    value: "ir.Value"
    tensor: "ir.TensorProtocol"
    row: WeightRow


@dataclass(frozen=True, slots=True)
class TensorSizes:
    """Shapes and sizes of a model's values with its open dimensions bound, and the cost of its nodes."""

    shapes: "dict[ir.Value, tuple[int, ...]]"
    bytes: "dict[ir.Value, int]"
    weights: "tuple[Weight, ...]"
    """Cost of each node, in the order of `walk`."""


def analyze_onnx(path: Path, options: AnalysisOptions = AS_IN_THE_FILE) -> Analysis:
    """Analyzes a model file; raises ModelError if it is not an ONNX model."""
    return analysis_of(load(path), options)


def analysis_of(model: Model, options: AnalysisOptions = AS_IN_THE_FILE) -> Analysis:
    """Analyzes a loaded model and infers shapes that are not known yet."""
    infer_shapes(model.ir)
    opened = open_dimensions(model.ir, options)
    sizes = sizes_of(model.ir, options, opened)
    stored = _weights(model)
    looked = look([(each.value, each.tensor) for each in stored], options.large_weights)
    rows = [_with(each.row, looked.contents.get(id(each.tensor))) for each in stored]
    nodes, least_reason = timed(
        _rows(model.ir, {each.value: row for each, row in zip(stored, rows, strict=True)}, sizes), options
    )
    graph = model.ir.graph
    names = {value.name for value in graph.inputs if value.name in graph.initializers}
    producer = f"{model.ir.producer_name or ''} {model.ir.producer_version or ''}".strip()
    return Analysis(
        name=model.path.name,
        path=str(model.path),
        kind="model",
        format="ONNX",
        digest=model.digest,
        size_bytes=model.path.stat().st_size + sum(file.stat().st_size for file in model.external),
        weights_bytes=sum(row.size_bytes for row in rows),
        parameters=sum(row.parameters for row in rows),
        nodes_count=len(nodes),
        inputs=tuple(tensor_row(value) for value in graph.inputs if value.name not in names),
        outputs=tuple(tensor_row(value) for value in graph.outputs),
        operators=operator_rows(nodes),
        nodes=nodes,
        weights_count=len(rows),
        weights=largest(rows),
        ir_version=model.ir.ir_version,
        opsets=dict(model.ir.opset_imports),
        producer=producer,
        functions_count=len(model.ir.functions),
        external_files=tuple(
            FileRow(file.relative_to(model.path.parent).as_posix(), file.stat().st_size) for file in model.external
        ),
        warnings=tuple(_warnings(model, nodes, len(names), looked)),
        imported=import_proof_in(model.ir.metadata_props),
        categories=category_rows(nodes),
        work=work(
            nodes,
            _peak(graph, sizes),
            least_reason,
            tuple(f"{each.name} = {each.size} ({each.origin})" for each in opened),
        ),
        dimensions=dimensions(model.ir, opened, sizes.shapes, options.real),
        weights_summary=looked.summary,
    )


def sizes_of(model: "ir.Model", options: AnalysisOptions, opened: tuple[OpenSizes, ...]) -> TensorSizes:
    """Computes shapes and bytes of all values and the cost of all nodes, without changing the model."""
    bound = concrete(model, options, opened)
    operands = Operands(options.real, propagate(bound, options.real, claims(model)).values)
    costs = weigh(bound, operands)
    shapes: dict[ir.Value, tuple[int, ...]] = {}
    sized: dict[ir.Value, int] = {}
    weights: list[Weight] = []
    for mine, its in _paired(model.graph, bound.graph):
        operand = operands.of(its)
        if operand.shape is not None:
            shapes[mine] = operand.shape
            if operand.bits is not None:
                sized[mine] = operand.size_bytes()
    weights = [costs[node] for node, _ in walk(bound.graph)]
    return TensorSizes(shapes, sized, tuple(weights))


def _paired(graph: "ir.Graph", bound: "ir.Graph") -> "Iterator[tuple[ir.Value, ir.Value]]":
    """Yields the inputs and results of a graph with those of its clone, including subgraphs."""
    yield from zip(graph.inputs, bound.inputs, strict=True)
    for node, clone in zip(graph, bound, strict=True):
        yield from zip(node.outputs, clone.outputs, strict=True)
        for (_, inner), (_, other) in zip(subgraphs(node), subgraphs(clone), strict=True):
            yield from _paired(inner, other)


def _peak(graph: "ir.Graph", sizes: TensorSizes) -> tuple[int | None, str, int]:
    made = [value for node in graph if node.op_type != "Constant" for value in node.outputs if value.name]
    unsized = sum(value not in sizes.bytes for value in made)
    if made and unsized == len(made):
        return None, "", unsized
    maximum, node = peak_bytes(graph, sizes.bytes)
    return maximum, "" if node is None else node.name or f"{node.op_type} '{node.outputs[0].name}'", unsized


def _weights(model: Model) -> list[_Stored]:
    """Lists all weights: the initializers of all graphs, and the tensors of Constant nodes."""
    found: list[_Stored] = []
    for graph in model.ir.graphs():
        for name, value in graph.initializers.items():
            if value.const_value is not None:
                found.append(_Stored(value, value.const_value, _weight_row(name, value.const_value)))
        for node in graph:
            tensor = constant_tensor(node)
            if tensor is not None:
                output = node.outputs[0]
                found.append(_Stored(output, tensor, _weight_row(output.name or node.name or "", tensor)))
    return found


def _weight_row(name: str, tensor: "ir.TensorProtocol") -> WeightRow:
    import onnx_ir as ir

    shape = tuple(int(d) for d in tensor.shape if isinstance(d, int))
    file = str(tensor.location) if isinstance(tensor, ir.ExternalTensor) else ""
    return WeightRow(name, dtype_name(tensor.dtype), shape, size_bytes(tensor), tensor.size, file)


def _with(row: WeightRow, content: Content | None) -> WeightRow:
    if content is None:
        return row
    return WeightRow(
        *(row.name, row.dtype, row.shape, row.size_bytes, row.parameters, row.file),
        content.zeros_share,
        content.minimum,
        content.maximum,
        content.histogram,
    )


def _rows(model: "ir.Model", weights: "Mapping[ir.Value, WeightRow]", sizes: TensorSizes) -> Iterator[NodeRow]:
    counted = _counted_at(model, weights, sizes)
    for position, ((node, inside), weight) in enumerate(zip(walk(model.graph), sizes.weights, strict=True)):
        read = _read(node, weights)
        yield NodeRow(
            position,
            node.name or "",
            node.op_type,
            "" if node.domain in OWN_DOMAINS else node.domain,
            tuple(tensor_row(value) for value in node.inputs),
            tuple(tensor_row(value) for value in node.outputs),
            sum(row.size_bytes for row in read.values()),
            sum(row.parameters for row in read.values()),
            inside,
            weight.category.value,
            weight.cost,
            weight.runs,
            attributes={name: attribute_text(attribute) for name, attribute in node.attributes.items()},
            counted_weights_bytes=sum(row.size_bytes for value, row in read.items() if counted[value] == position),
        )


def _read(node: "ir.Node", weights: "Mapping[ir.Value, WeightRow]") -> "dict[ir.Value, WeightRow]":
    if node.op_type in ONLY_SHAPES:
        return {}
    values = node.outputs[:1] if node.op_type == "Constant" else node.inputs
    return {value: weights[value] for value in values if value is not None and value in weights}


def _counted_at(
    model: "ir.Model", weights: "Mapping[ir.Value, WeightRow]", sizes: TensorSizes
) -> "dict[ir.Value, int]":
    """Returns the node at which each weight counts: the first that computes with it, else the first that reads
    it."""
    readers: dict[ir.Value, tuple[int, int]] = {}
    for position, ((node, _), weight) in enumerate(zip(walk(model.graph), sizes.weights, strict=True)):
        rank = 0 if weight.category in HEAVY else 2 if node.op_type == "Constant" else 1
        for value in _read(node, weights):
            readers[value] = min(readers.get(value, (rank, position)), (rank, position))
    return {value: position for value, (_, position) in readers.items()}


def walk(graph: "ir.Graph", inside: str = "") -> "Iterator[tuple[ir.Node, str]]":
    """Yields every node in the order of the file, the nodes of a subgraph after the node that contains it."""
    for node in graph:
        yield node, inside
        for name, inner in subgraphs(node):
            yield from walk(inner, f"{inside}{'/' if inside else ''}{node.name or node.op_type}/{name}")


def _warnings(model: Model, nodes: tuple[NodeRow, ...], listed: int, looked: Looked) -> Iterator[str]:
    if listed:
        yield (
            f"{listed:,} weights are listed as inputs, which keeps runtimes from optimizing them; "
            "`edgeopt simplify` makes them constants."
        )
    own = [input_ for input_ in model.ir.graph.inputs if not input_.is_initializer()]
    if not own:
        yield "The model has no input, so its results are constants."
    shapes = unknown_shapes(nodes)
    if shapes:
        yield shapes
    foreign: dict[str, int] = defaultdict(int)
    for node in nodes:
        if node.domain:
            foreign[node.domain] += 1
    for domain, count in foreign.items():
        yield f"{units.count(count, 'node')} of the domain '{domain}' may not run in every runtime."
    summary = looked.summary
    if summary.twins_bytes:
        yield f"{summary.twins_bytes:,} bytes of weights are duplicates; `edgeopt simplify` merges them."
    if summary.not_finite:
        names = ", ".join(summary.not_finite[:3])
        yield f"NaN or infinity in {units.count(len(summary.not_finite), 'weight')}: {names}."


@dataclass(slots=True)
class _Room:
    """Size and lifetime of a tensor and of its aliases."""

    size: int
    begin: int
    end: int


def peak_bytes(graph: "ir.Graph", sizes: "Mapping[ir.Value, int]") -> "tuple[int, ir.Node | None]":
    """Returns the peak memory of activations in bytes, in the node order of the graph, and the node of the peak.

    Inputs are alive for the whole run, outputs from their node to the end of the run, and other values from their
    node to their last reader. A value that only reshapes another shares its memory. Weights do not count, nor does
    a value without a known size. The largest peak of a node's subgraphs is added at that node. In-place
    element-wise operators, which some runtimes use, are not assumed.
    """
    nodes = tuple(graph)
    last = len(nodes)
    rooms: dict[ir.Value, _Room] = {
        value: _Room(sizes.get(value, 0), 0, last) for value in graph.inputs if not value.is_initializer()
    }
    for place, node in enumerate(nodes):
        for value in read_by(node):
            if value in rooms:
                rooms[value].end = max(rooms[value].end, place)
        alias = node.inputs[0] if node.inputs and node.op_type in ALIASES else None
        for value in node.outputs:
            if alias is not None and alias in rooms:
                rooms[value] = rooms[alias]
            elif alias is None and node.op_type != "Constant":
                # An alias of a weight or of an outer value takes no memory here.
                rooms[value] = _Room(sizes.get(value, 0), place, place)
    for value in graph.outputs:
        if value in rooms:
            rooms[value].end = last
    held = [max((peak_bytes(inner, sizes)[0] for _, inner in subgraphs(node)), default=0) for node in nodes]
    changes = [0] * (last + 2)
    for room in {id(room): room for room in rooms.values()}.values():
        changes[room.begin] += room.size
        changes[room.end + 1] -= room.size
    maximum, at, now = sum(room.size for room in rooms.values() if not nodes), None, 0
    for place, node in enumerate(nodes):
        now += changes[place]
        if at is None or now + held[place] > maximum:
            maximum, at = now + held[place], node
    return maximum, at


def read_by(node: "ir.Node") -> "list[ir.Value]":
    """Returns the values that a node reads, including those that its subgraphs read."""
    read = [value for value in node.inputs if value is not None]
    for _, inner in subgraphs(node):
        for each in inner:
            read += read_by(each)
        read.extend(inner.outputs)
    return read
