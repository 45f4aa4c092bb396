"""What the cases say of a model: which of its operators conform on each backend, and which backend is quickest."""

from collections import defaultdict
from collections.abc import Sequence
from math import exp, log
from pathlib import Path

from edgeopt.backends import backend_named
from edgeopt.errors import EdgeoptError
from edgeopt.graph.analysis import Analysis, NodeRow, Tensor
from edgeopt.ops import cost
from edgeopt.ops.case import PRECISIONS, Precision
from edgeopt.ops.cases import CASES, operators
from edgeopt.ops.result import (
    STATUSES,
    CaseRow,
    Compatibility,
    CoverageRow,
    OperatorRow,
    Quickest,
    Report,
)

NO_CASE = "no case"
_FLOATS = {"float32": "fp32", "float16": "fp16"}
_BYTES = ("uint8", "int8")
_OTHER = "other"
_DOMINATE = 0.8
_MOST_NAMED = 3
_NAMED_UNSUPPORTED = 20

Key = tuple[str, str, str]
"""Operator, domain, precision."""


def kinds_of(analysis: Analysis) -> tuple[tuple[str, ...], tuple[Precision, ...]]:
    """The operators of a model that there are cases of, and the precisions that it computes them in."""
    nodes, _ = _by_operator(analysis)
    known: set[tuple[str, str, Precision]] = {(case.operator, "", case.precision) for case in CASES}
    found = [key for key in known if key in nodes]
    used, precisions = {key[0] for key in found}, {key[2] for key in found}
    return tuple(o for o in operators() if o in used), tuple(p for p in PRECISIONS if p in precisions)


def compatibility(analysis: Analysis, report: Report) -> Compatibility:
    names = [row.name for row in report.backends if row.version is not None]
    nodes, work = _by_operator(analysis)
    total = sum(work.values())
    rows = [_row(key, len(nodes[key]), work[key] / total if total else 0.0, report, names) for key in nodes]
    rows.sort(key=lambda row: (-row.share, -row.count, row.operator, row.precision))
    quickest = _quickest(report.cases, rows, names)
    return Compatibility(
        name=analysis.name,
        digest=analysis.digest,
        nodes=analysis.nodes_count,
        operators=tuple(rows),
        coverage={name: _coverage(name, Path(analysis.path)) for name in names},
        quickest=quickest if isinstance(quickest, Quickest) else None,
        quickest_reason=quickest if isinstance(quickest, str) else "",
    )


def _by_operator(analysis: Analysis) -> tuple[dict[Key, list[NodeRow]], dict[Key, int]]:
    dequantized = {
        output.name for node in analysis.nodes if node.operator == "DequantizeLinear" for output in node.outputs
    }
    nodes: dict[Key, list[NodeRow]] = defaultdict(list)
    work: dict[Key, int] = defaultdict(int)
    for node in analysis.nodes:
        if node.operator == "Constant":
            continue  # a weight under another name
        key = (node.operator, node.domain, precision_of(node, dequantized))
        nodes[key].append(node)
        work[key] += _operations(node)
    return nodes, work


def precision_of(node: NodeRow, dequantized: set[str]) -> str:
    """Of the numbers that a node computes with; between DQ and Q that is int8, as runtimes take it."""
    if node.operator == "Cast":
        return "fp32"  # its cases cover all types
    if node.operator in {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"}:
        return "int8"
    if node.inputs and node.inputs[0].name in dequantized:
        return "int8"
    dtypes = [tensor.dtype for tensor in (*node.inputs, *node.outputs) if tensor.name]
    known = next((_FLOATS[dtype] for dtype in dtypes if dtype in _FLOATS), None)
    return known or ("int8" if any(dtype in _BYTES for dtype in dtypes) else _OTHER)


def _operations(node: NodeRow) -> int:
    """Of one run; nothing where the shapes are not known."""
    if node.domain or any(tensor.shape is None for tensor in (*node.inputs[:3], *node.outputs[:1]) if tensor.name):
        return 0
    try:
        return cost.operations(node.operator, _sizes(node.inputs), _sizes(node.outputs), {})
    except IndexError:
        return 0  # fewer dimensions or inputs than the operator should have


def _sizes(tensors: Sequence[Tensor]) -> list[tuple[int, ...]]:
    """Open dimensions are 1."""
    return [tuple(d if isinstance(d, int) else 1 for d in tensor.shape or ()) for tensor in tensors]


def _row(key: Key, count: int, share: float, report: Report, names: list[str]) -> OperatorRow:
    cases = [] if key[1] else _cases_of(report.cases, key)
    status: dict[str, str] = dict.fromkeys(names, "conforms" if cases else NO_CASE)
    flawed, message = {}, {}
    for name in names:
        found = [case.results[name].measured for case in cases]
        bad = [measured for measured in found if measured.status != "conforms"]
        if bad:
            worst = max(bad, key=lambda measured: STATUSES.index(measured.status))
            status[name], message[name], flawed[name] = worst.status, worst.message, len(bad)
    return OperatorRow(*key, count, share, status, len(cases), flawed, message)


def _cases_of(cases: Sequence[CaseRow], key: Key) -> list[CaseRow]:
    return [case for case in cases if case.operator == key[0] and case.precision == key[2]]


def _coverage(backend: str, path: Path) -> CoverageRow:
    try:
        found = backend_named(backend).supports(path)
    except EdgeoptError as error:
        return CoverageRow(None, reason=error.message)
    return CoverageRow(found.supported, found.total, found.unsupported[:_NAMED_UNSUPPORTED])


def _quickest(cases: Sequence[CaseRow], rows: Sequence[OperatorRow], names: list[str]) -> Quickest | str:
    """The operators that make most of the operations, each weighted with its share."""
    if len(names) < 2:
        return "there is only one backend to compare"
    dominating: list[OperatorRow] = []
    for row in rows:
        if row.share > 0 and len(dominating) < _MOST_NAMED and sum(r.share for r in dominating) < _DOMINATE:
            dominating.append(row)
    if not dominating:
        return "the shapes in the model do not tell what takes its time"
    logs = dict.fromkeys(names, 0.0)
    weight, used = 0.0, 0
    for row in dominating:
        timed = _timed(_cases_of(cases, (row.operator, row.domain, row.precision)), names)
        for name in names:
            logs[name] += row.share * sum(log(times[name]) for times in timed) / max(1, len(timed))
        weight += row.share if timed else 0.0
        used += len(timed)
    if not used:
        return f"there is no case of {' or '.join(row.operator for row in dominating)} that all backends ran"
    means = {name: exp(value / weight) for name, value in logs.items()}
    best = min(means.values())
    return Quickest(
        operators=tuple(f"{row.operator} {row.precision}" for row in dominating),
        share=sum(row.share for row in dominating),
        cases=used,
        relative_time={name: mean / best for name, mean in means.items()},
    )


def _timed(cases: Sequence[CaseRow], names: Sequence[str]) -> list[dict[str, float]]:
    """By backend, of the cases that all of them ran; those of real sizes where there are any."""
    real = [case for case in cases if case.size != "small"] or cases
    found = []
    for case in real:
        times = {name: case.results[name].measured.time_us for name in names}
        whole = {name: time_us for name, time_us in times.items() if time_us}
        if len(whole) == len(names):
            found.append(whole)
    return found
