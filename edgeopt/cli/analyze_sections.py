"""An analysis as sections of text, which the terminal and a document show each in its own way."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgeopt import units
from edgeopt.graph.analysis.sums import HOLDERS

if TYPE_CHECKING:
    from edgeopt.graph.analysis import Analysis, Cost, NodeRow, Tensor, WeightRow, Work

SHOWN_WEIGHTS = 10
_SHOWN_FILES = 10
_SHOWN_OPERATORS = 15
_TOP_NODES = 8
_SHOWN_DIMENSIONS = 10
_NAMED = 3
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    columns: tuple[str, ...]
    """Names of the columns; all empty where the first one names the facts in the second."""
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()
    bars: int | None = None
    """The column that shows its share, `12.5%`, as a bar too."""
    note: str = ""


def summary(analysis: "Analysis") -> Section:
    return Section("", ("", ""), tuple((title, value) for title, value in _summary(analysis) if value))


def _summary(analysis: "Analysis") -> Iterator[tuple[str, str]]:
    opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in analysis.opsets.items())
    version = f" (IR version {analysis.ir_version})" if analysis.ir_version is not None else ""
    yield "Name", analysis.name
    yield "Format", f"{analysis.format}{version}{f', opset {opsets}' if opsets else ''}"
    yield "Made by", analysis.producer
    yield "Size", units.size(analysis.size_bytes)
    zeros = analysis.weights_summary.zeros_share
    told = f", {zeros:.1%} of them zero" if zeros is not None and zeros >= 0.001 else ""
    yield "Weights", f"{units.size(analysis.weights_bytes)} in {analysis.weights_count:,}{told}"
    yield "Parameters", f"{analysis.parameters:,}"
    kinds = len(analysis.operators)
    yield "Nodes", f"{analysis.nodes_count:,}, {kinds} operator{'s' if kinds != 1 else ''}"
    yield "Functions", f"{analysis.functions_count:,}" if analysis.functions_count else ""
    yield "Digest", f"sha256 {analysis.digest[:16]}…"
    files = analysis.external_files
    for file in files[:_SHOWN_FILES]:
        yield "External data", f"{file.name}, {units.size(file.size_bytes)}"
    if len(files) > _SHOWN_FILES:
        yield "", f"and {len(files) - _SHOWN_FILES:,} more files"
    deployment = analysis.deployment
    if deployment is not None:
        options = " ".join(f"{key}={value}" for key, value in deployment.options.items())
        yield "Made from", f"{deployment.source}, {deployment.created}, for {deployment.target}"
        yield "Runs with", f"{deployment.backend} {options}".strip()
        yield "Result", deployment.summary


def work(analysis: "Analysis") -> Section | None:
    """What one run costs."""
    done = analysis.work
    if done is None:
        return None
    rows = [
        ("For", ", ".join(done.shapes)),
        ("Operations", _sum(done, f"{scaled(done.operations)}FLOP, of them {scaled(done.macs)}MAC")),
        ("Memory moved", _sum(done, f"{scaled(done.moved_bytes)}B")),
        ("Activations", _activations(analysis)),
        ("Least time", _least(analysis)),
    ]
    if done.unknown:
        reasons = _first(done.unknown_reasons)
        nodes = f"{done.unknown:,} node{'s' if done.unknown != 1 else ''}"
        rows.append(("Not counted", f"{nodes} of unknown cost: {reasons}"))
    return Section("One run", ("", ""), tuple(row for row in rows if row[1]))


def _sum(done: "Work", told: str) -> str:
    """A sum without the nodes whose cost is not known is less than all."""
    if not done.unknown:
        return told
    return f"at least {told}" if done.operations or done.moved_bytes else UNKNOWN


def _activations(analysis: "Analysis") -> str:
    done = analysis.work
    if done is None or done.peak_activation_bytes is None:
        return UNKNOWN
    at = f", at {done.peak_node}" if done.peak_node else ""
    least = f"; {done.unsized:,} tensors of unknown size are not in it" if done.unsized else ""
    return f"{units.size(done.peak_activation_bytes)} at once at the most{at}{least}"


def _least(analysis: "Analysis") -> str:
    done = analysis.work
    if done is None or done.least_ms is None:
        reason = done.least_reason if done is not None else ""
        return f"{UNKNOWN}: {reason}" if reason else UNKNOWN
    part = f" of the {analysis.nodes_count - done.unknown:,} nodes whose cost is known" if done.unknown else ""
    return f"{milliseconds(done.least_ms)}{part}, if every node ran at the measured peaks of this device"


def by_category(analysis: "Analysis") -> Section | None:
    """Where the work lies: of the least time where it is known, else of the operations."""
    rows = analysis.categories
    if not rows:
        return None
    timed = any(row.least_ms for row in rows)
    total = sum((row.least_ms or 0.0) if timed else row.operations for row in rows)
    shares = [((row.least_ms or 0.0) if timed else row.operations) / total if total else 0.0 for row in rows]
    ordered = sorted(zip(rows, shares, strict=True), key=lambda pair: (-pair[1], -pair[0].count, pair[0].category))
    cells = tuple(
        (
            row.category,
            share_text(share),
            f"{row.count:,}",
            _figure(row.operations, row.unknown, row.count),
            _figure(row.moved_bytes, row.unknown, row.count, "B"),
            _time(row.least_ms),
        )
        for row, share in ordered
    )
    title = "By category" if timed else "By category, shares of the operations"
    columns = ("kind of work", "share", "nodes", "operations", "moved", "least time")
    right = frozenset({1, 2, 3, 4, 5})
    return Section(title, *_without_times(columns, cells, timed, {5}), right, bars=1)


def top_nodes(analysis: "Analysis") -> Section | None:
    """The nodes that take the most."""
    rows = [row for row in analysis.nodes if row.runs and row.operator not in HOLDERS]
    timed = any(row.least_ms for row in rows)
    weights = {r.position: ((r.least_ms or 0.0) if timed else (r.cost.operations or 0)) * r.runs for r in rows}
    total = sum(weights.values())
    if not total:
        return None
    best = sorted(rows, key=lambda row: -weights[row.position])[:_TOP_NODES]
    cells = tuple(
        (
            row.operator,
            node_name(row),
            share_text(weights[row.position] / total),
            _known(row.cost.operations),
            _known(moved(row.cost), "B"),
            _time(row.least_ms),
            row.bound,
        )
        for row in best
        if weights[row.position]
    )
    columns = ("operator", "node", "share", "operations", "moved", "least time", "bound by")
    right = frozenset({2, 3, 4, 5})
    return Section("The dearest nodes", *_without_times(columns, cells, timed, {5, 6}), right)


def ports(analysis: "Analysis") -> Section:
    rows = tuple(
        (role, tensor.name, tensor.dtype or "?", shape_text(tensor))
        for role, tensors in (("input", analysis.inputs), ("output", analysis.outputs))
        for tensor in tensors
    )
    return Section("Inputs and outputs", ("", "name", "type", "shape"), rows)


def dimensions(analysis: "Analysis") -> Section | None:
    if not analysis.dimensions:
        return None
    rows = tuple(
        (each.name, UNKNOWN if each.size is None else f"{each.size:,}", _first(each.set_by), f"{each.tensors:,}")
        for each in analysis.dimensions[:_SHOWN_DIMENSIONS]
    )
    left = len(analysis.dimensions) - len(rows)
    note = f"and {left:,} more, which nodes make while the model runs; --json has them" if left else ""
    columns = ("open dimension", "figures are for", "set by", "tensors")
    return Section("What the model leaves open", columns, rows, frozenset({1, 3}), note=note)


def _first(words: tuple[str, ...]) -> str:
    more = f"; and {len(words) - _NAMED} more" if len(words) > _NAMED else ""
    return "; ".join(words[:_NAMED]) + more


def operators(analysis: "Analysis") -> Section:
    rows = tuple(
        (
            f"{row.domain}.{row.operator}" if row.domain else row.operator,
            row.category,
            share_text(row.count / analysis.nodes_count if analysis.nodes_count else 0.0),
            f"{row.count:,}",
            _figure(row.operations, row.unknown, row.count) if row.category else UNKNOWN,
            units.size(row.weights_bytes) if row.weights_bytes else "",
        )
        for row in analysis.operators
    )
    left = len(rows) - _SHOWN_OPERATORS
    note = f"and {left} more operators; --nodes lists every node, --json has all" if left > 0 else ""
    columns = ("operator", "kind of work", "of nodes", "nodes", "operations", "weights")
    return Section("Operators", columns, rows[:_SHOWN_OPERATORS], frozenset({2, 3, 4, 5}), bars=2, note=note)


def weights(analysis: "Analysis", every: bool = False) -> Section | None:
    rows = analysis.weights if every else analysis.weights[:SHOWN_WEIGHTS]
    if not rows:
        return None
    looked = every and any(row.minimum is not None or row.zeros_share is not None for row in rows)
    cells = tuple(_weight(row, analysis.weights_bytes, looked) for row in rows)
    left = analysis.weights_count - len(rows)
    note = f"and {left:,} smaller ones" if left > 0 else ""
    columns = ("largest weights", "type", "shape", "size", "share", *(("zeros", "from", "to") if looked else ()))
    return Section("Weights", columns, cells, frozenset({3, 4, 5, 6, 7}), note=note)


def _weight(row: "WeightRow", total: int, looked: bool) -> tuple[str, ...]:
    share = row.size_bytes / total if total else 0.0
    inside = (
        UNKNOWN if row.zeros_share is None else f"{row.zeros_share:.1%}",
        UNKNOWN if row.minimum is None else f"{row.minimum:.3g}",
        UNKNOWN if row.maximum is None else f"{row.maximum:.3g}",
    )
    told = (row.name, row.dtype, str(list(row.shape)), units.size(row.size_bytes), f"{share:.1%}")
    return (*told, *inside) if looked else told


def coverage(analysis: "Analysis") -> Section | None:
    if not analysis.coverage:
        return None
    rows = tuple(
        (
            row.backend,
            row.version,
            UNKNOWN if row.supported is None else f"{row.supported:,} of {row.total:,}",
            UNKNOWN if row.boundaries is None else f"{row.boundaries:,}",
            _why(row.unsupported, row.reason),
        )
        for row in analysis.coverage
    )
    columns = ("backend", "version", "nodes it runs", "boundaries", "the rest")
    note = "Nodes are counted as the runtime sees them. What else could run models: edgeopt backends"
    return Section("What would run it here", columns, rows, frozenset({2, 3}), note=note)


def _why(unsupported: tuple[str, ...], reason: str) -> str:
    if not unsupported:
        return reason or "-"
    more = f" and {len(unsupported) - _NAMED} more" if len(unsupported) > _NAMED else ""
    return f"{', '.join(unsupported[:_NAMED])}{more}: {reason}"


def nodes(analysis: "Analysis") -> Section:
    rows = tuple(
        (
            str(row.position),
            row.operator,
            node_name(row) if row.inside else row.name,
            ", ".join(shape_text(tensor) for tensor in row.outputs if tensor.name),
            _known(row.cost.operations),
            _known(moved(row.cost), "B"),
            units.size(row.weights_bytes) if row.weights_bytes else "",
            _time(row.least_ms),
            row.bound,
        )
        for row in analysis.nodes
    )
    columns = ("#", "operator", "name", "outputs", "operations", "moved", "weights", "least time", "bound by")
    timed = any(row.least_ms is not None for row in analysis.nodes)
    return Section("Nodes", *_without_times(columns, rows, timed, {7, 8}), frozenset({0, 4, 5, 6, 7}))


def _without_times(
    columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...], timed: bool, places: set[int]
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Leaves the columns of times out where there is none; why there is none stands above."""
    if timed:
        return columns, rows
    kept = [place for place in range(len(columns)) if place not in places]
    return tuple(columns[p] for p in kept), tuple(tuple(row[p] for p in kept) for row in rows)


