"""Sums over the nodes of a model: by operator, by category, and in total."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from edgeopt.graph.analysis.categories import OperatorType
from edgeopt.graph.analysis.records import CategoryRow, Cost, NodeRow, OperatorRow, OperatorWork

Key = TypeVar("Key", bound=Hashable)
HOLDERS = ("If", "Loop", "Scan", "SequenceMap", "TensorIterator")
_MAX_REASONS = 20


@dataclass(slots=True)
class Total:
    count: int = 0
    macs: int = 0
    operations: int = 0
    moved_bytes: int = 0
    unknown: int = 0
    weights_bytes: int = 0
    category: str = ""
    least_ms: float = 0.0
    timed: int = 0
    reasons: dict[str, list[NodeRow]] = field(default_factory=lambda: defaultdict(list))

    def add(self, row: NodeRow) -> None:
        cost = own(row)
        self.count += 1
        self.weights_bytes += row.counted_weights_bytes
        self.category = row.category
        if not row.runs:
            return
        if cost.unknown:
            self.unknown += 1
            self.reasons[cost.unknown_kind or cost.unknown].append(row)
            return
        self.macs += (cost.macs or 0) * row.runs
        self.operations += (cost.operations or 0) * row.runs
        self.moved_bytes += ((cost.read_bytes or 0) + (cost.written_bytes or 0)) * row.runs
        if row.least_ms is not None:
            self.least_ms += row.least_ms * row.runs
            self.timed += 1


def own(row: NodeRow) -> Cost:
    """Returns the cost of a node without the nodes that it contains."""
    if row.operator not in HOLDERS:
        return row.cost
    if row.cost.unknown_within:
        return Cost(0, 0, 0, 0)
    return Cost(0, 0, 0, 0, row.cost.unknown, row.cost.unknown_kind)


def _sums(rows: Iterable[NodeRow], key: Callable[[NodeRow], Key]) -> dict[Key, Total]:
    found: dict[Key, Total] = defaultdict(Total)
    for row in rows:
        found[key(row)].add(row)
    return found


def operator_rows(nodes: Iterable[NodeRow]) -> tuple[OperatorRow, ...]:
    """Counts the nodes of each operator, most frequent first."""
    rows = [
        OperatorRow(
            *key,
            each.count,
            each.weights_bytes,
            each.category,
            each.operations,
            each.moved_bytes,
            each.unknown,
            each.least_ms if each.timed else None,
        )
        for key, each in _sums(nodes, lambda row: (row.operator, row.domain)).items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.count, row.domain, row.operator)))


def category_rows(nodes: Iterable[NodeRow]) -> tuple[CategoryRow, ...]:
    """Sums the nodes by category, in descending order of operations."""
    rows = [
        CategoryRow(
            category,
            each.count,
            each.operations,
            each.moved_bytes,
            each.unknown,
            each.least_ms if each.timed else None,
        )
        for category, each in _sums(nodes, lambda row: row.category or OperatorType.UNKNOWN.value).items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.operations, -row.moved_bytes, -row.count, row.category)))


def work(
    nodes: Sequence[NodeRow], peak: tuple[int | None, str, int], least_reason: str, shapes: tuple[str, ...]
) -> OperatorWork:
    """Sums up one run of the model; `peak` is the peak bytes, its node, and the number of tensors without a
    size."""
    every = _sums(nodes, lambda _: None).get(None, Total())
    return OperatorWork(
        macs=every.macs,
        operations=every.operations,
        moved_bytes=every.moved_bytes,
        unknown=every.unknown,
        unknown_reasons=tuple(_reason(reason, rows) for reason, rows in every.reasons.items())[:_MAX_REASONS],
        peak_activation_bytes=peak[0],
        peak_node=peak[1],
        unsized=peak[2],
        least_ms=every.least_ms if every.timed else None,
        least_reason=least_reason,
        shapes=shapes,
    )


def _reason(reason: str, rows: Sequence[NodeRow]) -> str:
    first = rows[0]
    named = f"{first.operator} '{first.name or (first.outputs[0].name if first.outputs else '')}'"
    more = f" and {len(rows) - 1:,} more" if len(rows) > 1 else ""
    return f"{named}{more}: {reason if more else own(first).unknown}"
