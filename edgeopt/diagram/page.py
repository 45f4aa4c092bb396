"""One HTML file with one or two diagrams: no server, no network; zoom, search, colours, details on click."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

import msgspec

from edgeopt import units
from edgeopt.diagram.colours import UNKNOWN, Colouring
from edgeopt.diagram.outline import Group, shape_label
from edgeopt.diagram.scene import Box, Diagram, End, Scene, last_part
from edgeopt.graph.analysis.records import NodeRow, Tensor

# Whatever should get into the page after all may load nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True, slots=True)
class PageGraph:
    """One model of the page."""

    name: str
    diagram: Diagram
    scene: Scene
    colourings: tuple[Colouring, ...]
    what: str = ""
    """The text about it while no node is selected."""


def page(title: str, drawn: Sequence[PageGraph]) -> str:
    here = files("edgeopt.diagram")
    style = here.joinpath("page.css").read_text(encoding="utf-8")
    script = here.joinpath("page.js").read_text(encoding="utf-8")
    # Within a script element only this could end it.
    data = msgspec.json.encode([_data(each) for each in drawn]).decode().replace("<", "\\u003c")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f'<header><h1>{escape(title)}</h1><span id="models"></span>'
        '<input id="search" type="search" placeholder="Search names, operators and tensors" '
        'aria-label="Search"><output id="hits"></output>'
        '<label>Colour by <select id="colours"></select></label><span id="legend"></span>'
        '<button id="fit" title="Show the whole graph (0)">Fit</button></header>\n'
        '<main><canvas id="graph" tabindex="0" aria-label="Graph of the model"></canvas>'
        '<aside id="details" aria-live="polite"></aside></main>\n'
        f'<script id="data" type="application/json">{data}</script>\n<script>\n{script}</script>\n'
        "</body>\n</html>\n"
    )


def _data(drawn: PageGraph) -> dict[str, object]:
    scene, diagram = drawn.scene, drawn.diagram
    places = {box.path: index for index, box in enumerate(scene.boxes)}
    values = diagram.values
    return {
        "name": drawn.name,
        "what": drawn.what,
        "width": round(scene.width),
        "height": round(scene.height),
        "boxes": [_box(diagram, box) for box in scene.boxes],
        "lines": [
            {
                "k": [round(number, 1) for knot in line.knots for number in knot],
                "s": places.get(line.source, -1) if line.source is not None else -1,
                "t": places.get(line.target, -1) if line.target is not None else -1,
                "v": values[line.value].label,
            }
            for line in scene.lines
        ],
        "colourings": [_colouring(scene, each) for each in drawn.colourings],
        "facts": [list(_facts(diagram, box, drawn)) for box in scene.boxes],
    }


def _box(diagram: Diagram, box: Box) -> list[object]:
    """Left, top, width, height, kind, title, second line, what is searched."""
    place: list[object] = [round(box.left, 1), round(box.top, 1), round(box.width, 1), round(box.height, 1)]
    item = box.item
    if isinstance(item, End):
        return [*place, "end", item.tensor.name, "", item.tensor.name]
    if isinstance(item, Group):
        return [*place, "frame", item.title, f"{item.nodes_count:,} nodes", item.title]
    node = diagram.nodes[item.position]
    tensors = " ".join(tensor.name for tensor in (*node.inputs, *node.outputs))
    return [*place, "node", node.operator, last_part(node.name), f"{node.name} {node.operator} {tensors}"]


def _colouring(scene: Scene, colouring: Colouring) -> dict[str, object]:
    fills = [None if isinstance(box.item, End | Group) else colouring.of(box.item) for box in scene.boxes]
    return {
        "title": colouring.title,
        "amounts": colouring.amounts is not None,
        "solid": [fill is not None and fill.solid for fill in fills],
        "unknown": UNKNOWN,
        "fills": [fill.colour if fill else None for fill in fills],
        "texts": [fill.text if fill else "" for fill in fills],
        "legend": colouring.legend,
    }


def _facts(diagram: Diagram, box: Box, drawn: PageGraph) -> Iterator[tuple[str, str]]:
    item = box.item
    if isinstance(item, End):
        yield "Input" if item.is_input else "Output", _tensor(item.tensor)
    elif isinstance(item, Group):
        yield "Group", item.title
        yield "Nodes", f"{item.nodes_count:,}"
    else:
        node = diagram.nodes[item.position]
        yield "Operator", f"{node.domain}.{node.operator}" if node.domain else node.operator
        if node.name:
            yield "Name", node.name
        for colouring in drawn.colourings:
            if (fill := colouring.of(item)) is not None:
                yield colouring.title, fill.text
        yield from _of_node(node)


def _of_node(node: NodeRow) -> Iterator[tuple[str, str]]:
    for name, tensors in (("Input", node.inputs), ("Output", node.outputs)):
        for tensor in tensors:
            if tensor.name:
                yield name, _tensor(tensor)
    if node.weights_bytes:
        yield "Weights", f"{units.size(node.weights_bytes)}, {node.parameters:,} parameters"
    yield from node.attributes.items()


def _tensor(tensor: Tensor) -> str:
    return f"{tensor.name}  {tensor.dtype or '?'} {shape_label(tensor)}".rstrip()
