"""Compatibility of a model: the operators that conform on each backend, and the fastest backend, by case."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import exp, log
from pathlib import Path

import msgspec

from edgeopt.backends import backend_named
from edgeopt.commands.ops.case import (
    PRECISIONS,
    STATUSES,
    Attribute,
    CaseRow,
    Compatibility,
    OperatorCoverage,
    OperatorResult,
    Precision,
    Quickest,
    Report,
)
from edgeopt.commands.ops.cases import CASES, operators
from edgeopt.decoding import thread_safe
from edgeopt.errors import EdgeoptError
from edgeopt.graph.analysis import Analysis, NodeRow

Shape = tuple[int | str | None, ...]
InputTypes = Sequence[tuple[str | None, Shape | None]]
"""Type and shape of each input; None where it is not known or left out."""
_WINDOWED = ("Conv", "ConvInteger", "QLinearConv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool")
_SPATIAL = (
    *(*_WINDOWED, "GlobalAveragePool", "GlobalMaxPool", "Resize", "BatchNormalization"),
    *("InstanceNormalization", "GroupNormalization", "GridSample"),
)
_USUAL_RANK = 4
# By operator: the attributes that change what it does, with their defaults.
_MODES: dict[str, dict[str, Attribute]] = {
    "Pad": {"mode": "constant"},
    "DepthToSpace": {"mode": "DCR"},
    "Resize": {"mode": "nearest", "coordinate_transformation_mode": "half_pixel"},
    "LSTM": {"direction": "forward"},
    "GRU": {"direction": "forward"},
    "RNN": {"direction": "forward"},
    "Gelu": {"approximate": "none"},
}
_NEAREST = "round_prefer_floor"
# By operator: switches, and how they are called where they are on.
_SWITCHES = {
    "GRU": {"linear_before_reset": "reset last"},
    "MaxPool": {"ceil_mode": "ceil"},
    "AveragePool": {"ceil_mode": "ceil", "count_include_pad": "pads count"},
    "Attention": {"is_causal": "causal"},
}


def describe_form(operator: str, inputs: InputTypes, attributes: Mapping[str, Attribute]) -> str:
    """Describes the form of a node or a case; empty for the usual one: 2-D, one group, no dilation, forward."""
    words = [*_rank(operator, inputs), *_window(operator, inputs, attributes)]
    words += [str(attributes.get(name, usual)) for name, usual in _MODES.get(operator, {}).items()]
    if operator == "Resize" and words and "nearest" in words:
        words.append(str(attributes.get("nearest_mode", _NEAREST)))
    words += [word for name, word in _SWITCHES.get(operator, {}).items() if attributes.get(name)]
    if operator == "Cast" and inputs:
        words.append(f"from {inputs[0][0]} to {attributes.get('to')}")
    return " ".join(words)


def _rank(operator: str, inputs: InputTypes) -> list[str]:
    if operator not in _SPATIAL:
        return []
    shape = inputs[0][1] if inputs else None
    if shape is None and operator in {"Conv", "ConvTranspose"} and len(inputs) > 1:
        shape = inputs[1][1]  # of the weights, which have as many dimensions
    if shape is None:
        return ["of unknown rank"]
    return [] if len(shape) == _USUAL_RANK else [f"{len(shape) - 2}-D"]


def _window(operator: str, inputs: InputTypes, attributes: Mapping[str, Attribute]) -> list[str]:
    if operator not in _WINDOWED:
        return []
    words = []
    group = attributes.get("group", 1)
    if group != 1:
        shape = inputs[0][1] if inputs else None
        channels = shape[1] if shape is not None and len(shape) > 1 else None
        words.append("depth-wise" if channels == group else "in groups")
    dilations = attributes.get("dilations", ())
    if isinstance(dilations, tuple) and any(each != 1 for each in dilations):
        words.append("dilated")
    return words


def attributes_of(path: Path) -> dict[str, dict[str, Attribute]]:
    """Returns the attributes of every node of a model, by the name of its first output."""
    import onnx_ir as ir

    from edgeopt.graph.model import load

    kinds = {
        *(ir.AttributeType.INT, ir.AttributeType.FLOAT, ir.AttributeType.STRING),
        *(ir.AttributeType.INTS, ir.AttributeType.FLOATS),
    }
    found: dict[str, dict[str, Attribute]] = {}
    for graph in load(path).ir.graphs():
        for node in graph:
            own = {
                name: tuple(attribute.value) if isinstance(attribute.value, (list, tuple)) else attribute.value
                for name, attribute in node.attributes.items()
                if not attribute.is_ref() and attribute.type in kinds
            }
            found[first_name(value.name for value in node.outputs)] = own
    return found


def first_name(names: Iterable[str | None]) -> str:
    """Returns the first of a node's outputs that is not left out."""
    return next((name for name in names if name), "")


