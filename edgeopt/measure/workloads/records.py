"""Rules, reports and comparisons of the workloads of `edgeopt bench --duty`."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from edgeopt.errors import TrialError
from edgeopt.measure.contender import Side
from edgeopt.measure.instruments.machine_state import StateSampler
from edgeopt.measure.report import SCHEMA, Comparison, Energy, Judgement, Verdict
from edgeopt.measure.schedules import COLD, CONCURRENT, LUCK_PERCENT, PACED, Schedule
from edgeopt.measure.stats import Interval, direction, paired_ratios, sign_interval


class ColdRules(msgspec.Struct, frozen=True):
    repetitions: int = COLD.most
    drop_files: bool = True
    """The model's files are taken out of the page cache before each start."""
    drop_libraries: bool = False
    """The runtime's libraries too."""


class PacedRules(msgspec.Struct, frozen=True):
    rate_per_s: float
    rounds: int = PACED.most
    runs_a_slice: int = 20


class SustainedRules(msgspec.Struct, frozen=True):
    minutes: float = 5.0
    window_s: float | None = None
    """None: five seconds, or less, so that there are a dozen of them."""
    pause_s: float | None = None
    """Between two sides, to cool down; None: a fifth of the time, at most a minute."""


class ConcurrentRules(msgspec.Struct, frozen=True):
    threads: tuple[int, ...] = (1, 2, 4)
    """Concurrent calls of one session; 1 is always measured."""
    processes: tuple[int, ...] = ()
    """Concurrent sessions, each in a separate process."""
    rounds: int = CONCURRENT.most


class Spread(msgspec.Struct, frozen=True):
    """The middle of repeated values, and the range that the middle half of them lies in."""

    median: float
    low: float
    high: float


class ColdStart(msgspec.Struct, frozen=True):
    """One start, by phase; the total leaves out what only the measurement needs."""

    start_ms: float
    """From asking for the process until it is ready to import: Python and edgeopt."""
    import_ms: float
    load_ms: float
    first_run_ms: float
    total_ms: float


class ColdSide(msgspec.Struct, frozen=True):
    name: str
    starts: tuple[ColdStart, ...] = ()
    start_ms: Spread | None = None
    import_ms: Spread | None = None
    load_ms: Spread | None = None
    first_run_ms: Spread | None = None
    total_ms: Spread | None = None
    """Time to the first answer."""
    kept_percent: float | None = None
    """How much of the files was still in memory after they were taken out; None where that cannot be told."""
    failure: str | None = None


class ColdReport(msgspec.Struct, frozen=True):
    sides: tuple[ColdSide, ...]
    comparisons: tuple[Comparison, ...] = ()
    """By the time to the first answer, of the first side with each other one."""
    load_comparisons: tuple[Comparison, ...] = ()
    """By the loading of the model alone."""
    cache: str = ""
    """A sentence: what the page cache held at each start."""
    measured_while: str = ""
    """A sentence on the state of the device."""
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()
    machine: dict[str, str] = {}
    """The device in words."""
    judgement: Judgement | None = None
    """What the limits say that were asked for."""
    duty: Literal["cold"] = "cold"
    schema: int = SCHEMA


class PacedSide(msgspec.Struct, frozen=True):
    name: str
    runs: int = 0
    missed_runs: int = 0
    """Runs that came due while another was still running."""
    achieved_per_s: float | None = None
    kept: bool = False
    """Hardly a run was missed."""
    p50_ms: float | None = None
    p90_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    cpu_ms_per_run: float | None = None
    """Processor time of all threads of the trial."""
    cpu_percent: float | None = None
    """Of one core; 200: two cores busy all the time."""
    energy: Energy | None = None
    latencies_ms: tuple[float, ...] = ()
    failure: str | None = None


class PacedReport(msgspec.Struct, frozen=True):
    rate_per_s: float
    sides: tuple[PacedSide, ...]
    comparisons: tuple[Comparison, ...] = ()
    """By the median latency, of the first side with each other one."""
    tail_comparisons: tuple[Comparison, ...] = ()
    """By the latency that 99 % of a slice's runs stay within."""
    rounds: int = 0
    slice_s: float = 0.0
    measured_while: str = ""
    """A sentence on the state of the device."""
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()
    machine: dict[str, str] = {}
    """The device in words."""
    judgement: Judgement | None = None
    """What the limits say that were asked for."""
    duty: Literal["paced"] = "paced"
    schema: int = SCHEMA


class Window(msgspec.Struct, frozen=True):
    """A few seconds of a sustained run."""

    begin_s: float
    """Since its begin."""
    seconds: float
    runs: int
    p50_ms: float
    p99_ms: float
    throughput_per_s: float
    clock_hz: float | None = None
    temperature_c: float | None = None
    load_percent: float | None = None
    """Of all cores, with what the run itself takes."""
    others_percent: float | None = None
    memory_bytes: int | None = None


