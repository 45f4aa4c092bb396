"""Candidates (variants by backends by runtime options), and the effect of each option on the time."""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from edgeopt.backends import option_kinds
from edgeopt.backends.base import TensorInfo
from edgeopt.data.samples import Samples
from edgeopt.hw.device import Device
from edgeopt.hw.topology import cores_for
from edgeopt.pipeline.builders.messages import PLANNED
from edgeopt.pipeline.outcome import Candidate, RuntimeOptions
from edgeopt.pipeline.plans.recipes import RECIPES, recipe_named
from edgeopt.profiles import TargetProfile
from edgeopt.profiles.targets import runtime_space, settled_options
from edgeopt.quant.measured.timing.configs import ExecutionConfig, backends_for

Value = str | int | float | bool

# Priors, in logarithms: the time itself may be anything; this is how much a choice changes it.
_ANY_TIME = 2.0
_ONE_CHOICE = 0.15
# Error of the model: effects of options do not simply add up.
_MISFIT = 0.01


class OptionPoint(NamedTuple):
    """Subject (a variant with all that is not tuned), backend, and choices that differ from the start values."""

    subject: str
    backend: str
    choices: Mapping[str, Value]

    def parts(self) -> list[tuple[str, ...]]:
        chosen = [(self.backend, option, repr(value)) for option, value in sorted(self.choices.items())]
        return [(self.subject, self.backend), *chosen]


class OptionGain(NamedTuple):
    """Expected gain of a point over another, as a logarithm of the time, and its uncertainty."""

    expected: float
    spread: float

    @property
    def hoped(self) -> float:
        """Returns the expected improvement: the mean of the gain, counted as 0 where it would be a loss."""
        z = self.expected / self.spread
        density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        return self.expected * 0.5 * (1 + math.erf(z / math.sqrt(2))) + self.spread * density


class Effects:
    """Effects of the choices of runtime options on the time, learned from few comparisons to find the next point
    to try.

    The logarithm of the time is modelled as a sum: one part for the subject, and one for each option that is not
    at its start value, the same for all subjects on one backend. All distributions are normal, so that each
    expectation comes with its uncertainty: a choice that was never tried may change the time by a few percent
    either way.

    Each comparison gives how much longer one point takes than another.
    """

    def __init__(self) -> None:
        self._columns: dict[tuple[str, ...], int] = {}
        self._rows: list[tuple[list[tuple[str, ...]], list[tuple[str, ...]], float, float]] = []
        self._mean: NDArray[np.float64] = np.zeros(0)
        self._covariance: NDArray[np.float64] = np.zeros((0, 0))

    def learn(self, one: OptionPoint, other: OptionPoint, longer: float, spread: float) -> None:
        """Learns from a comparison: `longer` is the log of the one's time over the other's, `spread` its error."""
        self._rows.append((one.parts(), other.parts(), longer, spread))
        self._fit()

    def unknown(self, point: OptionPoint) -> int:
        """Returns the number of the point's choices that were never part of a comparison."""
        return sum(part not in self._columns for part in point.parts()[1:])

    def gain(self, point: OptionPoint, over: OptionPoint) -> OptionGain:
        """Returns the gain of the point over the other; more than 0 if the point takes less time."""
        difference = np.zeros(len(self._columns))
        fresh: dict[tuple[str, ...], float] = {}
        for parts, sign in ((over.parts(), 1.0), (point.parts(), -1.0)):
            for part in parts:
                if part in self._columns:
                    difference[self._columns[part]] += sign
                else:
                    fresh[part] = fresh.get(part, 0.0) + sign
        variance = float(difference @ self._covariance @ difference) + _MISFIT**2
        variance += sum((sign * _before(part)) ** 2 for part, sign in fresh.items())
        return OptionGain(float(difference @ self._mean), math.sqrt(variance))

    def _fit(self) -> None:
        for one, other, _, _ in self._rows[-1:]:
            for part in (*one, *other):
                self._columns.setdefault(part, len(self._columns))
        matrix = np.zeros((len(self._rows), len(self._columns)))
        longer, spreads = np.zeros(len(self._rows)), np.zeros(len(self._rows))
        for place, (one, other, found, spread) in enumerate(self._rows):
            for part in one:
                matrix[place, self._columns[part]] += 1
            for part in other:
                matrix[place, self._columns[part]] -= 1
            longer[place], spreads[place] = found, math.hypot(spread, _MISFIT)
        weighted = matrix / spreads[:, None] ** 2
        precision = matrix.T @ weighted + np.diag([_before(part) ** -2 for part in self._columns])
        self._covariance = np.asarray(np.linalg.inv(precision), np.float64)
        self._mean = self._covariance @ (weighted.T @ longer)


