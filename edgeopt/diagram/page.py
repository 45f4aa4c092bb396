"""One HTML file with one or two diagrams: no server, no network; zoom, search, colours, details on click."""

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files

import msgspec

from edgeopt import units
from edgeopt.diagram.beside import Beside
from edgeopt.diagram.colours import UNKNOWN, Colouring, Fill, is_dark
from edgeopt.diagram.figures import group_figures
from edgeopt.diagram.layered import Knots
from edgeopt.diagram.outline import OutlineGroup, shape_label
from edgeopt.diagram.scene import Box, Diagram, End, Layout, Scene, last_part
from edgeopt.errors import legible, printable
from edgeopt.graph.analysis.records import NodeRow, TensorFacts

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
    partners: tuple[int, ...] = ()
    """Partner of each box in the other model beside it, or -1."""


def escape(text: str, quote: bool = True) -> str:
    """The text as mark-up; line ends are kept, for tooltips."""
    return html.escape(legible(text, line_ends=True), quote)


def page(title: str, drawn: Sequence[PageGraph]) -> str:
    here = files("edgeopt.diagram")
    style = here.joinpath("page.css").read_text(encoding="utf-8")
    script = here.joinpath("page.js").read_text(encoding="utf-8")
    # Within a script element only this could end it.
    data = msgspec.json.encode([_data(each) for each in drawn]).decode().replace("<", "\\u003c")
    data = "".join(each if each.isprintable() else printable(each).replace("\\", r"\\") for each in data)
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
        '<button id="beside" aria-pressed="false" hidden>Side by side</button>'
        '<button id="fit" title="Show the whole graph (0)">Fit</button></header>\n'
        '<main><canvas id="graph" tabindex="0" aria-label="Graph of the model"></canvas>'
        '<aside id="details" aria-live="polite"></aside></main>\n'
        f'<script id="data" type="application/json">{data}</script>\n<script>\n{script}</script>\n'
        "</body>\n</html>\n"
    )


def pair_graphs(
    pair: Beside, names: Sequence[str], colours: Sequence[tuple[Colouring, ...]], what: str = ""
) -> list[PageGraph]:
    """Two models for one page, with nodes that belong together at the same place."""
    scenes = pair.scenes(Layout(pair.both).scene(frozenset(pair.both.groups())))
    places = [{box.path: at for at, box in enumerate(scene.boxes)} for scene in scenes]
    return [
        PageGraph(
            names[side],
            pair.sides[side],
            scene,
            colours[side],
            what if side else "",
            tuple(places[1 - side].get(pair.counterpart(side, box.path) or (), -1) for box in scene.boxes),
        )
        for side, scene in enumerate(scenes)
    ]


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
        "partners": drawn.partners,
        "facts": [list(_facts(diagram, box, drawn)) for box in scene.boxes],
    }


def _box(diagram: Diagram, box: Box) -> list[object]:
    """Left, top, width, height, kind, title, second line, what is searched."""
    place: list[object] = [round(box.left, 1), round(box.top, 1), round(box.width, 1), round(box.height, 1)]
    item = box.item
    if isinstance(item, End):
        return [*place, "end", item.tensor.name, "", item.tensor.name]
    if isinstance(item, OutlineGroup):
        return [*place, "frame", item.title, diagram.group_line(box.path), item.title]
    node = diagram.nodes[item.position]
    tensors = " ".join(tensor.name for tensor in (*node.inputs, *node.outputs))
    return [*place, "node", node.operator, last_part(node.name), f"{node.name} {node.operator} {tensors}"]


def _colouring(scene: Scene, colouring: Colouring) -> dict[str, object]:
    fills = [None if isinstance(box.item, End | OutlineGroup) else colouring.of(box.item) for box in scene.boxes]
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
    elif isinstance(item, OutlineGroup):
        yield "Group", item.title
        for colouring in drawn.colourings:
            if (fill := colouring.of(item)) is not None:
                yield colouring.title, fill.text
        yield from group_figures(diagram, box.path)
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


def _tensor(tensor: TensorFacts) -> str:
    return f"{tensor.name}  {tensor.dtype or '?'} {shape_label(tensor)}".rstrip()


