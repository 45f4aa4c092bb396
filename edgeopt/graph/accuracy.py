"""Comparison of the outputs of two models, in dB, with a lower bound for samples not seen yet."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

EQUAL_DB = 200.0
"""Ratio of equal outputs in dB; a ratio that is lower means that a value differs."""
_CLOSEST_DB = EQUAL_DB - 0.1
"""Highest ratio of outputs that differ: a small difference beside large values is not equality."""
SILENT_POWER = 1e-60
"""An output whose squares sum to less than this counts as zero: its values are near the limit of float32. Errors
are then measured against this power, not against the silence, and `OutputAccuracy.silent` says so."""
MASK_FACTOR = 10_000
"""Factor below the largest value from which values hardly count in a sum of squares. Masks are that large."""
RTOLS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
"""Relative tolerances in common use."""
RESAMPLES = 2000
SEED = 20240


class Tolerance(msgspec.Struct, frozen=True):
    """Smallest tolerance with which the outputs count as equal, by NumPy's rule: |a - b| <= atol + rtol * |a|."""

    rtol: float
    atol: float
    """Absolute tolerance to use together with `rtol`."""
    atol_alone: float
    rtol_alone: float | None
    """Smallest relative tolerance alone; None if a value differs from a reference of 0, as none can pass then."""


class OutputAccuracy(msgspec.Struct, frozen=True):
    """Accuracy of one output over all samples."""

    name: str
    snr_db: float
    max_abs: float
    max_rel: float
    cosine: float
    noise_power: tuple[float, ...]
    """Sum of squared differences of each sample."""
    signal_power: tuple[float, ...]
    """Sum of squared reference values of each sample."""
    problem: str | None = None
    """Reason why the outputs cannot be compared, as a sentence; None if they can."""
    mean_abs: float = 0.0
    agreement: float = 1.0
    """Share of equal values; the measure for integers, truth values and texts."""
    counted: bool = False
    """Whether the output holds integers, truth values or texts, which `agreement` describes better than dB."""
    not_finite: int = 0
    """Number of positions where both are the same NaN or infinity, which no other figure includes."""
    silent_reference: bool = False
    """Value of `silent`, stored before the figures of each sample were dropped."""
    tolerance: Tolerance | None = None
    """Smallest tolerance that passes; None if the outputs cannot be compared."""

    @property
    def silent(self) -> bool:
        """Whether the reference has no value to compare with on all samples: zero, NaN, infinite or empty."""
        if not self.signal_power:
            return self.silent_reference
        return not self.problem and sum(self.signal_power) < SILENT_POWER

    def without_samples(self) -> "OutputAccuracy":
        """Returns a copy without the figures of each sample, for reports."""
        return msgspec.structs.replace(self, noise_power=(), signal_power=(), silent_reference=self.silent)


class Accuracy(msgspec.Struct, frozen=True):
    """Accuracy of all outputs; the worst output decides."""

    outputs: tuple[OutputAccuracy, ...]
    snr_db: float
    problem: str | None = None


def decibels(ratio_db: float) -> str:
    """Formats a ratio; the top of the scale means that nothing differs."""
    return "equal" if ratio_db >= EQUAL_DB else f"{ratio_db:.1f} dB"


def agreement(ratio_db: float, reference: str = "the source model", against: bool = False) -> str:
    """Formats a ratio within a sentence: `43.1 dB`, or `equal to the source model`.

    `against` names the reference in both cases.
    """
    if ratio_db >= EQUAL_DB:
        return f"equal to {reference}"
    return f"{decibels(ratio_db)} against {reference}" if against else decibels(ratio_db)


def accuracy_text(ratio_db: float) -> str:
    """Formats a ratio as an item of a list: `accuracy 43.1 dB`, or `equal outputs`."""
    return "equal outputs" if ratio_db >= EQUAL_DB else f"accuracy {decibels(ratio_db)}"


def signal_to_noise_db(reference: Array, got: Array) -> float:
    """Returns the ratio of one pair of arrays: 200 if they are equal, -inf if they cannot be compared."""
    return _judge("", [reference], [got]).snr_db


def compare_outputs(reference: Sequence[Mapping[str, Array]], got: Sequence[Mapping[str, Array]]) -> Accuracy:
    """Compares each output over all samples together, so that a sample with hardly any signal does not decide."""
    if len(reference) != len(got) or not reference:
        problem = f"There are {len(got)} results for {len(reference)} samples."
        return Accuracy((), -math.inf, problem)
    reference, got = [flat(sample) for sample in reference], [flat(sample) for sample in got]
    outputs = tuple(
        _judge(name, *_pairs(name, reference, got))
        for name in dict.fromkeys(name for sample in reference for name in sample)
    )
    first = next((output.problem for output in outputs if output.problem), None)
    return Accuracy(outputs, min((output.snr_db for output in outputs), default=-math.inf), first)


