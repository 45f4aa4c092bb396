"""The figures of both sides as rows of tables."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgeopt import units
from edgeopt.graph.analysis import Analysis, NodeRow
from edgeopt.units import count, size
from edgeopt.views.words import UNKNOWN, change, decibels, milliseconds

if TYPE_CHECKING:
    from edgeopt.commands.compare.records import ModelComparison, Probe
    from edgeopt.graph.accuracy import OutputAccuracy
    from edgeopt.measure.report import SideReport
    from edgeopt.measure.workloads.records import GenerateSide

_DTYPES = ("float64", "float32", "float16", "bfloat16")


@dataclass(frozen=True, slots=True)
class FigureRow:
    """One figure of both sides."""

    what: str
    first: float | None
    second: float | None
    first_text: str
    second_text: str
    change: str = ""


@dataclass(frozen=True, slots=True)
class LayerRow:
    value: str
    node: str
    other_node: str
    snr_db: float
    accuracy: str
    max_abs: float
    is_first: bool
    """Whether this is the first layer that differs."""


@dataclass(frozen=True, slots=True)
class OutputRow:
    name: str
    snr_db: float
    accuracy: str
    max_abs: float
    cosine: float
    agreement: float
    problem: str


def latency_rows(first: "SideReport", second: "SideReport") -> tuple[FigureRow, ...]:
    """Returns the latency figures of both sides; figures that neither side has are omitted."""
    sides = first.figures, second.figures
    pairs: list[tuple[str, list[float | None]]] = [
        ("median (p50)", [each.p50_ms if each else None for each in sides]),
        ("p90", [each.p90_ms if each else None for each in sides]),
        ("p99", [each.p99_ms if each and each.runs >= units.RUNS_FOR_P99 else None for each in sides]),
        ("mean", [each.mean_ms if each else None for each in sides]),
        ("lowest", [each.lowest_ms if each else None for each in sides]),
        ("highest", [each.highest_ms if each else None for each in sides]),
        ("load", [_middle(side.loads_ms, side.load_ms) for side in (first, second)]),
        ("first run", [_middle(side.first_runs_ms, side.first_run_ms) for side in (first, second)]),
    ]
    rows = [_figure(what, values, milliseconds) for what, values in pairs if any(values)]
    before, after = (each.runs if each else None for each in sides)
    return (*rows, FigureRow("runs", before, after, _count(before), _count(after)))


def answer_rows(first: "GenerateSide", second: "GenerateSide") -> tuple[FigureRow, ...]:
    """Returns the figures of the answers of two language models; figures that neither side has are omitted."""
    sides = first, second
    figures: tuple[tuple[str, Callable[[GenerateSide], float | None], Callable[[float | None], str]], ...] = (
        ("first token", lambda side: side.first_token_ms, milliseconds),
        ("tokens per second", lambda side: side.tokens_per_s, _rate),
        ("time of a token", lambda side: side.token_ms, milliseconds),
        ("load", lambda side: side.load_ms, milliseconds),
        ("answers", lambda side: side.answers or None, _count),
    )
    pairs = ((what, [value(side) for side in sides], text) for what, value, text in figures)
    return tuple(_figure(what, values, text) for what, values, text in pairs if any(values))


def memory_rows(first: "SideReport | GenerateSide", second: "SideReport | GenerateSide") -> tuple[FigureRow, ...]:
    """Returns the resident memory of both sides at the end of each phase."""
    phases = (
        ("before the runtime", "start_bytes"),
        ("with the runtime", "import_bytes"),
        ("after loading", "load_bytes"),
        ("after the first run", "first_run_bytes"),
        ("while it runs", "steady_bytes"),
        ("peak of the process", "peak_bytes"),
        ("added: peak less before the runtime", "added_bytes"),
    )
    rows = []
    for what, field in phases:
        values = [getattr(side.memory, field) if side.memory else None for side in (first, second)]
        if any(value is not None for value in values):
            rows.append(_figure(what, values, _size))
    return tuple(rows)


def size_rows(found: "ModelComparison") -> tuple[FigureRow, ...]:
    first, second = found.first, found.second
    return (
        _figure("file size", (first.size_bytes, second.size_bytes), _size),
        _figure("nodes", (first.nodes, second.nodes), _count),
    )


def operator_rows(found: "ModelComparison") -> tuple[FigureRow, ...]:
    """Returns the number of nodes of each operator on both sides, largest difference first."""
    first, second = found.first.operators, found.second.operators
    names = sorted({**first, **second}, key=lambda n: (-abs(first.get(n, 0) - second.get(n, 0)), n))
    return tuple(_counted(name, first.get(name, 0), second.get(name, 0)) for name in names)


def precision_rows(first: Analysis, second: Analysis) -> tuple[FigureRow, ...]:
    """Nodes by the type of their first output, and bytes of weights by theirs."""
    nodes, weights = ([each(side) for side in (first, second)] for each in (_nodes_by_type, _weights_by_type))
    return (
        *(_counted(f"nodes in {dtype}", *(side[dtype] for side in nodes)) for dtype in _types(nodes)),
        *(_figure(f"weights in {each}", [side[each] for side in weights], _size) for each in _types(weights)),
    )


def output_rows(found: "ModelComparison") -> tuple[OutputRow, ...]:
    return tuple(_output(output) for output in found.outputs)


def layer_rows(found: "ModelComparison") -> tuple[LayerRow, ...]:
    """Returns the compared layers, in the order in which side A computes them."""
    layers = found.layers
    if layers is None:
        return ()
    return tuple(_layer(probe, probe == layers.first) for probe in layers.probes)


def layers_line(found: "ModelComparison") -> str:
    """Returns the sentence above the table of layers."""
    layers = found.layers
    if layers is None:
        if found.not_compared:
            return found.not_compared
        floor = f"the floor of {found.floor_db:g} dB" if found.floor_kl is None else "the floor"
        return (
            f"No layer was looked for: all outputs are above {floor}. "
            "Tick 'Layers even if the outputs pass' and compare again to see them."
        )
    if layers.not_compared:
        return f"Layers were not compared: {layers.not_compared}"
    if layers.first is None:
        return f"None of the {count(layers.compared, 'value')} before '{layers.output}' is below the floor."
    first = layers.first
    return f"The first layer that differs: {first.node}, value '{first.value}' ({_probed(first)})."


def position_of(label: str, nodes: Iterable[NodeRow]) -> int | None:
    """Returns the position of the node with this label of `edgeopt compare`; None if there is none."""
    for node in nodes:
        name = node.name or (node.outputs[0].name if node.outputs else "")
        if label == f"{node.operator} '{name}'":
            return node.position
    return None


def _figure(what: str, values: Sequence[float | None], text: Callable[[float | None], str]) -> FigureRow:
    """Returns the row of a figure, given its values for A and B."""
    first, second = values
    return FigureRow(what, first, second, text(first), text(second), change(first, second))


def _counted(what: str, first: int, second: int) -> FigureRow:
    difference = f"{second - first:+,}".replace("-", "−") if first != second else ""  # noqa: RUF001 - a true minus
    return FigureRow(what, first, second, _count(first), _count(second), difference)


def _output(output: "OutputAccuracy") -> OutputRow:
    accuracy = "not comparable" if output.problem else decibels(output.snr_db)
    return OutputRow(
        output.name,
        output.snr_db,
        f"{units.percent(output.agreement)} equal" if output.counted and not output.problem else accuracy,
        output.max_abs,
        output.cosine,
        output.agreement,
        output.problem or "",
    )


def _layer(probe: "Probe", is_first: bool) -> LayerRow:
    return LayerRow(
        probe.value, probe.node, probe.other_node, probe.snr_db, _probed(probe), probe.max_abs, is_first
    )


def _probed(probe: "Probe") -> str:
    accuracy = "not comparable" if probe.problem else decibels(probe.snr_db)
    return f"{accuracy}, rescaled" if probe.rescaled else accuracy


def _middle(values: Sequence[float], otherwise: float | None) -> float | None:
    """Returns the median of several processes, because the first of them reads the disk."""
    return sorted(values)[len(values) // 2] if values else otherwise


def _nodes_by_type(analysis: Analysis) -> Counter[str]:
    return Counter(node.outputs[0].dtype or "unknown" for node in analysis.nodes if node.outputs)


def _weights_by_type(analysis: Analysis) -> Counter[str]:
    found: Counter[str] = Counter()
    for weight in analysis.weights:
        found[weight.dtype or "unknown"] += weight.size_bytes
    return found


def _types(sides: Sequence[Counter[str]]) -> list[str]:
    """Floats first, the widest of them at the top."""
    found = {dtype for side in sides for dtype in side}
    return sorted(found, key=lambda each: (_DTYPES.index(each) if each in _DTYPES else len(_DTYPES), each))


def _size(value: float | None) -> str:
    return UNKNOWN if value is None else size(value)


def _rate(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _count(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}"
