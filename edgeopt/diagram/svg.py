"""A scene as SVG."""

from collections.abc import Iterator
from xml.sax.saxutils import escape

from edgeopt.diagram.colours import UNKNOWN, Colouring, Fill, is_dark
from edgeopt.diagram.layered import Knots
from edgeopt.diagram.outline import Group
from edgeopt.diagram.scene import Box, Diagram, End, Scene, last_part

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
    width, height = scene.width + 2 * _MARGIN, scene.height + 2 * _MARGIN
    bounds = f"{-_MARGIN:g} {-_MARGIN:g} {width:g} {height:g}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{bounds}" width="{width:g}" height="{height:g}">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f'<rect x="{-_MARGIN:g}" y="{-_MARGIN:g}" width="{width:g}" height="{height:g}" fill="#ffffff"/>',
        *(_frame(box) for box in scene.boxes if box.is_open),
        *(f'<path class="line" d="{path_data(line.knots)}"/>' for line in scene.lines),
        *(part for box in scene.boxes if not box.is_open for part in _box(diagram, box, colouring)),
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
    title = box.item.title if isinstance(box.item, Group) else ""
    return (
        f'<rect class="frame" x="{box.left:.1f}" y="{box.top:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="8"/>'
        f'<text class="small" x="{box.left + 8:.1f}" y="{box.top + 16:.1f}">{escape(title)}</text>'
    )


def _box(diagram: Diagram, box: Box, colouring: Colouring) -> Iterator[str]:
    lines, tooltip, fill = _texts(diagram, box, colouring)
    yield (
        f"<g><title>{escape(tooltip)}</title>"
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
            f"{escape(shortened(line, room))}</text>"
        )
    yield "</g>"


def _texts(diagram: Diagram, box: Box, colouring: Colouring) -> tuple[list[str], str, Fill | None]:
    item = box.item
    if isinstance(item, End):
        kind = "input" if item.is_input else "output"
        return [item.tensor.name], f"{kind} {item.tensor.name}", None
    fill = colouring.of(item)
    told = f"\n{colouring.title}: {fill.text}" if fill else ""
    if isinstance(item, Group):
        return [item.title, f"{item.nodes_count:,} nodes"], f"{item.title}{told}", fill
    node = diagram.nodes[item.position]
    second = fill.text if fill and colouring.amounts is not None else last_part(node.name)
    return [node.operator, *([second] if second else [])], f"{node.operator} {node.name}{told}", fill


def shortened(text: str, room: int) -> str:
    """Cut in the middle, where long names differ least."""
    if len(text) <= room:
        return text
    half = max(1, (room - 1) // 2)
    return f"{text[:half]}…{text[-half:]}"
