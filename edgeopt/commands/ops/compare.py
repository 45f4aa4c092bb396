"""Comparison of outputs with expected ones: the error allowed for each number, and the sentence on a failure.

What moves numbers, or chooses among them, must give them exactly. In float32 a number may be off by
steps x epsilon x (its own size + the root mean square of the whole output), with steps = 16 + sqrt(how many
numbers are added up for it). In float16 it may be off by two of its own steps and by a little of the root mean
square, as runtimes add up in longer numbers, and all numbers together by less than bfloat16 would be off. A
quantized number may be off by one step, and one in fifty at most is.
"""

from collections.abc import Mapping

import msgspec
import numpy as np

from edgeopt.backends.base import Array
from edgeopt.commands.ops.case import OperatorCase
from edgeopt.commands.ops.prepare import CHOICES, MOVES, NORMS, STEPWISE, PreparedCase, output_dtype

_EPSILON = {"float32": 2.0**-23, "float16": 2.0**-10}
_BASE = 16.0
_STATISTICS = ("InstanceNormalization", "LayerNormalization", "GroupNormalization", "RMSNormalization")
_STATISTICS_BASE = 28.0
"""However many numbers an average is of: above 40 an epsilon that is missing beside a variance of 1 would pass."""
_HALF_OWN = 2.0
_HALF_ROOT = 1.0
_HALF_SUM = 2.0
_HALF_STEPWISE = 8.0
"""Half of a step is the last rounding; sums may be rounded on the way, and what goes in steps at every one."""
_HALF_NOISE = 0.7
_HALF_NOISE_STEPWISE = 1.5
"""The root mean square of all errors, in epsilons x that of the output: 0.2 is rounding once, 1.7 is bfloat16."""
_COORDINATES = 4.0
"""Allowance for Resize: positions are float32, so a value may be off by their error times the slope."""
_SHARE_OFF = 0.02
"""Share of quantized numbers that may be off: near the middle of two steps, earlier rounding decides."""
_TINY = 1e-300


class OperatorVerdict(msgspec.Struct, frozen=True):
    conforms: bool
    error_share: float | None = None
    """The largest error, in shares of what is allowed: conforms up to 1; None where nothing can be compared."""
    accuracy_db: float | None = None
    """Signal-to-noise ratio; None where nothing differs, or nothing can be compared."""
    message: str = ""


def compare(prepared: PreparedCase, outputs: Mapping[str, Array]) -> OperatorVerdict:
    """Returns the verdict on all outputs: that of the worst."""
    verdicts = [_output(prepared, name, outputs.get(name)) for name in prepared.expected]
    return max(verdicts, key=lambda verdict: (not verdict.conforms, verdict.error_share or 0.0))


def _output(prepared: PreparedCase, name: str, got: Array | None) -> OperatorVerdict:
    right = prepared.expected[name]
    expected_type = f"{output_dtype(prepared.case, right)} {list(right.shape)}"
    if got is None:
        return OperatorVerdict(False, message=f"The output {name} is missing.")
    if f"{got.dtype.name} {list(got.shape)}" != expected_type:
        return OperatorVerdict(
            False, message=f"The output {name} is {got.dtype.name} {list(got.shape)}, not {expected_type}."
        )
    exact = right.astype(np.float64)
    error = got.astype(np.float64) - exact
    noise = float(np.vdot(error, error))
    if not np.isfinite(noise):
        count = int(np.count_nonzero(~np.isfinite(error)))
        return OperatorVerdict(
            False, message=f"{count:,} of {error.size:,} numbers of the output {name} are not finite."
        )
    signal = float(np.vdot(exact, exact))
    accuracy = float(10 * np.log10(max(signal, _TINY) / noise)) if noise else None
    off = np.abs(error)
    limit = _allowed(prepared, exact, got.dtype.name, signal)
    # What may not be off at all counts in whole shares.
    shares = off / limit if limit is not None else np.where(off, np.maximum(2.0, off * 2), 0.0)
    worst = int(np.argmax(shares))
    share = float(shares.flat[worst])
    if share <= 1:
        whole, summary = _together(prepared.case, off, limit, got.dtype.name, noise, signal)
        return OperatorVerdict(
            whole <= 1, max(share, whole), accuracy, f"{summary}; {accuracy:.0f} dB." if whole > 1 else ""
        )
    place = ", ".join(str(int(index)) for index in np.unravel_index(worst, off.shape))
    within = "" if limit is None else f" (±{float(np.broadcast_to(limit, off.shape).flat[worst]):.2g} is allowed)"
    count = int(np.count_nonzero(shares > 1))
    at_worst = f"{got.flat[worst]:.6g} instead of {exact.flat[worst]:.6g}{within}"
    message = f"{count:,} of {off.size:,} numbers are off: at [{place}] {at_worst}; {accuracy:.0f} dB."
    return OperatorVerdict(False, share, accuracy, message)


