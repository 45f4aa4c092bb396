"""Records of `edgeopt bench`: the results of a measurement, and the limits that they are checked against."""

import math
from typing import Literal

import msgspec

from edgeopt.backends.base import Placement
from edgeopt.measure.messages import Memory, StageTimes
from edgeopt.measure.stats import Direction, Interval
from edgeopt.notebook import NotebookRecord

LimitName = Literal["max-slowdown", "min-speedup"]
State = Literal["held", "broken", "undecided", "not judged"]
Undecided = Literal["pass", "fail"]
SCHEMA = 1


class Limits(msgspec.Struct, frozen=True):
    """Limits as fractions and factors: 0.02 for `--max-slowdown 2%`, 1.1 for `--min-speedup 1.1x`."""

    max_slowdown: float | None = None
    min_speedup: float | None = None
    undecided: Undecided = "pass"
    """Result of a `max-slowdown` that lies inside the interval."""

    @property
    def minimum(self) -> tuple[tuple[LimitName, float], ...]:
        """The least speed-up that each limit allows; a `max_slowdown` of 0.02 allows 1/1.02."""
        found: list[tuple[LimitName, float]] = []
        if self.max_slowdown is not None:
            found.append(("max-slowdown", 1 / (1 + self.max_slowdown)))
        if self.min_speedup is not None:
            found.append(("min-speedup", self.min_speedup))
        return tuple(found)

    def written(self, limit: LimitName) -> str:
        """Returns the limit as written on a command line, such as `--max-slowdown 2%`."""
        value = f"{100 * (self.max_slowdown or 0):g}%" if limit == "max-slowdown" else f"{self.min_speedup:g}x"
        return f"--{limit} {value}"


class Check(msgspec.Struct, frozen=True, rename={"minimum": "least"}):
    """The check of one comparison against one limit."""

    limit: LimitName
    minimum: float
    """The lowest speed-up that the limit allows."""
    first: str
    second: str
    state: State
    """Position of the interval: wholly within the limit, wholly beyond it, or neither."""
    passed: bool
    """Whether the check passes; if undecided, `max-slowdown` follows `undecided`, and `min-speedup` fails."""
    sentence: str
    speedup: Interval | None = None
    """Interval of the speed-up; None if there is none, so nothing is judged."""
    measured: str = ""
    """The quantity compared, if it is not the time of a run, such as `the time to the first answer`."""


class Judgement(msgspec.Struct, frozen=True):
    """The result of checking a measurement against the limits."""

    limits: Limits
    checks: tuple[Check, ...]
    passed: bool
    """Whether every check passes."""


def judgement(limits: Limits, checks: tuple[Check, ...]) -> Judgement:
    """Returns the judgement, which passes only if there is a check and all of them pass."""
    return Judgement(limits, checks, bool(checks) and all(each.passed for each in checks))


def lies(speedup: Interval, minimum: float, luck_percent: float = 0.0) -> Literal["above", "below", "across"]:
    """Returns the side of a limit on which the whole interval lies.

    `luck_percent`: sides that stayed in the same processes may differ by this for their whole life, which their
    interval does not show, so its median must be this far beyond the limit too.
    """
    luck = 1 + luck_percent / 100
    if speedup.low >= minimum and speedup.median >= minimum * luck:
        return "above"
    if speedup.high < minimum and speedup.median < minimum / luck:
        return "below"
    return "across"


def known(speedup: Interval) -> bool:
    """Whether the interval is bounded at both ends; too few rounds give an unbounded one."""
    return speedup.low > 0 and math.isfinite(speedup.high)


Verdict = Direction | Literal["too few rounds to tell", "identical"]


class Figures(msgspec.Struct, frozen=True):
    """The latencies of one side over all its slices."""

    runs: int
    p50_ms: float
    p90_ms: float
    p95_ms: float
    p99_ms: float
    mean_ms: float
    deviation_ms: float
    lowest_ms: float
    highest_ms: float
    throughput_per_s: float
    stable: bool | None = None
    """Whether the last three windows agree within 10 % in mean latency and throughput; None: too few windows."""


class Slice(msgspec.Struct, frozen=True):
    """Measurements of one side in one round."""

    round: int
    begin_s: float
    seconds: float
    latencies_ms: tuple[float, ...]
    starts_ms: tuple[float, ...] = ()
    memory_bytes: int | None = None
    """Resident memory after the slice, in bytes."""
    energy_j: float | None = None
    """Energy of the whole device during the slice, in joules."""
    counters: dict[str, int] = {}
    runs: int = 0
    """Number of runs, which is more than the latencies if these are thinned; 0: as many as latencies."""


