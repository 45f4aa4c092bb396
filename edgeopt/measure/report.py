"""What a contest found, as it is printed, saved, compared and drawn: the records of `edgeopt bench`."""

from typing import Literal

import msgspec

from edgeopt.backends.base import Placement
from edgeopt.measure.limits import Judgement
from edgeopt.measure.messages import Memory, StageTimes
from edgeopt.measure.stats import Direction, Interval

SCHEMA = 1
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
    """Taken in a bad state, and run again: it does not count."""


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
    speedup: Interval
    verdict: Verdict
    at_most_percent: float | None = None
    """With "no difference seen": a difference is at most so large."""
    looks: int = 1
    error: float = 0.02
    """The chance, over all looks, of calling a difference between these two where none is: what the whole contest
    may err, shared out evenly among its comparisons."""
    luck_percent: float = 0.0
    """What the two may differ by besides, because they stayed in the same processes from begin to end."""


class ContestReport(msgspec.Struct, frozen=True):
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
    schema: int = SCHEMA
