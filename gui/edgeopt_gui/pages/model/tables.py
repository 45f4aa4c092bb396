"""The columns of the page's tables."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from edgeopt import units
from edgeopt.graph.analysis import Analysis, CoverageRow, NodeRow, OperatorRow, TensorFacts, WeightRow
from edgeopt.graph.analysis.records import Opportunity
from edgeopt.views.words import dimensions
from edgeopt_gui.pages.model import findings, work
from edgeopt_gui.pages.model.measured import Measured
from edgeopt_gui.pages.model.words import operator_key
from edgeopt_gui.pages.model.work import Totals
from edgeopt_gui.widgets.records import Column

OF_OPERATIONS = "Work %"
OF_LEAST_TIME = "Time %"
MEASURED = "Measured"


_OF_OPERATIONS_TIP = "Share of all operations; run `edgeopt probe --deep` to see the share of the least time"
_MEASURED_TIP = "Time of one run with the fastest runtime, and its share; a fused kernel counts at its first node"
_OF_LEAST_TIME_TIP = "Share of the least time of one run, from the device's measured peaks"


@dataclass(frozen=True, slots=True)
class Port:
    role: Literal["input", "output"]
    tensor: TensorFacts


@dataclass(frozen=True, slots=True)
class Weight:
    place: int
    row: WeightRow
    share: float
    """Share of the bytes of all weights of the model, 0 to 1."""
    readers: tuple[str, ...] = ()
    """The nodes that read it."""


def ports(analysis: Analysis) -> tuple[Port, ...]:
    inputs = tuple(Port("input", tensor) for tensor in analysis.inputs)
    return (*inputs, *(Port("output", tensor) for tensor in analysis.outputs))


def weights(analysis: Analysis, nodes: Sequence[NodeRow] = ()) -> tuple[Weight, ...]:
    total = analysis.weights_bytes or 1
    readers: dict[str, list[str]] = {row.name: [] for row in analysis.weights}
    for node in nodes:
        for name in dict.fromkeys(tensor.name for tensor in node.inputs):
            if name in readers:
                readers[name].append(f"{node.operator} {node.name}".strip())
    return tuple(
        Weight(k, row, row.size_bytes / total, tuple(readers[row.name])) for k, row in enumerate(analysis.weights)
    )


def _readers(weight: Weight) -> str:
    if len(weight.readers) <= 1:
        return "".join(weight.readers)
    return f"{weight.readers[0]} and {len(weight.readers) - 1} more"


def _range(weight: Weight) -> str:
    low, high = weight.row.minimum, weight.row.maximum
    return "" if low is None or high is None else f"{low:.3g} to {high:.3g}"


def _zeros(weight: Weight) -> str:
    share = weight.row.zeros_share
    return "" if not share else units.percent(share, 0) if share >= 0.01 else "< 1 %"


def searched(node: NodeRow) -> str:
    """Returns the text that a search examines, with tensor names, so that it finds producers and readers."""
    tensors = (tensor.name for side in (node.inputs, node.outputs) for tensor in side)
    return "\n".join((node.operator, node.domain, node.inside, node.name, *tensors))


def _no_zero(text: str) -> str:
    """Returns the text, but "" for zero: most nodes compute nothing, and a blank is easier to skip."""
    return "" if text in {"0", "0 %"} else text


def share_column(columns: Sequence[Column[Any]], whole: Totals) -> int:
    """Returns the place of the visible column of shares."""
    title = OF_OPERATIONS if whole.least_ms is None else OF_LEAST_TIME
    return next(place for place, column in enumerate(columns) if column.title == title)


def _output(node: NodeRow) -> str:
    return dimensions(node.outputs[0].shape) if node.outputs else ""


PORT_COLUMNS: tuple[Column[Port], ...] = (
    Column("", lambda port: port.role),
    Column(
        "Name", lambda port: port.tensor.name, tip=lambda port: port.tensor.name, stretch=True, cut_middle=True
    ),
    Column("Type", lambda port: port.tensor.dtype or "?"),
    Column("Shape", lambda port: dimensions(port.tensor.shape), tip=lambda port: dimensions(port.tensor.shape)),
)


def hidden_columns(columns: Sequence[Column[Any]], whole: Totals, measured: Measured) -> Iterator[int]:
    """Shares of the operations where no times are known, else shares of the least time; measured times."""
    without = {OF_LEAST_TIME if whole.least_ms is None else OF_OPERATIONS}
    without |= set() if measured.nodes else {MEASURED}
    yield from (place for place, column in enumerate(columns) if column.title in without)


def node_columns(
    whole: Callable[[], Totals], measured: Callable[[], Measured] = Measured
) -> tuple[Column[NodeRow], ...]:
    """`whole` and `measured` tell what another model or a measurement changes."""

    def operations(node: NodeRow) -> float | None:
        return work.operations_share(node, whole())

    def minimum(node: NodeRow) -> float | None:
        return work.min_share(node, whole())

    return (
        Column("#", lambda node: node.position, align="right", title_tip="Position in the graph"),
        Column("Operator", lambda node: operator_key(node.operator, node.domain)),
        Column("Category", lambda node: node.category or work.UNKNOWN, optional=True, firm_letters=15),
        Column(
            "Name",
            lambda node: f"{node.inside}/{node.name}" if node.inside else node.name,
            tip=lambda node: node.name,
            stretch=True,
            cut_middle=True,
            firm_letters=20,
        ),
        Column(
            "Output",
            _output,
            tip=_output,
            title_tip="Shape of the first output",
            optional=True,
            max_letters=22,
            firm_letters=18,
        ),
        Column(
            "Operations",
            work.operations_of,
            text=lambda node: _no_zero(work.operations_text(node)),
            align="right",
            tip=lambda node: node.cost.unknown,
            title_tip="A multiplication and an addition count as two operations, any other function as one",
        ),
        Column(
            OF_OPERATIONS,
            operations,
            text=lambda node: _no_zero(work.share_text(node, operations(node))),
            align="right",
            title_tip=_OF_OPERATIONS_TIP,
        ),
        Column(
            OF_LEAST_TIME,
            minimum,
            text=lambda node: _no_zero(work.share_text(node, minimum(node))),
            align="right",
            title_tip=_OF_LEAST_TIME_TIP,
        ),
        Column(
            MEASURED,
            lambda node: measured().nodes.get(node.position),
            text=lambda node: measured().text(measured().nodes.get(node.position)),
            align="right",
            tip=lambda node: measured().tip(node.position),
            quiet=lambda node: bool(measured().tip(node.position)),
            title_tip=_MEASURED_TIP,
        ),
        Column(
            "Weights",
            lambda node: node.weights_bytes or None,
            text=lambda node: units.size(node.weights_bytes) if node.weights_bytes else "",
            align="right",
            title_tip="A weight that several nodes read counts at each of them",
        ),
    )


def operator_columns(
    whole: Callable[[], Totals], measured: Callable[[], Measured] = Measured
) -> tuple[Column[OperatorRow], ...]:
    def operations(row: OperatorRow) -> float | None:
        return work.operator_share(row, whole())

    def minimum(row: OperatorRow) -> float | None:
        return work.min_operator_share(row, whole())

    return (
        Column("Operator", lambda row: operator_key(row.operator, row.domain), stretch=True),
        Column("Category", lambda row: row.category or work.UNKNOWN),
        Column("Nodes", lambda row: row.count, text=lambda row: units.count(row.count), align="right"),
        Column(
            "Operations",
            lambda row: None if row.unknown == row.count else row.operations,
            text=lambda row: _no_zero(work.operator_operations(row)),
            align="right",
            title_tip="In one run, without nodes of unknown cost",
        ),
        Column(
            OF_OPERATIONS,
            operations,
            text=lambda row: _no_zero(work.percent(operations(row))),
            align="right",
            title_tip=_OF_OPERATIONS_TIP,
        ),
        Column(
            OF_LEAST_TIME,
            minimum,
            text=lambda row: _no_zero(work.percent(minimum(row))),
            align="right",
            title_tip=_OF_LEAST_TIME_TIP,
        ),
        Column(
            MEASURED,
            lambda row: measured().operators.get((row.operator, row.domain)),
            text=lambda row: measured().text(measured().operators.get((row.operator, row.domain))),
            align="right",
            title_tip=_MEASURED_TIP,
        ),
        Column(
            "Weights",
            lambda row: row.weights_bytes or None,
            text=lambda row: units.size(row.weights_bytes) if row.weights_bytes else "",
            align="right",
        ),
    )


OPPORTUNITY_COLUMNS: tuple[Column[Opportunity], ...] = (
    Column(
        "Gain",
        lambda each: each.gain_share,
        text=findings.gain_text,
        align="right",
        title_tip="Upper bound, as a share of the time of one run",
    ),
    Column("Opportunity", lambda each: each.title, tip=lambda each: each.reason, stretch=True),
    Column("Kind", lambda each: each.kind),
    Column("Results", findings.results_text, title_tip="Whether the model's outputs stay the same"),
)

COVERAGE_COLUMNS: tuple[Column[CoverageRow], ...] = (
    Column("Runtime", lambda row: row.title, tip=lambda row: row.backend),
    Column("Version", lambda row: row.version),
    Column(
        "Runs",
        lambda row: row.supported / row.total if row.supported is not None and row.total else None,
        text=findings.runs_text,
        align="right",
        title_tip="Nodes that this runtime runs itself; its own conversion may have made more of them",
    ),
    Column(
        "Boundaries",
        lambda row: row.boundaries,
        text=findings.boundaries_text,
        align="right",
        title_tip="Places where data goes from one provider or device to another",
    ),
    Column("Does not run", findings.rest_text, tip=findings.rest_text, stretch=True),
)

WEIGHT_COLUMNS: tuple[Column[Weight], ...] = (
    Column(
        "Name",
        lambda each: each.row.name,
        tip=lambda each: each.row.file or each.row.name,
        stretch=True,
        cut_middle=True,
    ),
    Column("Type", lambda each: each.row.dtype),
    Column("Shape", lambda each: dimensions(each.row.shape)),
    Column(
        "Size",
        lambda each: each.row.size_bytes,
        text=lambda each: units.size(each.row.size_bytes),
        align="right",
    ),
    Column("Share", lambda each: each.share, text=lambda each: units.percent(each.share), align="right"),
    Column("Range", lambda each: each.row.maximum, text=_range, align="right", optional=True),
    Column("Zeros", lambda each: each.row.zeros_share, text=_zeros, align="right", optional=True),
    Column("Read by", _readers, tip=lambda each: "\n".join(each.readers), max_letters=50),
)