def node_name(row: "NodeRow") -> str:
    name = row.name or (row.outputs[0].name if row.outputs else "")
    return f"{row.inside}/{name}" if row.inside else name


def moved(cost: "Cost") -> int | None:
    if cost.read_bytes is None or cost.written_bytes is None:
        return None
    return cost.read_bytes + cost.written_bytes


def shape_text(tensor: "Tensor") -> str:
    """`[batch, 3, ?, 224]`, or `?` where not even the number of dimensions is known."""
    if tensor.shape is None:
        return "?"
    return "[" + ", ".join("?" if d is None else str(d) for d in tensor.shape) + "]"


def scaled(count: float) -> str:
    """`1.23 G`, for a unit to follow."""
    for letter, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= scale:
            return f"{_digits(count / scale)} {letter}"
    return f"{count:.0f} "


def milliseconds(time_ms: float) -> str:
    if not time_ms:
        return "0 µs"
    return f"{_digits(time_ms)} ms" if time_ms >= 1 else f"{_digits(time_ms * 1e3)} µs"


def share_text(share: float) -> str:
    return f"{share:.1%}"


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _figure(value: int, unknown: int, count: int, unit: str = "") -> str:
    """A sum over several nodes; what is in it, where not all are."""
    if unknown and unknown == count:
        return UNKNOWN
    told = f"{scaled(value)}{unit}".strip()
    return f"≥ {told}" if unknown else told


def _known(value: int | None, unit: str = "") -> str:
    return UNKNOWN if value is None else f"{scaled(value)}{unit}".strip()


def _time(time_ms: float | None) -> str:
    return UNKNOWN if time_ms is None else milliseconds(time_ms)
