"""An analysis in sections, for the terminal and for a document."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from edgeopt import units
from edgeopt.graph.analysis.sums import HOLDERS
from edgeopt.views import words
from edgeopt.views.blocks import (
    Block,
    Commands,
    Listed,
    Section,
    Share,
    Table,
    WordsBlock,
    columns,
    facts,
    filled,
    lines,
    rows,
    section,
    some,
    table_of,
)
from edgeopt.views.imports import import_sentence
from edgeopt.views.op_times import op_times

if TYPE_CHECKING:
    from edgeopt.graph.analysis import Analysis, Cost, NodeRow, OperatorWork, Opportunity, WeightRow

UNKNOWN = "unknown"
Count = TypeVar("Count", int, float)
_LONGEST_NAME = 48
_SHOWN_NODES = 2
SHOWN_WEIGHTS = 10
_SHOWN_FILES = 10
_SHOWN_OPERATORS = 15
_TOP_NODES = 8
_SHOWN_DIMENSIONS = 10
_NAMED = 3
_MOVED = "Moved: what the nodes read and write, weights and activations together."


def node_name(row: "NodeRow") -> str:
    name = row.name or (row.outputs[0].name if row.outputs else "")
    return f"{row.inside}/{name}" if row.inside else name


def shortened(name: str) -> str:
    """Returns a name without the middle of a long path: `/model/…/conv2/Conv`."""
    if len(name) <= _LONGEST_NAME:
        return name
    parts = name.split("/")
    first = next((place for place, part in enumerate(parts) if part), 0)
    for last in range(first + 2, len(parts)):
        short = "/".join((*parts[: first + 1], "…", *parts[last:]))
        if len(short) <= _LONGEST_NAME:
            return short
    return f"{name[: _LONGEST_NAME // 2 - 1]}…{name[-(_LONGEST_NAME // 2) :]}"


def moved(cost: "Cost") -> int | None:
    if cost.read_bytes is None or cost.written_bytes is None:
        return None
    return cost.read_bytes + cost.written_bytes


def scaled(count: float) -> str:
    """`1.23 G`, for a unit to follow."""
    for letter, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= scale:
            return f"{_digits(count / scale)} {letter}"
    return f"{count:.0f} "


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def figure(count: float) -> str:
    """`524 k`, `1.05 G`."""
    return scaled(count).strip()


def summed(value: int, unknown: int, count: int, written: Callable[[float], str] = figure) -> str:
    """A sum over several nodes; what is in it, where not all are."""
    if unknown and unknown == count:
        return UNKNOWN
    return f"≥ {written(value)}" if unknown else written(value)


def known(value: Count | None, written: Callable[[Count], str] = figure) -> str:
    return UNKNOWN if value is None else written(value)


def time_text(time_ms: float | None) -> str:
    return known(time_ms, units.milliseconds)


_OfNode = tuple[str, Callable[["NodeRow"], str]]
_COSTS: tuple[_OfNode, ...] = (
    (">operations", lambda row: known(row.cost.operations)),
    (">moved", lambda row: known(moved(row.cost), units.size)),
)


def _times(timed: bool) -> tuple[_OfNode, ...]:
    minimum: _OfNode = (">least time", lambda row: time_text(row.least_ms))
    return (minimum, ("!bound by", lambda row: row.bound)) if timed else ()


def opportunities(found: "tuple[Opportunity, ...]") -> Section:
    """Returns the opportunities by the command that would use them, the command with the largest gain first."""
    title = "Opportunities"
    if not found:
        return section(title, WordsBlock("Nothing was found."))
    # The common basis of most estimates is shown once.
    tails = Counter(each.basis.rpartition("; ")[2] for each in found if each.gain_share is not None)
    tail = max(tails, key=lambda key: tails[key], default="")
    parts: list[Block] = [WordsBlock(f"Shares of one run, estimated from {tail}.", "faint")] if tail else []
    for command in dict.fromkeys(each.command for each in found):
        parts += [_opportunity(each, tail) for each in found if each.command == command]
        parts.append(Commands((("", command),)))
    return section(title, *parts)


def _opportunity(each: "Opportunity", tail: str) -> Section:
    basis = each.basis.removesuffix(tail).removesuffix("; ") if tail else each.basis
    saving = "" if each.gain_share is None else f" ({gain(each)} of a run)"
    changes = "" if each.exact else " It changes the results."
    nodes = f" ({some(each.nodes, _SHOWN_NODES)})" if each.nodes else ""
    return section(
        f"{each.title}{saving}",
        WordsBlock(f"{each.reason}{nodes}{changes}"),
        *lines([f"Estimate: {basis}."] if basis else [], "faint"),
    )


def gain(opportunity: "Opportunity") -> str:
    """`≤ 12%` of a run; empty where there is no estimate."""
    share = opportunity.gain_share
    if share is None:
        return "-"
    return f"≤ {units.percent(share, 0)}" if share >= 0.01 else "< 1 %"


def show(analysis: "Analysis") -> list[Block]:
    """Returns the blocks for a notebook, with opportunities only if there are some.

    The record does not say whether any were looked for.
    """
    return sections(analysis, nodes=False, weights=False, looked=bool(analysis.opportunities))


def sections(analysis: "Analysis", nodes: bool, weights: bool, looked: bool) -> list[Block]:
    """Returns the sections: the model and its cost, how that is divided, opportunities, and backends."""
    found = (
        section("", facts(_summary(analysis))),
        section("One run", facts(work(analysis))) if analysis.work is not None else None,
        ports(analysis),
        dimensions(analysis),
        by_category(analysis),
        top_nodes(analysis),
        operators(analysis),
        weights_table(analysis, weights),
        nodes_table(analysis) if nodes else None,
        opportunities(analysis.opportunities) if looked else None,
        coverage(analysis),
        *map(op_times, analysis.op_times),
        section("Notes", Listed(tuple(analysis.warnings))) if analysis.warnings else None,
    )
    return [each for each in found if each is not None]


def _summary(analysis: "Analysis") -> Iterator[tuple[str, str]]:
    opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in analysis.opsets.items())
    version = f" (IR version {analysis.ir_version})" if analysis.ir_version is not None else ""
    yield "Name", analysis.name
    yield "Format", f"{analysis.format}{version}{f', opset {opsets}' if opsets else ''}"
    yield "Made by", analysis.producer
    yield "Imported", import_sentence(analysis.imported) if analysis.imported else ""
    yield "Size", units.size(analysis.size_bytes)
    zeros = analysis.weights_summary.zeros_share
    zeros_text = f", {units.percent(zeros)} of them zero" if zeros is not None and zeros >= 0.001 else ""
    yield "Weights", f"{units.size(analysis.weights_bytes)} in {analysis.weights_count:,}{zeros_text}"
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


def work(analysis: "Analysis") -> list[tuple[str, str]]:
    """Returns the cost of one run, as titles and values; empty if it is unknown."""
    done = analysis.work
    if done is None:
        return []
    rows = [
        ("For", ", ".join(done.shapes)),
        ("Operations", _sum(done, f"{scaled(done.operations)}FLOP, of them {scaled(done.macs)}MAC")),
        ("Memory moved", _sum(done, units.size(done.moved_bytes))),
        ("Peak activations", _activations(done)),
        ("Least time", _minimum(done, analysis.nodes_count - done.unknown)),
    ]
    if done.unknown:
        reasons = _first(done.unknown_reasons)
        rows.append(("Not counted", f"{units.count(done.unknown, 'node')} of unknown cost: {reasons}"))
    return [row for row in rows if row[1]]


def _sum(done: "OperatorWork", work: str) -> str:
    """A sum without the nodes whose cost is not known is less than all."""
    if not done.unknown:
        return work
    return f"at least {work}" if done.operations or done.moved_bytes else UNKNOWN


def _activations(done: "OperatorWork") -> str:
    if done.peak_activation_bytes is None:
        return UNKNOWN
    at = f" (node {done.peak_node})" if done.peak_node else ""
    minimum = f"; {done.unsized:,} tensors of unknown size not counted" if done.unsized else ""
    return f"{units.size(done.peak_activation_bytes)}{at}{minimum}"


def _minimum(done: "OperatorWork", known_nodes: int) -> str:
    if done.least_ms is None:
        return f"{UNKNOWN}: {done.least_reason}" if done.least_reason else UNKNOWN
    part = f" of the {known_nodes:,} nodes whose cost is known" if done.unknown else ""
    return f"{units.milliseconds(done.least_ms)}{part}, if every node ran at the measured peaks of this device"


def by_category(analysis: "Analysis") -> Section | None:
    """Returns the work by category: by least time if it is known, otherwise by operations."""
    rows = analysis.categories
    if not rows:
        return None
    timed = any(row.least_ms for row in rows)
    total = sum((row.least_ms or 0.0) if timed else row.operations for row in rows)
    shares = [((row.least_ms or 0.0) if timed else row.operations) / total if total else 0.0 for row in rows]
    found = table_of(
        sorted(zip(rows, shares, strict=True), key=lambda pair: (-pair[1], -pair[0].count, pair[0].category)),
        ("kind of work", lambda pair: pair[0].category),
        (">share", lambda pair: Share(pair[1])),
        (">nodes", lambda pair: f"{pair[0].count:,}"),
        (">operations", lambda pair: summed(pair[0].operations, pair[0].unknown, pair[0].count)),
        (">moved", lambda pair: summed(pair[0].moved_bytes, pair[0].unknown, pair[0].count, units.size)),
        (">least time", lambda pair: time_text(pair[0].least_ms) if timed else ""),
        caption=_MOVED,
    )
    return section("By category" if timed else "By category, shares of the operations", filled(found))


def top_nodes(analysis: "Analysis") -> Section | None:
    """The nodes that take the most."""
    run = [row for row in analysis.nodes if row.runs and row.operator not in HOLDERS]
    timed = any(row.least_ms for row in run)
    weights = {r.position: ((r.least_ms or 0.0) if timed else (r.cost.operations or 0)) * r.runs for r in run}
    total = sum(weights.values())
    if not total:
        return None
    best = sorted(run, key=lambda row: -weights[row.position])[:_TOP_NODES]
    found = table_of(
        [row for row in best if weights[row.position]],
        ("operator", lambda row: row.operator),
        ("node", lambda row: shortened(node_name(row))),
        (">share", lambda row: units.percent(weights[row.position] / total)),
        *_COSTS,
        *_times(timed),
    )
    return section("Most expensive nodes", filled(found))


def ports(analysis: "Analysis") -> Section:
    found = (
        (role, tensor.name, tensor.dtype or "?", words.dimensions(tensor.shape))
        for role, tensors in (("input", analysis.inputs), ("output", analysis.outputs))
        for tensor in tensors
    )
    return section("Inputs and outputs", Table(columns("!", "name", "type", "shape"), rows(*found)))


def dimensions(analysis: "Analysis") -> Section | None:
    if not analysis.dimensions:
        return None
    left = len(analysis.dimensions) - _SHOWN_DIMENSIONS
    found = table_of(
        analysis.dimensions[:_SHOWN_DIMENSIONS],
        ("open dimension", lambda each: shortened(each.name)),
        (">figures are for", lambda each: known(each.size, "{:,}".format)),
        ("set by", lambda each: _first(tuple(map(shortened, each.set_by)))),
        (">tensors", lambda each: f"{each.tensors:,}"),
        caption=f"and {left:,} more, which nodes create at run time; --json has them" if left > 0 else "",
    )
    return section("Open dimensions", found)


def _first(words: tuple[str, ...]) -> str:
    more = f"; and {len(words) - _NAMED} more" if len(words) > _NAMED else ""
    return "; ".join(words[:_NAMED]) + more


def operators(analysis: "Analysis") -> Section:
    left = len(analysis.operators) - _SHOWN_OPERATORS
    found = table_of(
        analysis.operators[:_SHOWN_OPERATORS],
        ("operator", lambda row: f"{row.domain}.{row.operator}" if row.domain else row.operator),
        ("kind of work", lambda row: row.category),
        (">of nodes", lambda row: Share(row.count / analysis.nodes_count if analysis.nodes_count else 0.0)),
        (">nodes", lambda row: f"{row.count:,}"),
        (">operations", lambda row: summed(row.operations, row.unknown, row.count) if row.category else UNKNOWN),
        (">weights", lambda row: units.size(row.weights_bytes) if row.weights_bytes else ""),
        caption=f"and {units.count(left, 'other operator')}; --nodes lists every node, --json has all"
        if left > 0
        else "",
    )
    return section("Operators", found)


def weights_table(analysis: "Analysis", every: bool = False) -> Section | None:
    listed = analysis.weights if every else analysis.weights[:SHOWN_WEIGHTS]
    if not listed:
        return None
    total, left = analysis.weights_bytes, analysis.weights_count - len(listed)
    inside: tuple[tuple[str, Callable[[WeightRow], str]], ...] = (
        (">zeros", lambda row: known(row.zeros_share, units.percent)),
        (">from", lambda row: known(row.minimum, "{:.3g}".format)),
        (">to", lambda row: known(row.maximum, "{:.3g}".format)),
    )
    looked = every and any(row.minimum is not None or row.zeros_share is not None for row in listed)
    found = table_of(
        listed,
        ("largest weights", lambda row: shortened(row.name)),
        ("type", lambda row: row.dtype),
        ("shape", lambda row: words.dimensions(row.shape)),
        (">size", lambda row: units.size(row.size_bytes)),
        (">share", lambda row: units.percent(row.size_bytes / total if total else 0.0)),
        *(inside if looked else ()),
        caption=f"and {left:,} smaller ones" if left > 0 else "",
    )
    return section("Weights", found)


def coverage(analysis: "Analysis") -> Section | None:
    if not analysis.coverage:
        return None
    found = table_of(
        analysis.coverage,
        ("backend", lambda row: row.backend),
        ("version", lambda row: row.version),
        (">nodes it runs", lambda row: known(row.supported, lambda count: f"{count:,} of {row.total:,}")),
        (">boundaries", lambda row: known(row.boundaries, "{:,}".format)),
        (
            "other nodes",
            lambda row: f"{some(row.unsupported, _NAMED)}: {row.reason}" if row.unsupported else row.reason or "-",
        ),
        caption="Nodes as counted by the runtime. Other backends: edgeopt backends",
    )
    return section("Backends on this device", found)


def nodes_table(analysis: "Analysis") -> Section:
    found = table_of(
        analysis.nodes,
        (">#", lambda row: str(row.position)),
        ("operator", lambda row: row.operator),
        ("name", lambda row: shortened(node_name(row) if row.inside else row.name)),
        (
            "outputs",
            lambda row: ", ".join(words.dimensions(tensor.shape) for tensor in row.outputs if tensor.name),
        ),
        *_COSTS,
        (">weights", lambda row: units.size(row.weights_bytes) if row.weights_bytes else ""),
        *_times(any(row.least_ms is not None for row in analysis.nodes)),
    )
    return section("Nodes", filled(found))
