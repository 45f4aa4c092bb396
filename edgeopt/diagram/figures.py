"""Figures of a folded group: work, bytes, weights and outputs of its nodes together."""

from collections.abc import Callable, Iterator

from edgeopt import units
from edgeopt.diagram.outline import OutlineGroup, Path, leaves
from edgeopt.diagram.scene import Diagram
from edgeopt.graph.analysis.records import NodeRow
from edgeopt.graph.analysis.sums import HOLDERS


def group_figures(diagram: Diagram, path: Path) -> Iterator[tuple[str, str]]:
    """Names and values, as far as they are known."""
    group = diagram.item(path)
    if not isinstance(group, OutlineGroup):
        return
    # A node with a body counts by the nodes of the body.
    rows = [diagram.nodes[position] for position in leaves(group)]
    nodes = [row for row in rows if row.operator not in HOLDERS]
    yield "Nodes", f"{group.nodes_count:,}"
    yield from _sum("Work", nodes, _operations, lambda found: f"{units.short_count(found)} operations")
    yield from _sum("Moved", nodes, _bytes, units.size)
    yield from _sum("Weights", nodes, lambda node: node.weights_bytes, units.size)
    if outputs := diagram.outputs_of(path):
        yield "Output", ", ".join(outputs)


def _operations(node: NodeRow) -> int | None:
    return None if node.cost.operations is None else node.cost.operations * node.runs


def _bytes(node: NodeRow) -> int | None:
    read, written = node.cost.read_bytes, node.cost.written_bytes
    return None if read is None or written is None else (read + written) * node.runs


def _sum(
    name: str, nodes: list[NodeRow], value: Callable[[NodeRow], int | None], text: Callable[[int], str]
) -> Iterator[tuple[str, str]]:
    """Yields the sum of a value over nodes, as "at least" if the value of some nodes is unknown."""
    known = [found for node in nodes if (found := value(node)) is not None]
    if any(known):
        yield name, f"{'at least ' * (len(known) < len(nodes))}{text(sum(known))}"