NO_CASE = "no case"
NO_SUCH_CASE = "no such case"
"""Status if the operator has cases in this precision, but none of this form."""
_FLOATS = {"float32": "fp32", "float16": "fp16"}
_BYTES = ("uint8", "int8")
_OTHER = "other"
_DOMINATE = 0.8
_MAX_NAMED = 3
_NAMED_UNSUPPORTED = 20

Key = tuple[str, str, str, str]
"""Operator, domain, precision, form."""
Attributes = dict[str, dict[str, Attribute]]
"""Attributes by the name of a node's first output."""


def kinds_of(analysis: Analysis) -> tuple[tuple[str, ...], tuple[Precision, ...]]:
    """Returns the operators of a model that have cases, and the precisions in which the model computes them."""
    nodes, _ = _by_operator(analysis, {})
    held = {(operator, precision) for operator, domain, precision, _ in nodes if not domain}
    found = held & {(case.operator, str(case.precision)) for case in CASES}
    used, precisions = {operator for operator, _ in found}, {precision for _, precision in found}
    return tuple(o for o in operators() if o in used), tuple(p for p in PRECISIONS if p in precisions)


def compatibility(analysis: Analysis, report: Report) -> Compatibility:
    names = [row.name for row in report.backends if row.version is not None]
    nodes, work = _by_operator(analysis, attributes_of(Path(analysis.path)))
    total = sum(work.values())
    rows = [_row(key, len(nodes[key]), work[key] / total if total else 0.0, report, names) for key in nodes]
    rows.sort(key=lambda row: (-row.share, -row.count, row.operator, row.form, row.precision))
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


def _by_operator(analysis: Analysis, attributes: Attributes) -> tuple[dict[Key, list[NodeRow]], dict[Key, int]]:
    dequantized = {
        output.name for node in analysis.nodes if node.operator == "DequantizeLinear" for output in node.outputs
    }
    nodes: dict[Key, list[NodeRow]] = defaultdict(list)
    work: dict[Key, int] = defaultdict(int)
    for node in analysis.nodes:
        if node.operator == "Constant":
            continue  # a weight under another name
        inputs = [(tensor.dtype, tensor.shape) for tensor in node.inputs]
        own = attributes.get(first_name(tensor.name for tensor in node.outputs), {})
        form = describe_form(node.operator, inputs, own)
        key = (node.operator, node.domain, precision_of(node, dequantized), form)
        nodes[key].append(node)
        work[key] += (node.cost.operations or 0) * node.runs
    return nodes, work


