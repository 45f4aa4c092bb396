"""A diagram laid out with some of its groups open, beside the GUI's thread."""

import msgspec

from edgeopt.commands.graph.revisions import Revision
from edgeopt.diagram.beside import Beside, DiagramModel, beside
from edgeopt.diagram.outline import Path
from edgeopt.diagram.scene import Diagram, Layout, Scene, level_at_first, opened_at
from edgeopt.graph.analysis.records import name_of
from edgeopt.graph.diff import GraphDiff


class OpenedLayout(msgspec.Struct, frozen=True):
    layout: Layout
    opened: frozenset[Path]
    scene: Scene
    pair: Beside | None = None
    """The pair of drawings if two models are drawn; `scene` is then that of the first."""
    second: Scene | None = None


def laid_out(diagram: Diagram, opened: frozenset[Path] | None, shown: str = "") -> OpenedLayout:
    """Lays out a diagram with these groups open, and always those around the node named `shown`."""
    layout = Layout(diagram)
    chosen = opened_at(diagram, level_at_first(diagram)) if opened is None else opened
    return opened_with(layout, chosen | around(path_of(diagram, shown)))


def laid_out_beside(first: Revision, second: Revision, shown: str) -> OpenedLayout:
    """Lays out two revisions side by side, with the groups open around the node named `shown` of either."""
    one, other = (DiagramModel(each.nodes, each.inputs, each.outputs) for each in (first, second))
    pair = beside(one, other, second.partners, second.changes or GraphDiff(0, ()))
    path = next(filter(None, (path_of(side, shown) for side in pair.sides)), None)
    chosen = opened_at(pair.both, level_at_first(pair.both))
    return opened_with(Layout(pair.both), chosen | around(path), pair)


def opened_with(layout: Layout, opened: frozenset[Path], pair: Beside | None = None) -> OpenedLayout:
    whole = layout.scene(opened)
    if pair is None:
        return OpenedLayout(layout, opened, whole)
    first, second = pair.scenes(whole)
    return OpenedLayout(layout, opened, first, pair, second)


def around(path: Path | None) -> frozenset[Path]:
    """Returns the paths of the groups that contain an item."""
    return frozenset(path[:depth] for depth in range(1, len(path))) if path else frozenset()


def path_of(diagram: Diagram, name: str) -> Path | None:
    """Returns the path of the node with this name, or of the node that produces this tensor; None if none does."""
    if not name:
        return None
    paths = diagram.wiring.paths
    found = next((node.position for node in diagram.nodes if name_of(node) == name), None)
    if found is None:
        makers = (node.position for node in diagram.nodes if any(each.name == name for each in node.outputs))
        found = next(makers, None)
    return None if found is None else paths.get(found)