def flat(sample: Mapping[str, Any]) -> dict[str, Array]:
    """Flattens sequences and maps into their elements: `boxes[0]`, `chances['cat']`."""
    found: dict[str, Array] = {}
    for name, value in sample.items():
        if isinstance(value, dict):
            found |= flat({f"{name}[{key!r}]": each for key, each in value.items()})
        elif isinstance(value, list):
            found |= {f"{name}.length": np.asarray(len(value))}
            found |= flat({f"{name}[{place}]": each for place, each in enumerate(value)})
        else:
            found[name] = value
    return found


def _pairs(
    name: str, reference: Sequence[Mapping[str, Array]], got: Sequence[Mapping[str, Array]]
) -> tuple[list[Array], list[Array | None]]:
    """Pairs one output of all samples; a sequence element that a reference sample lacks is skipped."""
    both = [
        (expected[name], sample.get(name))
        for expected, sample in zip(reference, got, strict=True)
        if name in expected
    ]
    return [expected for expected, _ in both], [result for _, result in both]


def lower_bound_db(accuracy: Accuracy, group: int = 16, confidence: float = 0.95) -> float:
    """Estimates a lower bound of the worst output's ratio, in dB, over `group` other samples of the same kind."""
    if accuracy.problem or not accuracy.outputs:
        return -math.inf
    return min(
        snr_lower_bound(tuple(zip(output.noise_power, output.signal_power, strict=True)), group, confidence)
        for output in accuracy.outputs
    )


def snr_lower_bound(powers: Sequence[tuple[float, float]], group: int = 16, confidence: float = 0.95) -> float:
    """Returns the ratio that `group` resampled samples reach with this confidence, by bootstrap with a fixed seed.

    `powers` holds the noise power and the signal power of each sample.
    """
    if not powers:
        return -math.inf
    noise, signal = np.array(powers, dtype=np.float64).T
    drawn = np.random.default_rng(SEED).integers(0, len(noise), size=(RESAMPLES, group))
    ratios = [ratio_db(n, s) for n, s in zip(noise[drawn].sum(axis=1), signal[drawn].sum(axis=1), strict=True)]
    # A quantile between two draws is undefined if one of them is -inf.
    return float(np.quantile(ratios, 1.0 - confidence, method="lower"))


def _judge(name: str, reference: Sequence[Array], got: Sequence[Array | None]) -> OutputAccuracy:
    noise, signal, tally = [], [], _Tally()
    dots = expected_powers = powers = 0.0
    for index, (expected, result) in enumerate(zip(reference, got, strict=True)):
        problem = _problem(name, expected, result)
        if problem or result is None:
            return _incomparable(name, f"{problem} (sample {index}).")
        a, b, odd = _numbers(np.asarray(expected), np.asarray(result))
        if problem := _not_finite(a, b):
            return _incomparable(name, f"The output '{name}' {problem} (sample {index}).")
        difference = np.abs(a - b)
        noise.append(float(np.dot(difference, difference)))
        signal.append(_signal_power(a, difference))
        dots += float(np.dot(a, b))
        expected_powers += float(np.dot(a, a))  # with the masks that `signal` leaves out
        powers += float(np.dot(b, b))
        tally.add(np.abs(a), difference, odd)
    norm = math.sqrt(expected_powers) * math.sqrt(powers)
    cosine = dots / norm if norm else float(sum(noise) == 0)
    return OutputAccuracy(
        name,
        ratio_db(sum(noise), sum(signal)),
        tally.max_abs,
        tally.max_rel,
        cosine,
        tuple(noise),
        tuple(signal),
        mean_abs=tally.sum_abs / max(tally.values, 1),
        agreement=tally.equal / tally.values if tally.values else 1.0,
        counted=np.asarray(reference[0]).dtype.kind in "biuOUS",
        not_finite=tally.not_finite,
        tolerance=tally.tolerance(math.sqrt(sum(signal) / max(tally.values, 1))),
    )


def _signal_power(reference: Array, difference: Array) -> float:
    """Returns the sum of squares, without a mask: huge values, all equal in both, that would hide other errors."""
    size = np.abs(reference)
    largest = float(size.max(initial=0.0))
    if largest >= MASK_FACTOR:
        huge = size * MASK_FACTOR >= largest
        others = reference[~huge]
        if others.any() and not difference[huge].any():
            return float(np.dot(others, others))
    return float(np.dot(reference, reference))


