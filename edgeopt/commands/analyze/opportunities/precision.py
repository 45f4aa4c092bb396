"""Numbers in more bits than needed, or in a form that this device has to convert."""

from collections.abc import Iterable

from edgeopt import units
from edgeopt.commands.analyze.opportunities.quantization import speed_ratio
from edgeopt.commands.analyze.opportunities.view import View
from edgeopt.graph.analysis import NodeRow, Opportunity
from edgeopt.graph.analysis.categories import HEAVY

_WORTH = 1.1
_LEAST_SHARE = 0.01
_HALF = {"bf16": "bfloat16", "fp16": "float16"}


def find(view: View) -> Iterable[Opportunity]:
    yield from _double(view)
    yield from _half(view)
    yield from _casts(view)


def _double(view: View) -> Iterable[Opportunity]:
    rows = [row for row in view.rows if any(tensor.dtype == "float64" for tensor in row.outputs)]
    share = view.share_of(rows)
    if not rows or (share is not None and share < _LEAST_SHARE):
        return
    yield Opportunity(
        "precision",
        "Compute in float32 instead of float64",
        f"{len(rows)} nodes compute in float64: twice the bytes, and few fast kernels in any runtime.",
        _names(rows),
        None if share is None else share / 2,
        f"half of the time of these nodes; {view.basis}" if share is not None else "no estimate",
        "Export the model in float32",
        exact=False,
    )


def _half(view: View) -> Iterable[Opportunity]:
    ratios = [(name, speed_ratio(view.device, name, view.threads)) for name in _HALF]
    best, ratio = max(((n, r) for n, r in ratios if r is not None), key=lambda pair: pair[1], default=("", 0.0))
    rows = [row for row in view.rows if row.category in HEAVY and _reads(row, "float32")]
    if ratio < _WORTH or not rows:
        return
    times = [(view.time_ms(row) or 0.0, ratio if view.is_compute_bound(row) else 2.0) for row in rows]
    gain = view.share(sum(time * (1 - 1 / by) for time, by in times))
    yield Opportunity(
        "precision",
        f"Compute in {_HALF[best]}",
        f"This device computes in {_HALF[best]} up to {ratio:.1f}x as fast as in float32, which "
        f"{len(rows)} matrix products and convolutions use.",
        _names(rows),
        gain,
        f"at most, at this device's peaks; {view.basis}" if gain is not None else "no estimate",
        view.optimize,
        exact=False,
    )


def _casts(view: View) -> Iterable[Opportunity]:
    """Weights that are kept in half and converted in every run, unless the runtime folds that."""
    made = {name for row in view.analysis.nodes for tensor in row.outputs if (name := tensor.name)}
    ports = {tensor.name for tensor in view.analysis.inputs}
    rows = [
        row
        for row in view.analysis.nodes
        if row.operator == "Cast"
        and row.weights_bytes
        and row.inputs
        and row.inputs[0].dtype in {"float16", "bfloat16"}
        and row.inputs[0].name not in made | ports
    ]
    if not rows:
        return
    size = sum(row.weights_bytes for row in rows)
    yield Opportunity(
        "precision",
        "Keep the weights in the type that the device computes in",
        f"{len(rows)} weights ({units.size(size)}) are stored in half precision and cast to float before use: "
        "half the file, but the casts run at every start or even in every run.",
        _names(rows),
        view.share_of([row for row in rows if not row.inside]),
        f"at most, if the runtime does not fold the casts; {view.basis}",
        view.simplify,
    )


def _reads(row: NodeRow, dtype: str) -> bool:
    return all(tensor.dtype == dtype for tensor in row.inputs[:2] if tensor.name)


def _names(rows: list[NodeRow]) -> tuple[str, ...]:
    return tuple(row.name or row.outputs[0].name for row in rows)
