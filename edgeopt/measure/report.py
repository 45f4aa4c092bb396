"""Records of `edgeopt bench`: what a measurement found, and the limits that it is held to."""

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
    """As fractions and factors: 0.02 for `--max-slowdown 2%`, 1.1 for `--min-speedup 1.1x`."""

    max_slowdown: float | None = None
    min_speedup: float | None = None
    undecided: Undecided = "pass"
    """What a `max-slowdown` inside the interval does."""

    @property
    def least(self) -> tuple[tuple[LimitName, float], ...]:
        """The least speed-up that each of them allows: one that may take 1.02 times as long has 1/1.02."""
        found: list[tuple[LimitName, float]] = []
        if self.max_slowdown is not None:
            found.append(("max-slowdown", 1 / (1 + self.max_slowdown)))
        if self.min_speedup is not None:
            found.append(("min-speedup", self.min_speedup))
        return tuple(found)

    def written(self, limit: LimitName) -> str:
        """As on a command line: `--max-slowdown 2%`."""
        value = f"{100 * (self.max_slowdown or 0):g}%" if limit == "max-slowdown" else f"{self.min_speedup:g}x"
        return f"--{limit} {value}"


class Check(msgspec.Struct, frozen=True):
    """One limit, and one comparison that was held to it."""

    limit: LimitName
    least: float
    """The least speed-up that it allows."""
    first: str
    second: str
    state: State
    """What the interval says: wholly on the right side of the limit, wholly beyond it, or neither."""
    passed: bool
    """An undecided `max-slowdown` passes, for no slowdown is proved, unless `undecided` is "fail"; an undecided
    `min-speedup` never does."""
    sentence: str
    speedup: Interval | None = None
    """None where there is no interval, and so nothing to judge by."""
    measured: str = ""
    """What was compared, where it is not the time of a run: `the time to the first answer`."""


class Judgement(msgspec.Struct, frozen=True):
    """What the limits say of a measurement."""

    limits: Limits
    checks: tuple[Check, ...]
    passed: bool
    """Whether every check does."""


def judgement(limits: Limits, checks: tuple[Check, ...]) -> Judgement:
    """Nothing checked is nothing passed."""
    return Judgement(limits, checks, bool(checks) and all(each.passed for each in checks))


def lies(speedup: Interval, least: float, luck_percent: float = 0.0) -> Literal["above", "below", "across"]:
    """On which side of a limit an interval lies as a whole.

    `luck_percent`: sides that stayed in the same processes may differ by this for their whole life, which no
    interval of theirs shows, so their middle must be this far beyond the limit too.
    """
    luck = 1 + luck_percent / 100
    if speedup.low >= least and speedup.median >= least * luck:
        return "above"
    if speedup.high < least and speedup.median < least / luck:
        return "below"
    return "across"


def known(speedup: Interval) -> bool:
    """Whether it ends on both sides: too few rounds give an interval that says nothing."""
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
    """Of the last three windows the largest is at most 10 % above the smallest, in mean latency and throughput;
    None: too few windows."""


class Slice(msgspec.Struct, frozen=True):
    """What one side did in one round."""

    round: int
    begin_s: float
    seconds: float
    latencies_ms: tuple[float, ...]
    starts_ms: tuple[float, ...] = ()
    memory_bytes: int | None = None
    """Resident, after the slice."""
    energy_j: float | None = None
    """Of the whole device during the slice."""
    counters: dict[str, int] = {}
    runs: int = 0
    """How many there were: more than latencies where these were thinned; 0: as many as latencies."""


class RoundState(msgspec.Struct, frozen=True):
    """The state of the device during one round; each reason in `bad` is a sentence, none: a good round."""

    round: int
    begin_s: float
    seconds: float
    clock_hz: float | None = None
    temperature_c: float | None = None
    others_percent: float | None = None
    """How busy all cores together were with other processes; of a round below 0.5 s, with those before it."""
    steal_percent: float | None = None
    held_up_ms: float | None = None
    """For how long a container's quota of CPU time held its threads up, all added; None: there is no quota."""
    bad: tuple[str, ...] = ()
    repeated: bool = False
    """Measured in a bad state, and run again: it does not count."""


