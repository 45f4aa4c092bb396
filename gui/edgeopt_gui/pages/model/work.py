"""The work of a run in words, for the whole model, a node, an operator or a category."""

from dataclasses import dataclass

from edgeopt import units
from edgeopt.graph.analysis import Analysis, NodeRow, OperatorRow
from edgeopt.graph.analysis.records import CategoryRow
from edgeopt.graph.analysis.sums import HOLDERS
from edgeopt.views import analysis as figures
from edgeopt_gui.widgets.bars import Bar
from edgeopt_gui.widgets.fact import Fact, FactGroup

UNKNOWN = "unknown"
_IN_ITS_NODES = "in its nodes"
_NOT_COUNTED = "not counted"
_SHORT = {"Memory moved": "Moved"}
_MEASURED_BY = "probe --deep"


@dataclass(frozen=True, slots=True)
class Totals:
    """Totals of all nodes, the base of the shares; None if they are unknown."""

    operations: int | None = None
    least_ms: float | None = None


def totals(analysis: Analysis) -> Totals:
    done = analysis.work
    return Totals(done.operations or None, done.least_ms or None) if done is not None else Totals()


def run_facts(analysis: Analysis) -> FactGroup:
    """Returns the facts of one run, in the words of `edgeopt analyze`."""
    rows = figures.work(analysis) or [("Operations", UNKNOWN)]
    if awaits_peaks(analysis):
        rows = [
            (t, v if t != "Least time" else f"{UNKNOWN}: the device has not been measured yet") for t, v in rows
        ]
    return FactGroup("One run", tuple(Fact(_SHORT.get(title, title), value) for title, value in rows))


def awaits_peaks(analysis: Analysis) -> bool:
    """Whether the least time is unknown only because the device has not been measured."""
    done = analysis.work
    return done is not None and done.least_ms is None and _MEASURED_BY in (done.least_reason or "")


def operations_of(node: NodeRow) -> int | None:
    """Returns the operations of a node in one run of the model; None if unknown, or counted in inner nodes."""
    if node.operator in HOLDERS or node.cost.operations is None:
        return None
    return node.cost.operations * node.runs


def operations_text(node: NodeRow) -> str:
    operations = operations_of(node)
    return _odd(node) or (UNKNOWN if operations is None else figures.figure(operations))


def operations_share(node: NodeRow, whole: Totals) -> float | None:
    return _share(operations_of(node), whole.operations)


def min_share(node: NodeRow, whole: Totals) -> float | None:
    return _share(None if node.least_ms is None else node.least_ms * node.runs, whole.least_ms)


def share_text(node: NodeRow, share: float | None) -> str:
    """Returns the share as text; "" if the text of the operations already says why there is none."""
    return "" if _odd(node) else percent(share)


def node_facts(node: NodeRow) -> tuple[Fact, ...]:
    return (
        Fact("Category", node.category),
        Fact("Runs", "" if node.runs == 1 else f"{units.count(node.runs, 'time')} in one run of the model"),
        Fact("Work", _node_work(node)),
        Fact("Least time", _node_time(node)),
    )


def operator_operations(row: OperatorRow | CategoryRow) -> str:
    """Returns the operations as text; `≥ 2.5 M` if those of some nodes are unknown."""
    if row.unknown and row.unknown == row.count:
        return UNKNOWN
    return f"≥ {figures.figure(row.operations)}" if row.unknown else figures.figure(row.operations)


def operator_share(row: OperatorRow | CategoryRow, whole: Totals) -> float | None:
    """Returns the share of an operator or category in all operations; None if it is unknown."""
    return None if row.unknown and row.unknown == row.count else _share(row.operations, whole.operations)


def min_operator_share(row: OperatorRow | CategoryRow, whole: Totals) -> float | None:
    return _share(row.least_ms, whole.least_ms)


def category_bars(analysis: Analysis) -> tuple[Bar, ...]:
    """Returns a bar for each category: its share of the least time, or of the operations without known peaks."""
    whole = totals(analysis)
    of = operator_share if whole.least_ms is None else min_operator_share
    rows = sorted(analysis.categories, key=lambda row: -(of(row, whole) or 0.0))
    return tuple(
        Bar(row.category, row.category, of(row, whole) or 0.0, bar_text(of(row, whole)), _tip(row)) for row in rows
    )


def category_title(analysis: Analysis) -> str:
    return "Where the operations are" if totals(analysis).least_ms is None else "Where the least time goes"


def bar_text(share: float | None) -> str:
    """Returns a share in whole percent; the length of the bar shows the rest."""
    if share is None:
        return UNKNOWN
    return units.percent(share, 0) if share >= 0.01 else "< 1 %" if share else ""


def percent(share: float | None) -> str:
    if share is None:
        return UNKNOWN
    return units.percent(share) if share >= 0.0005 else "< 0.1 %" if share else "0 %"


def _share(part: float | None, whole: float | None) -> float | None:
    return None if part is None or whole is None else part / whole


def _odd(node: NodeRow) -> str:
    """Returns the text for a node without a figure; "" if it has one."""
    if node.operator in HOLDERS:
        return _IN_ITS_NODES
    return "" if node.runs else _NOT_COUNTED


def _node_work(node: NodeRow) -> str:
    moved, operations = figures.moved(node.cost), node.cost.operations
    if operations is None and moved is None:
        return f"{UNKNOWN}: {node.cost.unknown}" if node.cost.unknown else UNKNOWN
    counted = UNKNOWN if operations is None else figures.figure(operations)
    return f"{counted} operations, {UNKNOWN if moved is None else units.size(moved)} moved"


def _node_time(node: NodeRow) -> str:
    if node.least_ms is None:
        return ""
    return units.milliseconds(node.least_ms) + (f", bound by {node.bound}" if node.bound else "")


def _tip(row: CategoryRow) -> str:
    moved = UNKNOWN if row.unknown == row.count else units.size(row.moved_bytes)
    nodes = units.count(row.count, "node")
    return f"{row.category}: {nodes}, {operator_operations(row)} operations, {moved} moved"