def best_point(
    points: Sequence[OptionPoint], effects: Effects, over: OptionPoint
) -> tuple[OptionPoint, OptionGain] | None:
    """Returns the most promising point, among those with at most one untried choice.

    If a point with two new choices is slow, neither of them is known to be the cause.
    """
    able = [point for point in points if effects.unknown(point) <= 1]
    if not able:
        return None
    gains = [effects.gain(point, over) for point in able]
    place = max(range(len(able)), key=lambda k: gains[k].hoped)
    return able[place], gains[place]


def _before(part: tuple[str, ...]) -> float:
    return _ANY_TIME if len(part) == 2 else _ONE_CHOICE


# These options are screened for accuracy from the start, as each recipe says, and not tuned late.
NUMERIC = frozenset(r.numeric for r in RECIPES)

Space = Mapping[str, Mapping[str, Sequence[str | int | float | bool]]]
"""Values by backend and option; the first value is where the search starts."""

Settled = Mapping[str, Mapping[str, str | int | float | bool]]
"""Value by backend and option that every candidate has."""


@dataclass(frozen=True, slots=True)
class StartOptions:
    """Runtime options that candidates start with."""

    space: Space
    shapes: dict[str, list[int]] | None = None
    """Shapes of the data, if the model leaves them open: some runtimes are faster when they know them."""
    threads: int | None = None
    """Number of threads, if a runtime's own choice would be wrong: runtimes count the cores of the machine, not
    those that a container allows."""
    settled: Settled = field(default_factory=dict)


def starts_on(
    device: Device,
    profile: TargetProfile,
    inputs: Sequence[TensorInfo],
    samples: Samples,
    *,
    growing: bool = False,
) -> StartOptions:
    """Returns the options; the shapes of a model stay open if they are `growing` from run to run."""
    is_open = not growing and any(not isinstance(size, int) for info in inputs for size in info.shape)
    cores = device.limits.usable_cores
    return StartOptions(
        runtime_space(profile, device),
        samples.shapes() if is_open else None,
        cores if cores < device.cpu.logical_cores else None,
        settled_options(profile, device),
    )


def first_candidates(variant: str, backends: Sequence[str], starts: StartOptions) -> list[Candidate]:
    """Returns a variant on each backend that reads it, once for each value of its numeric options."""
    found = []
    recipe = recipe_named(variant)
    for backend in backends:
        if not recipe.runs_on(backend):
            continue
        static = starts.shapes if backend.startswith("openvino") else None
        fixed: RuntimeOptions = {"shapes": static} if static else {}
        if starts.threads is not None and "threads" in option_kinds(backend):
            fixed["threads"] = starts.threads
        chosen = starts.settled.get(backend, {})
        fixed |= {option: value for option, value in chosen.items() if option not in NUMERIC}
        values = starts.space.get(backend, {}).get(recipe.numeric, ())
        found += [Candidate(variant, backend, {**fixed, recipe.numeric: v}) for v in values] or [
            Candidate(variant, backend, fixed)
        ]
    return found


def configs_on(
    profile: TargetProfile, starts: StartOptions, floats_ms: Callable[[Candidate], float]
) -> tuple[ExecutionConfig, ...]:
    """Returns the configurations to plan precisions for, the fastest in floats first, as time may be short."""
    here = backends_for("", profile)
    firsts = first_candidates(PLANNED, profile.backends.order, starts)
    able = sorted((one for one in firsts if one.backend in here), key=floats_ms)
    return tuple(ExecutionConfig(one.backend, dict(one.options)) for one in able)