class Energy(msgspec.Struct, frozen=True):
    """Energy by inference, or why it is not known."""

    source: str | None = None
    """`RAPL package`, `NVML`, `hwmon ...`, `battery`."""
    joules_per_run: float | None = None
    net_joules_per_run: float | None = None
    """Without what the idle device draws."""
    idle_watts: float | None = None
    reason: str = ""
    """Why it is not measurable here."""


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
    """Of each of its processes, one a leg; likewise the next."""
    first_runs_ms: tuple[float, ...] = ()
    memory: Memory | None = None
    outside_peak_bytes: int | None = None
    """The highest that the parent saw, of the process and those that it started."""
    placement: Placement | None = None
    energy: Energy | None = None
    counters_per_run: dict[str, float] = {}
    slices: tuple[Slice, ...] = ()
    stages: StageTimes | None = None
    """Of a bundle that processes: before, inference, after, apart from all other figures."""
    failure: str | None = None
    """How it ended, where it did not go on to the end: crashed, hung, too much memory."""
    failure_code: str = ""
    """`trial-failed`, or what the trial itself said was wrong: `usage`, `bad-model`, as in `edgeopt.errors`."""
    failure_hint: str = ""


class Comparison(msgspec.Struct, frozen=True):
    """How many times faster the first side is than the second."""

    first: str
    second: str
    speedup: Interval | None
    """Is None where the interval is too wide to say anything; the ratio in it says nothing either."""
    verdict: Verdict
    at_most_percent: float | None = None
    """With "no difference seen": a difference is at most so large."""
    looks: int = 1
    error: float = 0.02
    """The chance, over all looks, of calling a difference between these two where none is: what the whole contest
    may err, shared out evenly among its comparisons."""
    luck_percent: float = 0.0
    """What the two may differ by besides, because they stayed in the same processes from begin to end."""


class Agreement(msgspec.Struct, frozen=True):
    """How well another side agrees with an original."""

    side: str
    snr_db: float | None
    """Of the worst output; None: they cannot be compared."""
    problem: str = ""
    samples: int = 0


class OriginalRun(msgspec.Struct, frozen=True):
    """How the model of another framework ran as a side."""

    side: str
    framework: str
    """Name and version."""
    mode: str
    """`eager`, `torch.compile`, the method of an estimator; empty: the framework has one way."""
    threads: int
    agreements: tuple[Agreement, ...] = ()


class OriginalSpeed(msgspec.Struct, frozen=True):
    """A bundle, measured against the model of another framework that it comes from."""

    run: OriginalRun
    speedup: Interval | None
    """How many times as fast the bundle is; None: too few rounds."""
    verdict: Verdict
    original_ms: float | None = None
    """The median time of a run of the original."""


class ContestReport(NotebookRecord, msgspec.Struct, frozen=True):
    """All of a contest: enough to draw it, to compare it, and to judge it again."""

    sides: tuple[SideReport, ...]
    comparisons: tuple[Comparison, ...] = ()
    """Of the first side with each other one."""
    states: tuple[RoundState, ...] = ()
    measured_while: str = ""
    """A sentence on the state of the device."""
    rounds: int = 0
    seconds: float = 0.0
    duty: str = "steady"
    data: str = ""
    """What the inputs were."""
    device: dict[str, str] = {}
    """The parts of the device's fingerprint."""
    machine: dict[str, str] = {}
    """The same in words."""
    versions: dict[str, str] = {}
    """edgeopt and the runtimes that took part."""
    measured_at: str = ""
    warnings: tuple[str, ...] = ()
    judgement: Judgement | None = None
    """What the limits say that were asked for (`--max-slowdown`, `--min-speedup`)."""
    originals: tuple[OriginalRun, ...] = ()
    """Of sides that are models of other frameworks."""
    schema: int = SCHEMA
