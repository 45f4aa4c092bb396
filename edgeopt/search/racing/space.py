"""Which candidates there are: variants by backends by runtime options, from the target profile."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from edgeopt.backends import option_kinds
from edgeopt.backends.base import TensorInfo
from edgeopt.data.samples import Samples
from edgeopt.hw.device import Device
from edgeopt.profiles import TargetProfile
from edgeopt.profiles.targets import runtime_space, settled_options
from edgeopt.quant.measured.timing.courses import Course, backends_for
from edgeopt.search.making.plans import PLANNED
from edgeopt.search.making.recipes import RECIPES, recipe_named
from edgeopt.search.outcome import Candidate, RuntimeOptions

# They are screened for accuracy from the start, each where its recipe says, and not tuned late.
NUMERIC = frozenset(r.numeric for r in RECIPES)

Space = Mapping[str, Mapping[str, Sequence[str | int | float | bool]]]
"""Backend, option, values; the first value is where the search starts."""

Settled = Mapping[str, Mapping[str, str | int | float | bool]]
"""Backend, option, value: what every candidate has."""


@dataclass(frozen=True, slots=True)
class Starts:
    """With which options candidates start."""

    space: Space
    shapes: dict[str, list[int]] | None = None
    """Of the data where the model leaves them open: some runtimes are faster when they know them."""
    threads: int | None = None
    """Given where a runtime's own choice would be wrong: they look at the cores that there are, not at those that
    a container allows."""
    settled: Settled = field(default_factory=dict)


def starts_on(device: Device, profile: TargetProfile, inputs: Sequence[TensorInfo], samples: Samples) -> Starts:
    is_open = any(not isinstance(size, int) for info in inputs for size in info.shape)
    cores = device.limits.usable_cores
    return Starts(
        runtime_space(profile, device),
        samples.shapes() if is_open else None,
        cores if cores < device.cpu.logical_cores else None,
        settled_options(profile, device),
    )


def first_candidates(variant: str, backends: Sequence[str], starts: Starts) -> list[Candidate]:
    """A variant on each backend that reads it, once for each value of the options that change the numbers."""
    found = []
    recipe = recipe_named(variant)
    for backend in backends:
        if backend not in recipe.backends:
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


def courses_on(
    profile: TargetProfile, starts: Starts, floats_ms: Callable[[Candidate], float]
) -> tuple[Course, ...]:
    """What precisions may be planned for, the quickest in floats first, as time may be short."""
    here = backends_for("", profile)
    firsts = first_candidates(PLANNED, profile.backends.order, starts)
    able = sorted((one for one in firsts if one.backend in here), key=floats_ms)
    return tuple(Course(one.backend, dict(one.options)) for one in able)


def other_threads(candidate: Candidate, space: Space) -> list[Candidate]:
    """The same candidate with each other number of threads."""
    # The first value is where the search started: every candidate with it is there already.
    others = space.get(candidate.backend, {}).get("threads", ())[1:]
    return [
        msgspec.structs.replace(candidate, options={**candidate.options, "threads": count})
        for count in others
        if candidate.options.get("threads") != count
    ]
