"""What may be chosen of the runtime options once a candidate runs: from the profile, and from the cores."""

import itertools
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from edgeopt.backends import option_kinds
from edgeopt.hw.device import Device
from edgeopt.hw.topology import cores_for
from edgeopt.search.outcome import Candidate, RuntimeOptions
from edgeopt.search.racing.effects import Point, Value
from edgeopt.search.racing.space import NUMERIC, Space

Choices = Mapping[str, Sequence[Value]]
"""Option, values; the first value is where a candidate starts, and is left to the runtime."""

_THREADS, _CORES = "threads", "cores"
# What is of no use, and only costs turns, where one thread does all.
_OF_SEVERAL = frozenset(
    {_CORES, "spinning", "spin_duration_us", "dynamic_block_base", "execution_mode", "inter_threads"}
    | {"pinning", "hyper_threading", "core_type", "partitioner"}
)


def choices_on(backend: str, space: Space, device: Device) -> dict[str, tuple[Value, ...]]:
    """The options of a backend that may be chosen late: all but those that change the numbers."""
    found: dict[str, tuple[Value, ...]] = {
        option: tuple(values)
        for option, values in space.get(backend, {}).items()
        if option not in NUMERIC and len(values) > 1
    }
    if _THREADS in found:
        found = _with_cores(found, backend, device)
    return found


def _with_cores(found: dict[str, tuple[Value, ...]], backend: str, device: Device) -> dict[str, tuple[Value, ...]]:
    """One thread for each core that is whole, or fast, where these are fewer than the threads that may run."""
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
    """The candidate without what was chosen: where all that differ from it in choices alone start."""
    kept: RuntimeOptions = {
        option: value
        for option, value in candidate.options.items()
        if option not in choices or value == choices[option][0]
    }
    return msgspec.structs.replace(candidate, options=kept)


def point_of(candidate: Candidate, choices: Choices) -> Point:
    subject = subject_of(candidate, choices)
    # The threads that a container allows are where it starts, as all usable ones are elsewhere.
    fixed = {k: v for k, v in subject.options.items() if k not in choices}
    name = repr((candidate.variant, sorted(map(str, fixed.items())), str(candidate.calls)))
    chosen = {
        option: candidate.options[option]
        for option, values in choices.items()
        if option in candidate.options and candidate.options[option] != values[0]
    }
    return Point(name, candidate.backend, {k: v for k, v in chosen.items() if not isinstance(v, dict)})


def candidates_of(subject: Candidate, choices: Choices) -> Iterator[Candidate]:
    """Every combination of choices that makes sense, the subject itself first."""
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
