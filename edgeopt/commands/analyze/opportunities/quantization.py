"""Large matrix products and convolutions in float32 that could run in eight bits."""

from collections.abc import Iterable

from edgeopt.commands.analyze.opportunities.view import View
from edgeopt.graph.analysis import NodeRow, Opportunity
from edgeopt.hw.device import ComputePeak, Device

_LEAST_SHARE = 0.1
_LEAST_PARAMETERS = 64
# Bytes of a float32 for each of an int8.
_SMALLER = 4.0


def find(view: View) -> Iterable[Opportunity]:
    rows = [row for row in view.rows if _could_be(row, view)]
    share = view.share_of(rows)
    if not rows or share is None or share < _LEAST_SHARE:
        return
    ratio = speed_ratio(view.device, "int8", view.threads)
    what = (
        f"{len(rows)} of its matrix products and convolutions compute in float32 with fixed weights; they are "
        f"{share:.0%} of the time"
    )
    if ratio is None:
        gain, basis = None, "no estimate: this device's peak in int8 is not measured (edgeopt probe --deep)"
        told = ""
    elif ratio <= 1:
        return
    else:
        times = [(view.time_ms(row) or 0.0, ratio if view.is_compute_bound(row) else _SMALLER) for row in rows]
        gain = view.share(sum(time * (1 - 1 / by) for time, by in times))
        basis = f"at most, at this device's peaks of int8 and float32; {view.basis}"
        told = f"; this device computes int8 up to {ratio:.1f}x as fast"
    yield Opportunity(
        "quantization",
        "Quantize the large layers to eight bits",
        f"{what}{told}. edgeopt optimize tries it and keeps it only within the accuracy floor.",
        tuple(row.name or row.outputs[0].name for row in rows),
        gain,
        basis,
        view.optimize,
        exact=False,
    )


def speed_ratio(device: Device | None, precision: str, threads: int | None) -> float | None:
    """The peak in this precision over that in float32, each the best of all runtimes; None where unmeasured."""
    peaks = device.peaks.compute if device is not None and device.peaks is not None else ()
    counts = {peak.threads for peak in peaks}
    chosen = threads if threads in counts else max(counts, default=0)
    plain = _best(peaks, "fp32", chosen)
    wanted = _best(peaks, precision, chosen)
    return wanted / plain if plain and wanted else None


def _best(peaks: tuple[ComputePeak, ...], precision: str, threads: int) -> float | None:
    rates = [p.operations_per_s for p in peaks if p.precision == precision and p.threads == threads]
    return max(rates, default=None)


def _could_be(row: NodeRow, view: View) -> bool:
    if row.category not in {"matrix product", "convolution"} or not row.cost.operations:
        return False
    if row.parameters < _LEAST_PARAMETERS or any(t.dtype != "float32" for t in row.inputs if t.name):
        return False
    makers = (view.by_output.get(tensor.name) for tensor in row.inputs)
    return not any(maker is not None and maker.operator == "DequantizeLinear" for maker in makers)