def precision_of(node: NodeRow, dequantized: set[str]) -> str:
    """Returns the precision that a node computes in; int8 between DQ and Q, as in runtimes."""
    if node.operator == "Cast":
        return "fp32"  # its cases cover all types
    if node.operator in {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"}:
        return "int8"
    if node.inputs and node.inputs[0].name in dequantized:
        return "int8"
    dtypes = [tensor.dtype for tensor in (*node.inputs, *node.outputs) if tensor.name]
    known = next((_FLOATS[dtype] for dtype in dtypes if dtype in _FLOATS), None)
    return known or ("int8" if any(dtype in _BYTES for dtype in dtypes) else _OTHER)


def _row(key: Key, count: int, share: float, report: Report, names: list[str]) -> OperatorResult:
    cases = [] if key[1] else _cases_of(report.cases, key)
    none = NO_SUCH_CASE if not key[1] and _of_operator(report.cases, key) else NO_CASE
    status: dict[str, str] = dict.fromkeys(names, "conforms" if cases else none)
    flawed, message = {}, {}
    for name in names:
        found = [case.results[name].measured for case in cases]
        bad = [measured for measured in found if measured.status != "conforms"]
        if bad:
            worst = max(bad, key=lambda measured: STATUSES.index(measured.status))
            status[name], message[name], flawed[name] = worst.status, worst.message, len(bad)
    return OperatorResult(*key, count, share, status, len(cases), flawed, message)


def _cases_of(cases: Sequence[CaseRow], key: Key) -> list[CaseRow]:
    return [case for case in _of_operator(cases, key) if _form_of(case) == key[3]]


def cases_of_model(report: Report, model: Compatibility) -> tuple[CaseRow, ...]:
    """Returns the cases that match an operator, precision and form of the model."""
    held = {(row.operator, row.precision, row.form) for row in model.operators if not row.domain}
    return tuple(case for case in report.cases if (case.operator, case.precision, _form_of(case)) in held)


def _of_operator(cases: Sequence[CaseRow], key: Key) -> list[CaseRow]:
    return [case for case in cases if case.operator == key[0] and case.precision == key[2]]


def _form_of(case: CaseRow) -> str:
    inputs = [_parse_type(text) for text in case.inputs]
    return describe_form(case.operator, inputs, case.attributes)


def _parse_type(text: str) -> tuple[str | None, tuple[int, ...] | None]:
    """Parses a type and shape such as `float32 [1, 64]`; both are None for an input that is left out."""
    dtype, found, shape = text.partition(" ")
    return (dtype, tuple(msgspec.json.decode(shape, type=thread_safe(list[int])))) if found else (None, None)


def _coverage(backend: str, path: Path) -> OperatorCoverage:
    try:
        found = backend_named(backend).supports(path)
    except EdgeoptError as error:
        return OperatorCoverage(None, reason=error.message)
    return OperatorCoverage(found.supported, found.total, found.unsupported[:_NAMED_UNSUPPORTED])


def _quickest(cases: Sequence[CaseRow], rows: Sequence[OperatorResult], names: list[str]) -> Quickest | str:
    """Compares backends on the operators that make most of the operations, each weighted with its share."""
    if len(names) < 2:
        return "there is only one backend to compare"
    dominating: list[OperatorResult] = []
    for row in rows:
        if row.share > 0 and len(dominating) < _MAX_NAMED and sum(r.share for r in dominating) < _DOMINATE:
            dominating.append(row)
    if not dominating:
        return "unknown shapes hide which operators take the time"
    logs = dict.fromkeys(names, 0.0)
    used, compared = 0, []
    for row in dominating:
        timed = _timed(_cases_of(cases, (row.operator, row.domain, row.precision, row.form)), names)
        for name in names:
            logs[name] += row.share * sum(log(times[name]) for times in timed) / max(1, len(timed))
        compared += [row] if timed else []
        used += len(timed)
    if not used:
        return f"no test of {' or '.join(_name(row) for row in dominating)} ran on all backends"
    weight = sum(row.share for row in compared)
    means = {name: exp(value / weight) for name, value in logs.items()}
    best = min(means.values())
    return Quickest(
        operators=tuple(f"{_name(row)} {row.precision}" for row in compared),
        share=weight,
        cases=used,
        relative_time={name: mean / best for name, mean in means.items()},
    )


def _name(row: OperatorResult) -> str:
    return f"{row.operator} {row.form}".rstrip()


def _timed(cases: Sequence[CaseRow], names: Sequence[str]) -> list[dict[str, float]]:
    """Returns times by backend of the cases that all backends ran, of real sizes only if there are any."""
    real = [case for case in cases if case.size != "small"] or cases
    found = []
    for case in real:
        times = {name: case.results[name].measured.time_us for name in names}
        whole = {name: time_us for name, time_us in times.items() if time_us}
        if len(whole) == len(names):
            found.append(whole)
    return found