_MARGIN = 24.0
_CHARACTER = 7.2
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1b1b1b }
.small { font-size: 10px; fill: #555 }
.dark { fill: #ffffff }
.line { fill: none; stroke: #8a8a8a; stroke-width: 1.2 }
.box { stroke: #6b6b6b; stroke-width: 0.8 }
.frame { fill: #000000; fill-opacity: 0.03; stroke: #9a9a9a; stroke-dasharray: 4 3 }
.stripe { stroke: none }
"""


def svg(diagram: Diagram, scene: Scene, colouring: Colouring, title: str) -> str:
    """A picture that stands alone; each node has its full name as a tooltip."""
    items = [box.item for box in scene.boxes if not box.is_open]
    colouring = colouring.scaled_to(item for item in items if not isinstance(item, End))
    width, height = scene.width + 2 * _MARGIN, scene.height + 2 * _MARGIN
    bounds = f"{-_MARGIN:g} {-_MARGIN:g} {width:g} {height:g}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{bounds}" width="{width:g}" height="{height:g}">',
        f"<title>{escape(title, quote=False)}</title><style>{_STYLE}</style>",
        f'<rect x="{-_MARGIN:g}" y="{-_MARGIN:g}" width="{width:g}" height="{height:g}" fill="#ffffff"/>',
        *(_frame(box) for box in scene.boxes if box.is_open),
        *(f'<path class="line" d="{path_data(line.knots)}"/>' for line in scene.lines),
        *(part for box in scene.boxes if not box.is_open for part in _svg_box(diagram, box, colouring)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def path_data(knots: Knots) -> str:
    """Straight where x stays, else a curve that leaves and arrives vertically."""
    x, y = knots[0]
    parts = [f"M{x:.1f} {y:.1f}"]
    for next_x, next_y in knots[1:]:
        if abs(next_x - x) < 0.5:
            parts.append(f"L{next_x:.1f} {next_y:.1f}")
        else:
            middle = (y + next_y) / 2
            parts.append(f"C{x:.1f} {middle:.1f} {next_x:.1f} {middle:.1f} {next_x:.1f} {next_y:.1f}")
        x, y = next_x, next_y
    return "".join(parts)


def _frame(box: Box) -> str:
    title = box.item.title if isinstance(box.item, OutlineGroup) else ""
    return (
        f'<rect class="frame" x="{box.left:.1f}" y="{box.top:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="8"/>'
        f'<text class="small" x="{box.left + 8:.1f}" y="{box.top + 16:.1f}">{escape(title, quote=False)}</text>'
    )


def _svg_box(diagram: Diagram, box: Box, colouring: Colouring) -> Iterator[str]:
    lines, tooltip, fill = _texts(diagram, box, colouring)
    yield (
        f"<g><title>{escape(tooltip, quote=False)}</title>"
        f'<rect class="box" x="{box.left:.1f}" y="{box.top:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="{13 if isinstance(box.item, End) else 5}" '
        f'fill="{fill.colour if fill and fill.solid else "#ffffff"}"/>'
    )
    if not isinstance(box.item, End) and not (fill and fill.solid):
        yield (
            f'<rect class="stripe" x="{box.left + 1:.1f}" y="{box.top + 1:.1f}" width="7" '
            f'height="{box.height - 2:.1f}" rx="3" fill="{fill.colour if fill else UNKNOWN}"/>'
        )
    middle = box.left + box.width / 2 + (3 if len(lines) > 1 else 0)
    top = box.top + (17 if len(lines) > 1 else box.height / 2 + 4)
    dark = " dark" if fill and fill.solid and is_dark(fill.colour) else ""
    for number, line in enumerate(lines):
        room = int((box.width - 18) / (_CHARACTER if number == 0 else 6.0))
        kind = f' class="{"small" if number else ""}{dark}"'
        yield (
            f'<text{kind} x="{middle:.1f}" y="{top + 15 * number:.1f}" text-anchor="middle">'
            f"{escape(shortened(line, room), quote=False)}</text>"
        )
    yield "</g>"


def _texts(diagram: Diagram, box: Box, colouring: Colouring) -> tuple[list[str], str, Fill | None]:
    item = box.item
    if isinstance(item, End):
        kind = "input" if item.is_input else "output"
        return [item.tensor.name], f"{kind} {item.tensor.name}", None
    fill = colouring.of(item)
    tooltip = f"\n{colouring.title}: {fill.text}" if fill else ""
    if isinstance(item, OutlineGroup):
        facts = "".join(f"\n{name}: {text}" for name, text in group_figures(diagram, box.path))
        second = fill.text if fill and colouring.amounts is not None else diagram.group_line(box.path)
        return [item.title, second], f"{item.title}{tooltip}{facts}", fill
    node = diagram.nodes[item.position]
    second = fill.text if fill and colouring.amounts is not None else last_part(node.name)
    return [node.operator, *([second] if second else [])], f"{node.operator} {node.name}{tooltip}", fill


def shortened(text: str, room: int) -> str:
    """Cut in the middle, where long names differ least."""
    if len(text) <= room:
        return text
    half = max(1, (room - 1) // 2)
    return f"{text[:half]}…{text[-half:]}"
