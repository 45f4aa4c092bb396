"""A diagram laid out with some of its groups open, beside the GUI's thread."""

import msgspec

from edgeopt.diagram.outline import Path
from edgeopt.diagram.scene import Diagram, Layout, Scene, level_at_first, opened_at
from edgeopt.graph.analysis.records import name_of


class OpenedLayout(msgspec.Struct, frozen=True):
    layout: Layout
    opened: frozenset[Path]
    scene: Scene


def laid_out(diagram: Diagram, opened: frozenset[Path] | None, shown: str = "") -> OpenedLayout:
    """`shown` is the name of a node whose groups are open in any case."""
    layout = Layout(diagram)
    chosen = opened_at(diagram, level_at_first(diagram)) if opened is None else opened
    path = path_of(diagram, shown) or ()
    chosen |= {path[:depth] for depth in range(1, len(path))}
    return OpenedLayout(layout, chosen, layout.scene(chosen))


def path_of(diagram: Diagram, name: str) -> Path | None:
    """Of the node of this name, or of the one that makes the tensor of this name."""
    if not name:
        return None
    paths = diagram.wiring.paths
    found = next((node.position for node in diagram.nodes if name_of(node) == name), None)
    if found is None:
        makers = (node.position for node in diagram.nodes if any(each.name == name for each in node.outputs))
        found = next(makers, None)
    return None if found is None else paths.get(found)