def _together(
    case: OperatorCase, off: Array, limit: Array | None, dtype: str, noise: float, signal: float
) -> tuple[float, str]:
    """Returns the error of all numbers together, in shares of the limit, and the start of a sentence on it."""
    if limit is None:
        return 0.0, ""
    if dtype == "float16" and signal:
        maximum = _HALF_NOISE_STEPWISE if case.operator in STEPWISE else _HALF_NOISE
        share = (noise / signal) ** 0.5 / (maximum * _EPSILON[dtype])
        return share, "All numbers together are further off than float16 is"
    if dtype in {"uint8", "int8"}:
        count, room = int(np.count_nonzero(off)), (max(1, int(off.size * _SHARE_OFF)) if off.size > 1 else 0)
        message = f"{count:,} of {off.size:,} numbers are off by one step ({room:,} may be)"
        return count / room if room else 2.0 * count, message
    return 0.0, ""


def _allowed(prepared: PreparedCase, exact: Array, dtype: str, signal: float) -> Array | None:
    """Returns the largest allowed error of each number; None if no error is allowed."""
    case = prepared.case
    if _is_exact(case):
        return None
    if dtype in _EPSILON:
        epsilon = _EPSILON[dtype]
        root = max((signal / max(1, exact.size)) ** 0.5, _TINY)
        allowed: Array
        if dtype == "float16":
            own = np.spacing(np.abs(exact).astype(np.float16)).astype(np.float64)
            allowed = _HALF_OWN * own + _half_roots(prepared) * epsilon * root
        else:
            base = _STATISTICS_BASE if case.operator in _STATISTICS else _BASE
            allowed = (base + prepared.fan_in**0.5) * epsilon * (np.abs(exact) + root)
        allowed = allowed + _coordinates(case) * root
        return allowed
    quantizes = case.operator.startswith(("Quantize", "DynamicQuantize"))
    is_quantized = case.precision == "int8" or quantizes
    return np.array(1.0) if is_quantized and dtype in {"uint8", "int8"} else None


def _half_roots(prepared: PreparedCase) -> float:
    operator = prepared.case.operator
    if operator in STEPWISE:
        return _HALF_STEPWISE
    return _HALF_SUM if prepared.fan_in > 1 or operator in NORMS else _HALF_ROOT


def _is_exact(case: OperatorCase) -> bool:
    """Whether a case computes, and so rounds, nothing; in int8, only if the output keeps the scale."""
    if case.precision == "int8":
        return case.keeps_scale
    if case.operator == "Resize":
        return case.attributes.get("mode", "nearest") == "nearest"
    return case.operator in MOVES or case.operator in CHOICES


def _coordinates(case: OperatorCase) -> float:
    first = case.ports[0]
    if case.operator != "Resize" or first is None:
        return 0.0
    return _COORDINATES * _EPSILON["float32"] * sum(first.shape[2:])
