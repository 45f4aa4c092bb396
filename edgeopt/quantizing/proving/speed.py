"""How fast files are, each on its backend: in turns, so that what disturbs one disturbs all."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from edgeopt.bench.contender import Contender, enter
from edgeopt.bench.host import LocalHost
from edgeopt.bench.messages import Load, Memory
from edgeopt.bench.report import Verdict
from edgeopt.bench.rounds import run_rounds, slice_ms
from edgeopt.bench.stats import Interval, paired_ratios, sign_interval, verdict
from edgeopt.bench.taken import Taken, taken_by
from edgeopt.errors import TrialError
from edgeopt.events import Emit, Progress, ignore
from edgeopt.quantizing.timing.courses import OptionValue

PHASE = "measuring the speed"
SOURCE, FLOAT, RESULT = "source", "float", "result"
"""Who takes part: the source in plain ONNX Runtime, floats on the result's own backend, and the result."""
# Others on the machine only ever make a slice slower, so the quickest quarter tells more than the middle.
_RANKING_ROUNDS, _UNDISTURBED = 11, 0.25
# So many rounds before it is asked whether the answer is clear, and so often it may be asked: each look may err.
_ROUNDS, _LOOKS = 11, 5
_CONFIDENCE = 1 - 0.05 / _LOOKS


@dataclass(frozen=True, slots=True)
class Runner:
    """What takes part in a contest."""

    name: str
    path: Path
    backend: str
    options: Mapping[str, OptionValue]


class Speed(msgspec.Struct, frozen=True):
    """How many times faster the first of a contest is than another."""

    speedup: Interval
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Measured:
    """What a contest of files found, by their names."""

    speeds: Mapping[str, Speed] = field(default_factory=dict)
    """Of the first against each other one."""
    latency_ms: Mapping[str, float] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)
    taken: Mapping[str, Taken] = field(default_factory=dict)
    memory: Mapping[str, Memory] = field(default_factory=dict)


def compared(
    runners: Sequence[Runner], samples: Path, folder: Path, limit_s: float, emit: Emit = ignore
) -> Measured:
    """The first against each other one, in turns; goes on while it is not clear whether it beats the second."""
    begin = time.monotonic()
    with _loaded(runners, samples, folder) as (loaded, failures):
        if runners[0].name not in loaded or len(loaded) == 1:
            return Measured({}, {}, failures)
        first = loaded[runners[0].name]
        speeds: dict[str, Speed] = {}
        for look in range(_LOOKS):
            if look and time.monotonic() - begin > limit_s:
                break
            done, left_s = look * _ROUNDS, max(0.0, limit_s - (time.monotonic() - begin))
            emit(Progress(PHASE, f"{len(loaded)} in turns", done, _LOOKS * _ROUNDS, time_left_s=left_s))
            run_rounds(list(loaded.values()), _ROUNDS, _span_ms(loaded.values()), first=done)
            speeds = {
                name: _speed(first, other)
                for name, other in loaded.items()
                if other is not first and first.failure is None and other.failure is None
            }
            if not speeds or next(iter(speeds.values())).verdict in {"faster", "slower"}:
                break
        fallen = {name: each.failure for name, each in loaded.items() if each.failure is not None}
        times = {name: float(np.median(c.slices_ms)) for name, c in loaded.items() if c.failure is None}
        ran = {name: each for name, each in loaded.items() if each.failure is None}
        return Measured(
            speeds,
            times,
            {**failures, **fallen},
            {name: taken_by(each) for name, each in ran.items()},
            {name: each.memory for name, each in ran.items() if each.memory is not None},
        )


def _speed(first: Contender, other: Contender) -> Speed:
    found = sign_interval(paired_ratios(other.slices_ms, first.slices_ms), _CONFIDENCE)
    return Speed(found, verdict(found))  # type: ignore[arg-type]


def ranked(runners: Sequence[Runner], samples: Path, folder: Path) -> dict[int, float]:
    """By place, the undisturbed time of each that runs, from some rounds in which all take a turn."""
    with _loaded(runners, samples, folder) as (loaded, _):
        if not loaded:
            return {}
        run_rounds(list(loaded.values()), _RANKING_ROUNDS, _span_ms(loaded.values()))
        return {
            place: float(np.quantile(loaded[each.name].slices_ms, _UNDISTURBED))
            for place, each in enumerate(runners)
            if each.name in loaded and loaded[each.name].failure is None
        }


@contextmanager
def _loaded(
    runners: Sequence[Runner], samples: Path, folder: Path
) -> Iterator[tuple[dict[str, Contender], dict[str, str]]]:
    """A process for each, and why some have none."""
    host = LocalHost(folder)
    with ExitStack() as stack:
        loaded: dict[str, Contender] = {}
        failures: dict[str, str] = {}
        for each in runners:
            load = Load(each.backend, host.put(each.path), dict(each.options), host.put(samples))
            try:
                loaded[each.name] = enter(host, each.name, load)
            except TrialError as error:
                failures[each.name] = error.message
            else:
                stack.callback(loaded[each.name].close)
        yield loaded, failures


def _span_ms(contenders: Iterable[Contender]) -> float:
    """Slices of one length for all, long enough for the slowest."""
    return slice_ms(max(each.slices_ms[-1] if each.slices_ms else each.loaded.first_run_ms for each in contenders))