@dataclass(slots=True)
class _Tally:
    """Running sums and maxima over the samples of one output."""

    max_abs: float = 0.0
    max_rel: float = 0.0
    rtol_alone: float | None = 0.0
    sum_abs: float = 0.0
    values: int = 0
    equal: int = 0
    not_finite: int = 0
    beyond: list[float] = field(default_factory=lambda: [0.0] * len(RTOLS))
    """Absolute tolerance needed beside each entry of `RTOLS`."""

    def add(self, size: Array, difference: Array, not_finite: int) -> None:
        """Adds one sample; `size` is the absolute values of the reference."""
        self.values += difference.size
        self.not_finite += not_finite
        wrong = difference > 0
        self.equal += difference.size - int(np.count_nonzero(wrong))
        if not wrong.any():
            return
        size, difference = size[wrong], difference[wrong]
        self.max_abs = max(self.max_abs, float(difference.max()))
        self.sum_abs += float(difference.sum())
        self.max_rel = max(self.max_rel, float((difference / np.maximum(size, np.finfo(np.float32).tiny)).max()))
        if not size.all():
            self.rtol_alone = None
        elif self.rtol_alone is not None:
            self.rtol_alone = max(self.rtol_alone, float((difference / size).max()))
        for place, rtol in enumerate(RTOLS):
            self.beyond[place] = max(self.beyond[place], float((difference - rtol * size).max()))

    def tolerance(self, typical: float) -> Tolerance:
        """Pairs the smallest common rtol with the atol that it needs, if that is in proportion to a typical
        value."""
        if not self.max_abs:
            return Tolerance(0.0, 0.0, 0.0, 0.0)
        pairs = zip(RTOLS, self.beyond, strict=True)
        rtol, atol = next((p for p in pairs if p[1] <= p[0] * typical), (RTOLS[-1], self.beyond[-1]))
        alone = None if self.rtol_alone is None else _rounded_up(self.rtol_alone)
        return Tolerance(rtol, _rounded_up(atol), _rounded_up(self.max_abs), alone)


def _rounded_up(value: float) -> float:
    """Rounds up to two digits, so that the outputs pass with the printed tolerance."""
    if value <= 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / unit * (1 + 1e-9)) * unit:.3g}")


def _not_finite(a: Array, b: Array) -> str | None:
    """Describes a mismatch of NaN or infinity between two arrays, or returns None."""
    if np.isfinite(a).all() and np.isfinite(b).all():
        return None
    count = int(np.count_nonzero(~np.isfinite(a) | ~np.isfinite(b)))
    if np.isfinite(a).all():
        return f"is not finite where the reference is, in {count:,} of {a.size:,} values"
    return f"has NaN or infinity in different places than the reference, in {count:,} of {a.size:,} values"


def _incomparable(name: str, problem: str) -> OutputAccuracy:
    return OutputAccuracy(name, -math.inf, math.inf, math.inf, 0.0, (), (), problem)


def _problem(name: str, expected: Array, result: Array | None) -> str | None:
    if result is None:
        return f"The output '{name}' is missing"
    if np.shape(expected) != np.shape(result):
        return f"The output '{name}' has the shape {list(np.shape(result))} instead of {list(np.shape(expected))}"
    if (np.asarray(expected).dtype.kind in "OUS") != (np.asarray(result).dtype.kind in "OUS"):
        return f"The output '{name}' is of type {np.asarray(result).dtype} instead of {np.asarray(expected).dtype}"
    return None


def _numbers(expected: Array, result: Array) -> tuple[Array, Array, int]:
    """Returns both as flat float64 arrays, and how many positions hold the same NaN or infinity.

    Equal values that are no numbers (NaN, infinities, texts) agree.
    """
    if expected.dtype.kind in "OUS":
        wrong = (expected.reshape(-1) != result.reshape(-1)).astype(np.float64)
        return np.ones_like(wrong), 1.0 - wrong, 0
    a = expected.astype(np.float64).reshape(-1)
    b = result.astype(np.float64).reshape(-1)
    if expected.dtype.kind in "iu" and result.dtype.kind in "iu":  # float64 rounds integers beyond 2**53
        lost = (expected != result).reshape(-1) & (a == b)
        b = np.where(lost, np.nextafter(a, np.inf), b)
    same = ~np.isfinite(a) & ((a == b) | (np.isnan(a) & np.isnan(b)))
    if same.any():
        a, b = np.where(same, 0.0, a), np.where(same, 0.0, b)
    return a, b, int(np.count_nonzero(same))


def ratio_db(noise: float, signal: float) -> float:
    """Returns the ratio of two powers in dB, limited to ±`EQUAL_DB`, which is reached without noise only."""
    if noise == 0:
        return EQUAL_DB
    if not (math.isfinite(noise) and math.isfinite(signal)):
        return -EQUAL_DB  # the squares overflow, so the ratio is unknown
    return max(-EQUAL_DB, min(_CLOSEST_DB, 10 * math.log10(max(signal, SILENT_POWER) / noise)))
