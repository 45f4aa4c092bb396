"""Transforms and windows; a Fourier transform of n numbers is counted as the fast one: 5 n log2 n operations."""

from math import ceil, log2, prod

from edgeopt.graph.analysis.cost.call import Arithmetic, Call, Unknown


def _fourier(length: int) -> int:
    return ceil(5 * length * log2(length)) if length > 1 else 1


def _constant(call: Call, position: int) -> int:
    values = call.input(position).values
    if not values:
        raise Unknown(
            f"'{call.input(position).name}' determines the amount of computation and is known only at run time"
        )
    return int(values[0])


def transform(call: Call) -> Arithmetic:
    """From real numbers to half of the frequencies takes half as long."""
    shape = call.shape(0)
    axis = call.whole("axis", 1)
    if call.has(2):
        axis = _constant(call, 2)
    if not -len(shape) <= axis < len(shape):
        raise Unknown(f"its axis {axis} is outside the {len(shape)} axes of its input")
    length = _constant(call, 1) if call.has(1) else shape[axis]
    transforms = prod(shape[:-1]) // max(1, shape[axis])
    return Arithmetic(0, transforms * _fourier(length) // (2 if call.whole("onesided") else 1))


def short_time(call: Call) -> Arithmetic:
    """For each frame the window and a transform."""
    out = call.output().known_shape()
    length = call.axis(2, 0) if call.has(2) else _constant(call, 3)
    frames = prod(out[:-2])
    return Arithmetic(0, frames * (length + _fourier(length) // (2 if call.whole("onesided", 1) else 1)))


def along_last(call: Call) -> Arithmetic:
    """Rfft and Irfft of ONNX Runtime: over the last axes, as many as `signal_ndim` says."""
    shape = call.shape(0) if call.operator == "Rfft" else call.output().known_shape()
    length = prod(shape[-max(1, call.whole("signal_ndim", 1)) :])
    return Arithmetic(0, prod(shape) // max(1, length) * _fourier(length) // 2)


def window(call: Call) -> Arithmetic:
    """A sum of cosines: two of them for Blackman's, one for the others; for each an angle, a product and a sum."""
    return Arithmetic(0, call.out() * (7 if call.operator == "BlackmanWindow" else 4))


def filters(call: Call) -> Arithmetic:
    return Arithmetic(0, call.out())


RULES = {
    "DFT": transform,
    "STFT": short_time,
    **dict.fromkeys(("Rfft", "Irfft"), along_last),
    **dict.fromkeys(("HannWindow", "HammingWindow", "BlackmanWindow"), window),
    "MelWeightMatrix": filters,
}
