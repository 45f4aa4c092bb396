"""A copy of a model made for being timed: nodes with names of their own, functions and known Ifs resolved."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgeopt.graph.analysis import NodeRow

if TYPE_CHECKING:
    import onnx_ir as ir

    from edgeopt.graph.model import Model

NAME = "edgeopt_{}"
_POSITION = "edgeopt.position"


@dataclass(frozen=True, slots=True)
class SourceNode:
    """A node as the runtime gets it."""

    name: str
    row: int
    """The place among the rows of the analysis."""
    operator: str
    reads: tuple[str, ...]
    """With what the bodies in it read."""
    outputs: tuple[str, ...]
    fixed: bool = False
    """It computes the same in every run, so that runtimes do it once before."""


@dataclass(frozen=True, slots=True)
class Prepared:
    path: Path
    nodes: tuple[SourceNode, ...]


def prepared(path: Path, folder: Path) -> Prepared:
    """Writes the copy; an analysis has a row for each node in the order of the file, bodies after their nodes."""
    from edgeopt.graph.model import load
    from edgeopt.graph.nodes import nodes_of
    from edgeopt.graph.passes.base import PassContext
    from edgeopt.graph.passes.cleaning import common_form, folding

    model = load(path)
    graph = model.ir
    for position, node in enumerate(_in_order(graph.graph)):
        node.metadata_props[_POSITION] = str(position)
    if graph.functions:
        graph = common_form.inline_functions(graph, PassContext()).model
    if any(node.op_type == "If" for node in nodes_of(graph)):
        graph = folding.fold_constants(graph, PassContext()).model
    nodes = list(_in_order(graph.graph))
    rows = [int(node.metadata_props.pop(_POSITION, -1)) for node in nodes]
    for place, node in enumerate(nodes):
        node.name = NAME.format(place)
    fixed = _fixed(nodes)
    copy = folder / "timed.onnx"
    _save(graph, model, copy)
    return Prepared(
        copy,
        tuple(
            SourceNode(node.name or "", row, node.op_type, _reads(node), _names(node.outputs), node in fixed)
            for node, row in zip(nodes, rows, strict=True)
        ),
    )


def source_of_rows(path: Path, rows: tuple[NodeRow, ...]) -> Prepared:
    """For a model that is timed as it is, whose nodes have names of their own already."""
    return Prepared(
        path,
        tuple(
            SourceNode(
                row.name,
                row.position,
                row.operator,
                tuple(tensor.name for tensor in row.inputs if tensor.name),
                tuple(tensor.name for tensor in row.outputs if tensor.name),
                row.operator in {"Const", "Constant"},
            )
            for row in rows
        ),
    )


def _in_order(graph: "ir.Graph") -> "Iterator[ir.Node]":
    for node in graph:
        yield node
        for body in _bodies(node):
            yield from _in_order(body)


def _bodies(node: "ir.Node") -> "Iterator[ir.Graph]":
    import onnx_ir as ir

    for attribute in node.attributes.values():
        if attribute.is_ref():
            continue
        if attribute.type is ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type is ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()


def _reads(node: "ir.Node") -> tuple[str, ...]:
    inner = [each for body in _bodies(node) for each in _in_order(body)]
    made = {name for each in inner for name in _names(each.outputs)}
    read = [name for each in (node, *inner) for name in _names(each.inputs) if name not in made]
    return tuple(dict.fromkeys(read))


def _names(values: "Iterator[ir.Value | None] | tuple[ir.Value | None, ...]") -> tuple[str, ...]:
    return tuple(value.name for value in values if value is not None and value.name)


def _fixed(nodes: "list[ir.Node]") -> "set[ir.Node]":
    """Those that hang on no input of the model and draw no random numbers."""
    from edgeopt.graph.nodes import is_random

    found: set[ir.Node] = set()
    for node in nodes:
        known = (
            value is None
            or value.producer() in found
            or (value.const_value is not None and not value.is_graph_input())
            for value in node.inputs
        )
        if not is_random(node) and not any(True for _ in _bodies(node)) and all(known):
            found.add(node)
    return found


def _save(graph: "ir.Model", model: "Model", copy: Path) -> None:
    """Weights in files of their own stay there: the files are linked, or copied where that is not possible."""
    import onnx_ir as ir

    for file in model.external:
        beside = copy.parent / file.relative_to(model.path.parent)
        beside.parent.mkdir(parents=True, exist_ok=True)
        try:
            beside.hardlink_to(file.resolve())
        except OSError:
            shutil.copyfile(file, beside)
    ir.save(graph, copy)
