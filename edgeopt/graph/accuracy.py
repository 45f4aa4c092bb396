"""How close one set of outputs is to another, in dB, and how close it will be on samples not seen yet."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

EQUAL_DB = 200.0
"""The ratio of equal outputs; a float64 comparison tells no more apart."""
SILENT_POWER = 1e-30
"""An output whose squares sum to less than this is as good as zero; errors are then measured against this power,
not against the silence, and `OutputAccuracy.silent` says so."""
RESAMPLES = 2000
SEED = 20240


class OutputAccuracy(msgspec.Struct, frozen=True):
    """One output over all samples."""

    name: str
    snr_db: float
    max_abs: float
    max_rel: float
    cosine: float
    noise_power: tuple[float, ...]
    """The sum of squared differences, one number a sample."""
    signal_power: tuple[float, ...]
    """The sum of squared reference values, one number a sample."""
    problem: str | None = None
    """Why the outputs cannot be compared at all, as a sentence."""

    @property
    def silent(self) -> bool:
        """The reference itself is as good as zero on all samples, so there is nothing to compare with."""
        return not self.problem and sum(self.signal_power) < SILENT_POWER


class Accuracy(msgspec.Struct, frozen=True):
    """All outputs; the worst one decides."""

    outputs: tuple[OutputAccuracy, ...]
    snr_db: float
    problem: str | None = None


def decibels(ratio_db: float) -> str:
    """The ratio for people; the top of the scale means that nothing differs."""
    return "equal" if ratio_db >= EQUAL_DB else f"{ratio_db:.1f} dB"


def signal_to_noise_db(reference: Array, got: Array) -> float:
    """The ratio for one pair of arrays: 200 where they are equal, -inf where they cannot be compared."""
    return _judge("", [reference], [got]).snr_db


def compare_outputs(reference: Sequence[Mapping[str, Array]], got: Sequence[Mapping[str, Array]]) -> Accuracy:
    """Each output over all samples together: one with hardly any signal does not decide alone."""
    if len(reference) != len(got) or not reference:
        problem = f"There are {len(got)} results for {len(reference)} samples."
        return Accuracy((), -math.inf, problem)
    outputs = tuple(
        _judge(name, [sample[name] for sample in reference], [sample.get(name) for sample in got])
        for name in reference[0]
    )
    first = next((output.problem for output in outputs if output.problem), None)
    return Accuracy(outputs, min((output.snr_db for output in outputs), default=-math.inf), first)


def lower_bound_db(accuracy: Accuracy, group: int = 16, confidence: float = 0.95) -> float:
    """What the worst output's ratio will be at least on other samples of the same kind, `group` at a time."""
    if accuracy.problem or not accuracy.outputs:
        return -math.inf
    return min(
        snr_lower_bound(tuple(zip(output.noise_power, output.signal_power, strict=True)), group, confidence)
        for output in accuracy.outputs
    )


def snr_lower_bound(powers: Sequence[tuple[float, float]], group: int = 16, confidence: float = 0.95) -> float:
    """The ratio that `group` samples drawn anew reach with this confidence, by bootstrap with a fixed seed.

    `powers` holds the noise power and the signal power of each sample.
    """
    if not powers:
        return -math.inf
    noise, signal = np.array(powers, dtype=np.float64).T
    drawn = np.random.default_rng(SEED).integers(0, len(noise), size=(RESAMPLES, group))
    ratios = [_ratio_db(n, s) for n, s in zip(noise[drawn].sum(axis=1), signal[drawn].sum(axis=1), strict=True)]
    # A quantile between two draws is not defined where one of them is -inf.
    return float(np.quantile(ratios, 1.0 - confidence, method="lower"))


def _judge(name: str, reference: Sequence[Array], got: Sequence[Array | None]) -> OutputAccuracy:
    noise, signal, dots, powers, max_abs, max_rel = [], [], 0.0, 0.0, 0.0, 0.0
    for index, (wanted, result) in enumerate(zip(reference, got, strict=True)):
        problem = _problem(name, wanted, result)
        if problem or result is None:
            return _incomparable(name, f"{problem} (sample {index}).")
        a, b = _numbers(np.asarray(wanted), np.asarray(result))
        if not np.isfinite(a).all() or not np.isfinite(b).all():
            return _incomparable(name, f"The output '{name}' is not finite where it should be (sample {index}).")
        difference = np.abs(a - b)
        noise.append(float(np.dot(difference, difference)))
        signal.append(float(np.dot(a, a)))
        dots += float(np.dot(a, b))
        powers += float(np.dot(b, b))
        if difference.size:
            max_abs = max(max_abs, float(difference.max()))
            max_rel = max(max_rel, float((difference / np.maximum(np.abs(a), np.finfo(np.float32).tiny)).max()))
    norm = math.sqrt(sum(signal)) * math.sqrt(powers)
    cosine = dots / norm if norm else float(sum(noise) == 0)
    ratio = _ratio_db(sum(noise), sum(signal))
    return OutputAccuracy(name, ratio, max_abs, max_rel, cosine, tuple(noise), tuple(signal))


def _incomparable(name: str, problem: str) -> OutputAccuracy:
    return OutputAccuracy(name, -math.inf, math.inf, math.inf, 0.0, (), (), problem)


def _problem(name: str, wanted: Array, result: Array | None) -> str | None:
    if result is None:
        return f"The output '{name}' is missing"
    if np.shape(wanted) != np.shape(result):
        return f"The output '{name}' has the shape {list(np.shape(result))} instead of {list(np.shape(wanted))}"
    if (np.asarray(wanted).dtype.kind in "OUS") != (np.asarray(result).dtype.kind in "OUS"):
        return f"The output '{name}' is of type {np.asarray(result).dtype} instead of {np.asarray(wanted).dtype}"
    return None


def _numbers(wanted: Array, result: Array) -> tuple[Array, Array]:
    """Both as flat float64 arrays; equal values that are no numbers (NaN, infinities, texts) agree."""
    if wanted.dtype.kind in "OUS":
        wrong = (wanted.reshape(-1) != result.reshape(-1)).astype(np.float64)
        return np.ones_like(wrong), 1.0 - wrong
    a = wanted.astype(np.float64).reshape(-1)
    b = result.astype(np.float64).reshape(-1)
    same = ~np.isfinite(a) & ((a == b) | (np.isnan(a) & np.isnan(b)))
    if same.any():
        a, b = np.where(same, 0.0, a), np.where(same, 0.0, b)
    return a, b


def _ratio_db(noise: float, signal: float) -> float:
    if noise == 0:
        return EQUAL_DB
    if not (math.isfinite(noise) and math.isfinite(signal)):
        return -EQUAL_DB  # the squares overflow; nothing good can be said
    return max(-EQUAL_DB, min(EQUAL_DB, 10 * math.log10(max(signal, SILENT_POWER) / noise)))
