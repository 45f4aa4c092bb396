"""How many samples Triton may put into one run: tried with the golden samples before it is promised."""

from pathlib import Path
from typing import Any

import numpy as np

from edgeopt.backends import backend_named
from edgeopt.backends.base import TensorInfo
from edgeopt.bundle.golden import golden_floor_db
from edgeopt.commands.export.base import Made, Order, refuse
from edgeopt.commands.export.triton_ports import NAME, open_axis
from edgeopt.errors import EdgeoptError
from edgeopt.graph.accuracy import compare_outputs

_ORT_BATCH = 8
"""What ONNX Runtime gets at most in one run, where nobody says; it runs fewer as they come."""


def ort_batch(order: Order, made: Made, model: Path, options: dict[str, Any], both: list[TensorInfo]) -> int:
    """The most samples in one run: by the model's own batch axis, tried with two samples in one."""
    wanted = _ORT_BATCH if order.max_batch_size is None else order.max_batch_size
    if wanted == 0:
        return 0
    closed = open_axis(both) or ("" if made.not_checked else _try_batch(order, model, options, 2))
    if closed and order.max_batch_size:
        raise refuse(order, NAME, f"it takes no batches: {closed}", "Leave out --max-batch-size.")
    if closed:
        made.notes.append(f"Requests run one by one (max_batch_size 0): {closed}.")
        return 0
    made.notes.append(
        f"Requests that come at the same time run together, up to {wanted} (max_batch_size, dynamic_batching). "
        "The bundle was proved on single ones; --max-batch-size 0 leaves it at that."
    )
    return wanted


def _try_batch(order: Order, model: Path, options: dict[str, Any], count: int) -> str:
    """Whether samples in one run give the same results as alone; if not, why, as the end of a sentence."""
    golden = order.bundle.golden("inputs")
    feeds = [golden[k % len(golden)] for k in range(count)]
    if any(
        array.shape[:1] != (1,) or array.shape != each[name].shape
        for each in feeds
        for name, array in golden[0].items()
    ):
        return "the golden samples cannot be put together, so it was not tried"
    whole = {name: np.concatenate([each[name] for each in feeds]) for name in feeds[0]}
    try:
        session = backend_named(order.backend).load(model, options)
        try:
            together = session.run(whole)
        finally:
            session.close()
    except EdgeoptError as error:
        return f"{count} samples in one run fail ({error.message.rstrip('.')})"
    if any(array.shape[:1] != (count,) for array in together.values()):
        return f"{count} samples in one run do not give {count} results"
    parts = [{name: array[k : k + 1] for name, array in together.items()} for k in range(count)]
    alone = order.bundle.golden("reference")
    found = compare_outputs([alone[k % len(alone)] for k in range(count)], parts)
    if found.snr_db < golden_floor_db(order.bundle):
        return f"{count} samples in one run give other results than each alone ({found.snr_db:.1f} dB)"
    return ""


def require_batch(
    order: Order, model: Path, options: dict[str, Any], inputs: tuple[TensorInfo, ...], batch: int
) -> None:
    """As Triton runs it: the whole batch as a fixed shape."""
    feeds = order.bundle.golden("inputs")[0]
    shapes = {port.name: [batch, *feeds[port.name].shape[1:]] for port in inputs}
    failed = _try_batch(order, model, {**options, "shapes": shapes}, batch)
    if failed:
        raise refuse(order, NAME, f"it takes no batches: {failed}", "Leave out --max-batch-size.")
