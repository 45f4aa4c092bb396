"""Models that read many weights for little work: at a larger batch one reading serves several samples."""

from collections.abc import Iterable

from edgeopt import units
from edgeopt.commands.analyze.opportunities.view import View
from edgeopt.graph.analysis import Opportunity, Tensor
from edgeopt.graph.analysis.categories import HEAVY

_BATCH = 8
_LEAST_GAIN = 0.05


def find(view: View) -> Iterable[Opportunity]:
    """Where throughput counts; one answer alone does not come sooner."""
    inputs = view.analysis.inputs
    if not inputs or not all(_open_batch(tensor) for tensor in inputs):
        return
    rows = [
        row for row in view.rows if row.weights_bytes and row.category in HEAVY and not view.is_compute_bound(row)
    ]
    weights = sum(row.weights_bytes for row in rows)
    gain = view.share(view.bytes_ms(weights) * (1 - 1 / _BATCH)) if weights else None
    if gain is None or gain < _LEAST_GAIN:
        return
    # The one input that tells the batch stands for all of them.
    yield Opportunity(
        "batch",
        f"For throughput, run several samples at once, for example {_BATCH}",
        f"At a batch of 1, {len(rows)} nodes wait for their weights ({units.size(weights)}).",
        tuple(row.name or row.outputs[0].name for row in rows),
        gain,
        f"of the time per sample at a batch of {_BATCH}, at most; {view.basis}",
        f"edgeopt bench {view.file()} --sweep batch=1,{_BATCH}",
    )


def _open_batch(tensor: Tensor) -> bool:
    return bool(tensor.shape) and not isinstance((tensor.shape or (1,))[0], int)
