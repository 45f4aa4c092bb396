"""Whether an output is the right one: by how much each number may be off, and the sentence for one that is not.

A float may be off by steps x epsilon of its type x (its own size + the root mean square of the whole output), with
steps = base + growth x sqrt(how many numbers are added up for it). Rounding errors grow like that; wrong
arithmetic does not hide in it. A quantized number may be off by one step, any other number not at all.
"""

from collections.abc import Mapping

import msgspec
import numpy as np

from edgeopt.ops.prepare import Prepared, output_dtype
from edgeopt.ops.references.formula import Array

# By type of the output: base, growth, epsilon.
_FLOATS = {"float32": (16.0, 1.0, 2.0**-23), "float16": (4.0, 0.5, 2.0**-10)}
_TINY = 1e-300


class Verdict(msgspec.Struct, frozen=True):
    conforms: bool
    error_share: float | None = None
    """The largest error, in shares of what is allowed: conforms up to 1; None where nothing can be compared."""
    accuracy_db: float | None = None
    """Signal-to-noise ratio; None where nothing differs, or nothing can be compared."""
    message: str = ""


def compare(prepared: Prepared, outputs: Mapping[str, Array]) -> Verdict:
    """The verdict on all outputs: that of the worst."""
    verdicts = [_output(prepared, name, outputs.get(name)) for name in prepared.expected]
    return max(verdicts, key=lambda verdict: (not verdict.conforms, verdict.error_share or 0.0))


def _output(prepared: Prepared, name: str, got: Array | None) -> Verdict:
    right = prepared.expected[name]
    wanted = f"{output_dtype(prepared.case, right)} {list(right.shape)}"
    if got is None:
        return Verdict(False, message=f"The output {name} is missing.")
    if f"{got.dtype.name} {list(got.shape)}" != wanted:
        return Verdict(False, message=f"The output {name} is {got.dtype.name} {list(got.shape)}, not {wanted}.")
    exact = right.astype(np.float64)
    error = got.astype(np.float64) - exact
    noise = float(np.vdot(error, error))
    if not np.isfinite(noise):
        count = int(np.count_nonzero(~np.isfinite(error)))
        return Verdict(False, message=f"{count:,} of {error.size:,} numbers of the output {name} are not finite.")
    signal = float(np.vdot(exact, exact))
    accuracy = float(10 * np.log10(max(signal, _TINY) / noise)) if noise else None
    off = np.abs(error)
    limit = _allowed(prepared, exact, got.dtype.name, signal)
    # What may not be off at all counts in whole shares.
    shares = off / limit if limit is not None else off * 2
    worst = int(np.argmax(shares))
    share = float(shares.flat[worst])
    if share <= 1:
        return Verdict(True, share, accuracy)
    place = ", ".join(str(int(index)) for index in np.unravel_index(worst, off.shape))
    within = "" if limit is None else f" (±{float(np.broadcast_to(limit, off.shape).flat[worst]):.2g} is allowed)"
    count = int(np.count_nonzero(shares > 1))
    at_worst = f"{got.flat[worst]:.6g} instead of {exact.flat[worst]:.6g}{within}"
    message = f"{count:,} of {off.size:,} numbers are off: at [{place}] {at_worst}; {accuracy:.0f} dB."
    return Verdict(False, share, accuracy, message)


def _allowed(prepared: Prepared, exact: Array, dtype: str, signal: float) -> Array | None:
    """By how much each number may be off; None: not at all."""
    if dtype in _FLOATS:
        base, growth, epsilon = _FLOATS[dtype]
        size = np.abs(exact) + max((signal / max(1, exact.size)) ** 0.5, _TINY)
        allowed: Array = (base + growth * prepared.fan_in**0.5) * epsilon * size
        return allowed
    quantizes = prepared.case.operator.startswith(("Quantize", "DynamicQuantize"))
    is_quantized = prepared.case.precision == "int8" or quantizes
    return np.array(1.0) if is_quantized and dtype in {"uint8", "int8"} else None
