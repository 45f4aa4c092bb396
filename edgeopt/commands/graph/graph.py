"""Draws a model, or two with what changed between them, into one file."""

from pathlib import Path

import msgspec

from edgeopt.bundle.deployment import SUFFIX
from edgeopt.bundle.read import is_bundle, read_bundle
from edgeopt.commands.analyze.analyze import analyze
from edgeopt.commands.graph.request import GraphRequest, format_of
from edgeopt.commands.simplify.request import read_shapes
from edgeopt.diagram.changes import change_colouring
from edgeopt.diagram.colours import Colouring, colourings
from edgeopt.diagram.page import Drawn, page
from edgeopt.diagram.scene import Layout, diagram_of, opened_at_first
from edgeopt.diagram.svg import svg
from edgeopt.errors import InputError
from edgeopt.events import Emit, Progress, ignore
from edgeopt.graph.analysis import Analysis
from edgeopt.graph.diff import GraphDiff, diff, match
from edgeopt.measure.files import writing


class GraphDrawn(msgspec.Struct, frozen=True):
    path: str
    format: str
    size_bytes: int
    nodes: int
    colours: tuple[str, ...]
    """What the diagram can be coloured by."""
    changes: GraphDiff | None = None


def draw(request: GraphRequest, emit: Emit = ignore) -> GraphDrawn:
    to = format_of(request)
    first = _analyzed(request, request.subject, emit)
    second = _analyzed(request, request.against, emit) if request.against is not None else None
    changes = None
    if request.against is not None:
        emit(Progress("comparing the graphs"))
        changes = _changes(request.subject, request.against)
    emit(Progress("laying out", request.out.name))
    if to == "svg":
        content = _svg(first)
    else:
        drawn = [_drawn(first, changes, is_first=True)]
        title = first.name
        if second is not None:
            drawn.append(_drawn(second, changes, is_first=False))
            title = f"{first.name} and {second.name}"
        content = page(title, drawn)
    data = content.encode()
    with writing(request.out) as file:
        file.write(data)
    known = tuple(each.title for each in _colours(first, changes, is_first=True))
    return GraphDrawn(str(request.out), to, len(data), first.nodes_count, known, changes)


def write_changes(first: Path, second: Path, changes: GraphDiff, out: Path) -> None:
    """Both models of a comparison as one page."""
    sides = [(_analyzed(GraphRequest(path, out), path, ignore), path == first) for path in (first, second)]
    content = page(
        f"{first.name} and {second.name}", [_drawn(side, changes, is_first=is_first) for side, is_first in sides]
    )
    with writing(out) as file:
        file.write(content.encode())


def _analyzed(request: GraphRequest, path: Path, emit: Emit) -> Analysis:
    return analyze(
        path,
        emit,
        data=request.data,
        shapes=read_shapes(request.shape),
        coverage=False,
        opportunities=False,
        run=request.profile_ops,
        backends=request.backends,
        profile_ops=request.profile_ops and (request.backends or True),
    )


def _changes(first: Path, second: Path) -> GraphDiff:
    from edgeopt.graph.model import Model, load
    from edgeopt.graph.shapes import infer_shapes

    def read(path: Path) -> Model:
        is_one = is_bundle(path) or path.suffix == SUFFIX
        file = read_bundle(path).model if is_one else path
        if file.suffix == ".xml":
            raise InputError(
                f"'{path.name}' holds an OpenVINO IR.", "Graphs are compared only between ONNX models."
            )
        model = load(file)
        infer_shapes(model.ir)
        return model

    return diff(match(read(first).ir, read(second).ir))


def _colours(analysis: Analysis, changes: GraphDiff | None, *, is_first: bool) -> tuple[Colouring, ...]:
    found = colourings(analysis.nodes, analysis.op_times)
    if changes is not None:
        return (change_colouring(analysis.nodes, changes, "first" if is_first else "second"), *found)
    # What was asked to be measured is what people want to see.
    return tuple(sorted(found, key=lambda each: not each.key.startswith("ms:")))


def _drawn(analysis: Analysis, changes: GraphDiff | None, *, is_first: bool) -> Drawn:
    diagram = diagram_of(analysis.nodes, analysis.inputs, analysis.outputs)
    scene = Layout(diagram).scene(frozenset(diagram.groups()))
    colours = _colours(analysis, changes, is_first=is_first)
    return Drawn(analysis.name, diagram, scene, colours, analysis.op_times)


def _svg(analysis: Analysis) -> str:
    diagram = diagram_of(analysis.nodes, analysis.inputs, analysis.outputs)
    scene = Layout(diagram).scene(opened_at_first(diagram))
    colours = _colours(analysis, None, is_first=True)
    return svg(
        diagram, scene, colours[0] if colours else Colouring("", "", (None,) * len(diagram.nodes)), analysis.name
    )
