"""Drawing of a model into one file: alone, beside another one, or after each pass."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from edgeopt.commands.analyze.analyze import AnalyzedModel, AnalyzeKeywords, read_and_analyze
from edgeopt.commands.graph.request import GraphRequest, format_of
from edgeopt.commands.graph.revisions import Revision, Revisions, of_passes, of_two
from edgeopt.diagram.beside import DiagramModel, beside
from edgeopt.diagram.colours import Colouring, change_colouring, colourings
from edgeopt.diagram.page import PageGraph, page, pair_graphs, svg
from edgeopt.diagram.scene import Layout, diagram_of, opened_at_first
from edgeopt.events import Emit, Progress, ignore
from edgeopt.graph.analysis import AnalysisOptions
from edgeopt.graph.diff import GraphDiff
from edgeopt.hw.probe import probe
from edgeopt.measure.files import check_place, writing
from edgeopt.options import read_shapes


class GraphFile(msgspec.Struct, frozen=True):
    path: str
    format: str
    size_bytes: int
    nodes: int
    graphs: int
    colours: tuple[str, ...]
    """Colourings that the first graph offers."""
    changes: GraphDiff | None = None
    """Changes between the two models of --against."""


def draw(request: GraphRequest, emit: Emit = ignore) -> GraphFile:
    to = format_of(request)
    check_place(request.out, "The graph")
    read = _analyzed(request, request.subject, emit)
    source = read.analysis
    if request.against is not None:
        other = _analyzed(request, request.against, emit)
        emit(Progress("comparing the graphs"))
        revisions = of_two(read, other)
    elif request.passes:
        options = AnalysisOptions(read_shapes(request.shape), device=probe())
        revisions = of_passes(read, options, emit)
    else:
        revisions = (
            Revision(
                source.name,
                "",
                source.nodes,
                source.inputs,
                source.outputs,
                is_first=True,
                times=source.op_times,
            ),
        )
    emit(Progress("laying out", request.out.name))
    content = _content(to, revisions)
    with writing(request.out) as file:
        file.write(content)
    return GraphFile(
        str(request.out),
        to,
        len(content),
        source.nodes_count,
        len(revisions),
        tuple(each.title for each in _colours(revisions[0])),
        revisions[0].changes if request.against is not None else None,
    )


def write_changes(first: Path, second: Path, out: Path) -> None:
    """Writes both models of a comparison as one page."""
    sides = [_analyzed(GraphRequest(path, out), path, ignore) for path in (first, second)]
    content = _content("html", of_two(sides[0], sides[1]))
    with writing(out) as file:
        file.write(content)


def _analyzed(request: GraphRequest, path: Path, emit: Emit) -> AnalyzedModel:
    keywords = AnalyzeKeywords(
        data=request.data,
        pre=request.pre,
        shapes=read_shapes(request.shape),
        coverage=False,
        opportunities=False,
        run=request.profile_ops,
        backends=request.backends,
        profile_ops=request.profile_ops and (request.backends or True),
    )
    return read_and_analyze(path, keywords, emit)


def _content(to: str, revisions: Sequence[Revision]) -> bytes:
    if to == "json":
        return msgspec.json.encode(Revisions(tuple(revisions)))
    if to == "html":
        title = " and ".join(each.title for each in revisions) if len(revisions) <= 2 else revisions[0].title
        if len(revisions) == 2 and revisions[1].partners:
            return page(title, _beside(*revisions)).encode()
        graphs = []
        for each in revisions:
            diagram = diagram_of(each.nodes, each.inputs, each.outputs)
            scene = Layout(diagram).scene(frozenset(diagram.groups()))
            graphs.append(PageGraph(each.title, diagram, scene, _colours(each), each.what))
        return page(title, graphs).encode()
    diagram = diagram_of(revisions[0].nodes, revisions[0].inputs, revisions[0].outputs)
    scene = Layout(diagram).scene(opened_at_first(diagram))
    colours = _colours(revisions[0]) or (Colouring("", "", (None,) * len(diagram.nodes)),)
    return svg(diagram, scene, colours[0], revisions[0].title).encode()


def _beside(first: Revision, second: Revision) -> list[PageGraph]:
    models = [DiagramModel(each.nodes, each.inputs, each.outputs) for each in (first, second)]
    pair = beside(models[0], models[1], second.partners, second.changes or GraphDiff(0, ()))
    colours = []
    for side, each in zip(pair.sides, (first, second), strict=True):
        colours.append(_colours(msgspec.structs.replace(each, nodes=side.nodes, changes=second.changes)))
    return pair_graphs(pair, (first.title, second.title), colours, second.what)


def _colours(revision: Revision) -> tuple[Colouring, ...]:
    """Returns the colourings, the requested ones first: changes, then measured times."""
    found = sorted(colourings(revision.nodes, revision.times), key=lambda each: not each.key.startswith("ms:"))
    if revision.changes is None:
        return tuple(found)
    changed = change_colouring(revision.nodes, revision.changes, "first" if revision.is_first else "second")
    return (changed, *found)