class RoundState(msgspec.Struct, frozen=True):
    """The state of the device during one round; each reason in `bad` is a sentence, and a good round has none."""

    round: int
    begin_s: float
    seconds: float
    clock_hz: float | None = None
    temperature_c: float | None = None
    others_percent: float | None = None
    """Share of all cores used by other processes; below 0.5 s, earlier rounds are included."""
    steal_percent: float | None = None
    held_up_ms: float | None = None
    """Time for which a container's CPU quota stopped its threads, summed over them; None without a quota."""
    bad: tuple[str, ...] = ()
    repeated: bool = False
    """Whether the round was spoiled and run again, so that it does not count."""


class Energy(msgspec.Struct, frozen=True):
    """Energy of a run, or the reason why it is unknown."""

    source: str | None = None
    """`RAPL package`, `NVML`, `hwmon ...`, `battery`."""
    joules_per_run: float | None = None
    net_joules_per_run: float | None = None
    """Energy of a run in joules, without that of the idle device."""
    idle_watts: float | None = None
    reason: str = ""
    """The reason if the energy cannot be measured."""


class SideReport(msgspec.Struct, frozen=True):
    """One side of a contest."""

    name: str
    subject: str
    """The model, bundle, program or address."""
    kind: Literal["model", "bundle", "command", "url"]
    backend: str = ""
    options: dict[str, str | int | float | bool | dict[str, list[int]]] = {}
    figures: Figures | None = None
    load_ms: float | None = None
    first_run_ms: float | None = None
    loads_ms: tuple[float, ...] = ()
    """Loading time of each of the side's processes, one a leg."""
    first_runs_ms: tuple[float, ...] = ()
    memory: Memory | None = None
    outside_peak_bytes: int | None = None
    """The highest memory that the parent saw, of the process and its children."""
    placement: Placement | None = None
    energy: Energy | None = None
    counters_per_run: dict[str, float] = {}
    slices: tuple[Slice, ...] = ()
    stages: StageTimes | None = None
    """Times of a bundle's stages (before, inference, after), which no other figure includes."""
    failure: str | None = None
    """The reason if the side did not run to the end: crashed, hung, too much memory."""
    failure_code: str = ""
    """Error code: `trial-failed`, or the trial's own (`usage`, `bad-model`), as in `edgeopt.errors`."""
    failure_hint: str = ""


class Comparison(msgspec.Struct, frozen=True):
    """The speed-up of the first side over the second."""

    first: str
    second: str
    speedup: Interval | None
    """Ratio of the second side's time to the first's; None if the interval is too wide to mean anything."""
    verdict: Verdict
    at_most_percent: float | None = None
    """Largest possible difference in percent, with the verdict "no difference seen"."""
    looks: int = 1
    error: float = 0.02
    """Chance, over all looks, of reporting a difference between equals: its share of the contest's error."""
    luck_percent: float = 0.0
    """Further possible difference, because the sides stayed in the same processes from begin to end."""


class Agreement(msgspec.Struct, frozen=True):
    """Agreement of another side's outputs with the original's."""

    side: str
    snr_db: float | None
    """Signal-to-noise ratio of the worst output; None if the outputs cannot be compared."""
    problem: str = ""
    samples: int = 0


class OriginalRun(msgspec.Struct, frozen=True):
    """A side that is the model of another framework, and the way it ran."""

    side: str
    framework: str
    """Name and version of the framework."""
    mode: str
    """Mode of the framework: `eager`, `torch.compile`, the method of an estimator; empty if there is only one."""
    threads: int
    agreements: tuple[Agreement, ...] = ()


class OriginalSpeed(msgspec.Struct, frozen=True):
    """A bundle's speed compared with the model of another framework that it was made from."""

    run: OriginalRun
    speedup: Interval | None
    """Speed-up of the bundle over the original; None with too few rounds."""
    verdict: Verdict
    original_ms: float | None = None
    """The median time of a run of the original."""


class ContestReport(NotebookRecord, msgspec.Struct, frozen=True):
    """The complete results of a contest, enough to draw, compare and judge it again."""

    sides: tuple[SideReport, ...]
    comparisons: tuple[Comparison, ...] = ()
    """Comparisons of the first side with each other one."""
    states: tuple[RoundState, ...] = ()
    measured_while: str = ""
    """A sentence on the state of the device."""
    rounds: int = 0
    seconds: float = 0.0
    duty: str = "steady"
    data: str = ""
    """Description of the inputs."""
    device: dict[str, str] = {}
    """The parts of the device's fingerprint."""
    machine: dict[str, str] = {}
    """The device's fingerprint in words."""
    versions: dict[str, str] = {}
    """Versions of edgeopt and of the runtimes of the sides."""
    measured_at: str = ""
    warnings: tuple[str, ...] = ()
    judgement: Judgement | None = None
    """Result of the limits that the user gave (`--max-slowdown`, `--min-speedup`)."""
    originals: tuple[OriginalRun, ...] = ()
    """The sides that are models of other frameworks."""
    schema: int = SCHEMA
