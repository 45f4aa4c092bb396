"""Changes between two models, with the time that each change saves if both were measured."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from edgeopt.diagram.beside import Beside
from edgeopt.diagram.colours import CHANGED, FUSED, NEW, REMOVED, measured_ms
from edgeopt.diagram.merging import label_of
from edgeopt.graph.analysis.records import OpTimes
from edgeopt.graph.diff import GraphDiff


@dataclass(frozen=True, slots=True)
class ChangeEntry:
    status: str
    """Status of the change, one of the colours' words."""
    first: tuple[str, ...]
    """The nodes of the first model."""
    second: str
    """The node of the second model that they became."""
    what: str
    side: int
    """The model in which the node at `position` is."""
    position: int
    before_ms: float | None = None
    """Time of the nodes in the first model; None if they were not measured in both models."""
    after_ms: float | None = None

    @property
    def saved_ms(self) -> float | None:
        return None if self.before_ms is None or self.after_ms is None else self.before_ms - self.after_ms


def shared_backend(first: Sequence[OpTimes], second: Sequence[OpTimes], preferred: str = "") -> str:
    """A runtime that measured both models: the wanted one, else that in which the second is fastest; or ""."""
    known = {each.backend for each in first if each.rows}
    both = [each for each in second if each.rows and each.backend in known]
    named = [each for each in both if each.backend == preferred]
    return min(named or both, key=lambda each: each.plain_ms or each.run_ms).backend if both else ""


def change_entries(
    pair: Beside, changes: GraphDiff, times: tuple[Sequence[OpTimes], Sequence[OpTimes]], backend: str
) -> list[ChangeEntry]:
    """Returns the changes, those that save most time first; without times, in the order of the graphs."""
    places = [
        {label_of(node): node.position for node in reversed(side.nodes) if node.operator and not node.inside}
        for side in pair.sides
    ]
    measured = [_measured(pair, side, times[side], backend) for side in (0, 1)]
    both = all(measured)

    def spent(side: int, labels: Iterable[str]) -> float | None:
        if not both:
            return None
        found = [measured[side][places[side][label]] for label in labels if label in places[side]]
        return sum(each or 0.0 for each in found) if any(each is not None for each in found) else None

    became: dict[str, list[str]] = {}
    words: dict[str, tuple[str, str]] = {}
    for change in changes.changes:
        if change.status in {"changed", "fused into"} and change.other:
            became.setdefault(change.other, []).append(change.node)
            fused = change.status == "fused into"
            before = words.get(change.other, ("", ""))
            words[change.other] = (FUSED if fused or before[0] == FUSED else CHANGED, before[1] or change.what)
    entries: list[ChangeEntry] = []
    for host, nodes in became.items():
        if host not in places[1]:
            continue
        status, what = words[host]
        times_ms = spent(0, nodes), spent(1, [host])
        entries.append(ChangeEntry(status, tuple(nodes), host, what, 1, places[1][host], *times_ms))
    for change in changes.changes:
        if change.status == "gone" and change.node in places[0]:
            at = places[0][change.node]
            entries.append(_lone(REMOVED, (change.node,), "", change.what, 0, at, spent(0, [change.node])))
        elif change.status == "new" and change.node in places[1]:
            at = places[1][change.node]
            entries.append(_lone(NEW, (), change.node, change.what, 1, at, spent(1, [change.node])))
    ordered = sorted(entries, key=lambda each: each.position)
    return sorted(ordered, key=lambda each: -(each.saved_ms or 0.0))


def _lone(
    status: str, first: tuple[str, ...], second: str, what: str, side: int, position: int, spent: float | None
) -> ChangeEntry:
    """A node that only one of the models has; in the other, it takes no time."""
    nothing = None if spent is None else 0.0
    before, after = (nothing, spent) if side else (spent, nothing)
    return ChangeEntry(status, first, second, what, side, position, before, after)


def _measured(pair: Beside, side: int, times: Sequence[OpTimes], backend: str) -> list[float | None]:
    found = next((each for each in times if backend and each.backend == backend), None)
    return [] if found is None else measured_ms(pair.sides[side].nodes, found)