def other_threads(candidate: Candidate, space: Space) -> list[Candidate]:
    """Returns the same candidate with each other number of threads."""
    # The search starts with the first value: every candidate with it exists already.
    others = space.get(candidate.backend, {}).get("threads", ())[1:]
    return [
        msgspec.structs.replace(candidate, options={**candidate.options, "threads": count})
        for count in others
        if candidate.options.get("threads") != count
    ]


Choices = Mapping[str, Sequence[Value]]
"""Values by option; the first is where a candidate starts, and means the runtime's own choice."""

_THREADS, _CORES = "threads", "cores"
# Options without effect on a single thread, which would only cost rounds.
_OF_SEVERAL = frozenset(
    {_CORES, "spinning", "spin_duration_us", "dynamic_block_base", "execution_mode", "inter_threads"}
    | {"pinning", "hyper_threading", "core_type", "partitioner"}
)


def choices_on(backend: str, space: Space, device: Device) -> dict[str, tuple[Value, ...]]:
    """Returns the options of a backend that may be chosen late: all but those that change the numbers."""
    found: dict[str, tuple[Value, ...]] = {
        option: tuple(values)
        for option, values in space.get(backend, {}).items()
        if option not in NUMERIC and len(values) > 1
    }
    if _THREADS in found:
        found = _with_cores(found, backend, device)
    return found


def _with_cores(found: dict[str, tuple[Value, ...]], backend: str, device: Device) -> dict[str, tuple[Value, ...]]:
    """Adds one thread for each physical and for each fast core, if these are fewer than the allowed threads."""
    known = option_kinds(backend)
    physical, fast = cores_for("physical", device), cores_for("performance", device)
    first, *others = found[_THREADS]
    found[_THREADS] = tuple(dict.fromkeys((first, physical.threads, fast.threads, *others)))
    if len(fast.cores) > 1 and backend.startswith("onnxruntime"):
        found[_CORES] = ("", ",".join(map(str, fast.cores)))
    if fast.cores and "core_type" in known:
        found.setdefault("core_type", ("", "performance"))
    return found


def subject_of(candidate: Candidate, choices: Choices) -> Candidate:
    """Returns the candidate without its choices, from which all that differ from it in choices alone start."""
    kept: RuntimeOptions = {
        option: value
        for option, value in candidate.options.items()
        if option not in choices or value == choices[option][0]
    }
    return msgspec.structs.replace(candidate, options=kept)


def point_of(candidate: Candidate, choices: Choices) -> OptionPoint:
    subject = subject_of(candidate, choices)
    # The threads that a container allows are where it starts, as all usable ones are elsewhere.
    fixed = {k: v for k, v in subject.options.items() if k not in choices}
    name = repr((candidate.variant, sorted(map(str, fixed.items())), str(candidate.calls)))
    chosen = {
        option: candidate.options[option]
        for option, values in choices.items()
        if option in candidate.options and candidate.options[option] != values[0]
    }
    return OptionPoint(name, candidate.backend, {k: v for k, v in chosen.items() if not isinstance(v, dict)})


def candidates_of(subject: Candidate, choices: Choices) -> Iterator[Candidate]:
    """Yields every combination of choices that makes sense, the subject itself first."""
    names = list(choices)
    seen: list[dict[str, Value]] = []
    for values in itertools.product(*choices.values()):
        chosen = {name: value for name, value in zip(names, values, strict=True) if value != choices[name][0]}
        if chosen.get(_THREADS) == 1:
            chosen = {name: value for name, value in chosen.items() if name not in _OF_SEVERAL}
        if _CORES in chosen:  # as many threads as cores
            chosen.pop(_THREADS, None)
        if chosen in seen:
            continue
        seen.append(chosen)
        kept = {k: v for k, v in subject.options.items() if k not in chosen}
        if _CORES in chosen:
            kept.pop(_THREADS, None)
        yield msgspec.structs.replace(subject, options={**kept, **chosen})