Course = Literal["kept its speed", "slowed", "got faster", "no clear course", "too short to tell"]


class SustainedSide(msgspec.Struct, frozen=True):
    name: str
    windows: tuple[Window, ...] = ()
    seconds: float = 0.0
    runs: int = 0
    p50_ms: float | None = None
    p99_ms: float | None = None
    throughput_per_s: float | None = None
    course: Course = "too short to tell"
    speed_at_end: float | None = None
    """How fast the end was, as a multiple of the begin."""
    changed_after_s: float | None = None
    """When it had changed half-way, where it slowed or got faster."""
    verdict: str = ""
    """A sentence."""
    energy: Energy | None = None
    """Of the whole time that its windows cover."""
    failure: str | None = None


class SustainedReport(msgspec.Struct, frozen=True):
    sides: tuple[SustainedSide, ...]
    minutes: float
    window_s: float
    pauses_s: tuple[float, ...] = ()
    """Before each side but the first, to cool down."""
    stopped_by: Literal["", "interrupt", "terminate"] = ""
    """What ended it early: Ctrl-C or SIGTERM; what there was by then is kept."""
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()
    machine: dict[str, str] = {}
    """The device in words."""
    duty: Literal["sustained"] = "sustained"
    schema: int = SCHEMA


class Level(msgspec.Struct, frozen=True):
    """The concurrency."""

    kind: Literal["threads", "processes"]
    count: int
    runs: int = 0
    throughput_per_s: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    gain: Interval | None = None
    """Throughput as a multiple of that of one alone, paired within rounds."""
    efficiency_percent: float | None = None
    """100: twice as many do twice as much."""
    memory_bytes: int | None = None
    """Resident, all processes of the level together."""
    failure: str | None = None


class ConcurrencySide(msgspec.Struct, frozen=True):
    name: str
    levels: tuple[Level, ...]


class ConcurrencyReport(msgspec.Struct, frozen=True):
    sides: tuple[ConcurrencySide, ...]
    rounds: int = 0
    slice_ms: float = 0.0
    measured_while: str = ""
    """A sentence on the state of the device."""
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    """By throughput, of the first side with each other one, each as it does most."""
    machine: dict[str, str] = {}
    """The device in words."""
    judgement: Judgement | None = None
    """What the limits say that were asked for."""
    duty: Literal["concurrent"] = "concurrent"
    schema: int = SCHEMA


def compared(
    name: str, other: str, mine_ms: Sequence[float], theirs_ms: Sequence[float], terms: Schedule
) -> Comparison | None:
    """How many times faster the first is than the second, judged once; None without a round of both."""
    rounds = min(len(mine_ms), len(theirs_ms))
    if not rounds:
        return None
    ratio = sign_interval(paired_ratios(theirs_ms[:rounds], mine_ms[:rounds]), 1 - terms.error)
    said = _verdict(ratio, terms)
    at_most = 100 * (max(ratio.high, 1 / max(ratio.low, 1e-9)) - 1) if said == "no difference seen" else None
    luck_percent = terms.same_percent if terms.same_percent >= LUCK_PERCENT else 0.0
    return Comparison(name, other, ratio, said, at_most, error=terms.error, luck_percent=luck_percent)


def _verdict(ratio: Interval, terms: Schedule) -> Verdict:
    least = 1 + terms.same_percent / 100
    # Equal sides fall all on one side of 1x with this chance, and then no interval of theirs holds 1x.
    if 2 * 0.5**ratio.rounds > terms.error:
        return "too few rounds to tell"
    return direction(ratio, least)


def against_first(
    names: Sequence[str], values_ms: Sequence[Sequence[float]], terms: Schedule
) -> tuple[Comparison, ...]:
    """The first side with each other one."""
    others = zip(names[1:], values_ms[1:], strict=True)
    made = (compared(names[0], name, values_ms[0], values, terms) for name, values in others)
    return tuple(c for c in made if c is not None)


def require_one(failures: dict[str, str | None], hint: str = "Run it in its own runtime for details.") -> None:
    """Raises TrialError when no side is left; a side that failed beside others is a part of the report."""
    if failures and all(why is not None for why in failures.values()):
        name, why = next(iter(failures.items()))
        raise TrialError(f"'{name}' {(why or '').rstrip('.')}.", hint)


def sampler_for(sides: Sequence[Side]) -> StateSampler:
    """What looks at the device; the server of a served model is one of the "others", and spoils no round."""
    return StateSampler(tuple, judge_others=all(side.kind != "url" for side in sides))


def warnings_of(failures: dict[str, str | None]) -> tuple[str, ...]:
    return tuple(
        f"'{name}' {why.rstrip('.')}; it was skipped from then on." for name, why in failures.items() if why
    )
