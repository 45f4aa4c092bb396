"""Rules and reports of the workloads of `edgeopt bench --duty`."""

from typing import Literal

import msgspec

from edgeopt.measure.report import SCHEMA, Comparison, Energy, Judgement
from edgeopt.measure.schedules import COLD, CONCURRENT, PACED
from edgeopt.measure.stats import Interval
from edgeopt.notebook import NotebookRecord


class WorkloadReport(NotebookRecord, msgspec.Struct, frozen=True, kw_only=True):
    """What the reports of all workloads hold."""

    seconds: float = 0.0
    warnings: tuple[str, ...] = ()
    machine: dict[str, str] = {}
    """The device in words."""
    schema: int = SCHEMA


class ComparedReport(WorkloadReport, frozen=True, kw_only=True):
    """Of sides that ran in rounds."""

    comparisons: tuple[Comparison, ...] = ()
    """Of the first side with each other one, by the workload's main figure."""
    measured_while: str = ""
    """A sentence on the state of the device."""
    judgement: Judgement | None = None
    """What the limits say that were asked for."""


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


class ColdReport(ComparedReport, frozen=True):
    sides: tuple[ColdSide, ...]
    load_comparisons: tuple[Comparison, ...] = ()
    """By the loading of the model alone."""
    cache: str = ""
    """A sentence: what the page cache held at each start."""
    duty: Literal["cold"] = "cold"


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


class PacedReport(ComparedReport, frozen=True):
    rate_per_s: float
    sides: tuple[PacedSide, ...]
    tail_comparisons: tuple[Comparison, ...] = ()
    """By the latency that 99 % of a slice's runs stay within."""
    rounds: int = 0
    slice_s: float = 0.0
    duty: Literal["paced"] = "paced"


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


class SustainedReport(WorkloadReport, frozen=True):
    sides: tuple[SustainedSide, ...]
    minutes: float
    window_s: float
    pauses_s: tuple[float, ...] = ()
    """Before each side but the first, to cool down."""
    stopped_by: Literal["", "interrupt", "terminate"] = ""
    """What ended it early: Ctrl-C or SIGTERM; what there was by then is kept."""
    duty: Literal["sustained"] = "sustained"


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


class ConcurrencyReport(ComparedReport, frozen=True):
    sides: tuple[ConcurrencySide, ...]
    rounds: int = 0
    slice_ms: float = 0.0
    duty: Literal["concurrent"] = "concurrent"
