"""Measured times of the nodes, for the tables of the page Model and the list of the page Graph."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from edgeopt import units
from edgeopt.diagram.colours import measured_ms
from edgeopt.graph.analysis import NodeRow, OpTimeRow, OpTimes
from edgeopt.graph.analysis.records import name_of
from edgeopt.views.op_times import spread, why_unreliable
from edgeopt.views.words import milliseconds
from edgeopt_gui.widgets.records import Column

OperatorKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Measured:
    """Times of nodes (by position) and operators, measured with the fastest runtime."""

    backend: str = ""
    total_ms: float = 0.0
    nodes: Mapping[int, float] = field(default_factory=dict)
    operators: Mapping[OperatorKey, float] = field(default_factory=dict)
    unreliable: Mapping[int, str] = field(default_factory=dict)
    """Reasons why times are unreliable, by the node's position."""

    @staticmethod
    def of(nodes: Sequence[NodeRow], times: Sequence[OpTimes]) -> "Measured":
        chosen = fastest(times)
        if chosen is None:
            return Measured()
        why = {row.members[0]: why_unreliable(row, chosen) for row in chosen.rows if row.members}
        found, operators = {}, dict[OperatorKey, float]()
        for node, time_ms in zip(nodes, measured_ms(nodes, chosen), strict=True):
            if time_ms is not None:
                found[node.position] = time_ms
                key = (node.operator, node.domain)
                operators[key] = operators.get(key, 0.0) + time_ms
        unreliable = {node.position: why[name_of(node)] for node in nodes if why.get(name_of(node))}
        return Measured(chosen.backend, chosen.kernels_ms, found, operators, unreliable)

    def text(self, time_ms: float | None) -> str:
        if time_ms is None:
            return ""
        return (
            f"{milliseconds(time_ms)}, {units.percent(time_ms / self.total_ms)}"
            if time_ms and self.total_ms
            else "fused"
        )

    def tip(self, position: int) -> str:
        return self.unreliable.get(position, "")


def fastest(times: Sequence[OpTimes], backend: str = "") -> OpTimes | None:
    """Returns the times of the named runtime, or else of the one with the shortest run; None without times."""
    known = [each for each in times if each.rows]
    named = [each for each in known if each.backend == backend]
    return min(named or known, key=lambda each: each.plain_ms or each.run_ms, default=None)


@dataclass(frozen=True, slots=True)
class TimedKernel:
    place: int
    row: OpTimeRow
    why_unreliable: str

    @property
    def name(self) -> str:
        """Name of the heaviest node of the kernel, with the number of its other nodes."""
        row = self.row
        if not row.members:
            return f"{row.operator or row.kernel} (not attributed)"
        more = f" +{len(row.members) - 1}" if len(row.members) > 1 else ""
        return f"{f'{row.operator} for ' * row.added}{row.members[0]}{more}"

    @property
    def spread_share(self) -> float | None:
        """Half the interquartile range of the runs, as a share of the time."""
        row = self.row
        return (
            None if not row.range_ms or not row.time_ms else (row.range_ms[1] - row.range_ms[0]) / row.time_ms / 2
        )


def kernels(times: OpTimes) -> list[TimedKernel]:
    """Returns the kernels, the longest first."""
    return [TimedKernel(at, row, why_unreliable(row, times)) for at, row in enumerate(times.rows)]


KERNEL_COLUMNS: tuple[Column[TimedKernel], ...] = (
    Column(
        "Nodes",
        lambda each: each.name,
        tip=lambda each: "\n".join((each.row.operator, *each.row.members)),
        stretch=True,
        cut_middle=True,
    ),
    Column(
        "Time",
        lambda each: each.row.time_ms,
        text=lambda each: milliseconds(each.row.time_ms),
        align="right",
        tip=lambda each: each.why_unreliable,
        quiet=lambda each: bool(each.why_unreliable),
    ),
    Column("Share", lambda each: each.row.share, text=lambda each: units.percent(each.row.share), align="right"),
    Column(
        "Spread",
        lambda each: each.spread_share,
        text=lambda each: "" if each.spread_share is None else f"±{units.percent(each.spread_share, 0)}",
        align="right",
        tip=lambda each: spread(each.row),
        title_tip="By how much the middle half of the runs differs",
        optional=True,
    ),
)
