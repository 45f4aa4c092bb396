"""Rules and reports of the workloads of `edgeopt bench --duty`."""

from typing import Literal

import msgspec

from edgeopt.measure.messages import Memory
from edgeopt.measure.report import SCHEMA, Comparison, Energy, Judgement
from edgeopt.measure.schedules import COLD, CONCURRENT, GENERATING, PACED
from edgeopt.measure.stats import Interval
from edgeopt.notebook import NotebookRecord


class WorkloadReport(NotebookRecord, msgspec.Struct, frozen=True, kw_only=True):
    """The common part of all workloads' reports."""

    seconds: float = 0.0
    warnings: tuple[str, ...] = ()
    machine: dict[str, str] = {}
    """The device in words."""
    schema: int = SCHEMA


class ComparedReport(WorkloadReport, frozen=True, kw_only=True):
    """The common part of reports on sides that ran in rounds."""

    comparisons: tuple[Comparison, ...] = ()
    """Comparisons of the first side with each other one, by the workload's main figure."""
    measured_while: str = ""
    """A sentence on the state of the device."""
    judgement: Judgement | None = None
    """Result of the limits that the user gave."""


class ColdRules(msgspec.Struct, frozen=True):
    repetitions: int = COLD.maximum
    drop_files: bool = True
    """Whether the model's files are dropped from the page cache before each start."""
    drop_libraries: bool = False
    """Whether the runtime's libraries are dropped too."""


class PacedRules(msgspec.Struct, frozen=True):
    rate_per_s: float
    rounds: int = PACED.maximum
    runs_a_slice: int = 20


class SustainedRules(msgspec.Struct, frozen=True):
    minutes: float = 5.0
    window_s: float | None = None
    """Length of a window in seconds; None: five, or less if the run is too short for a dozen windows."""
    pause_s: float | None = None
    """Pause between two sides in seconds, to cool down; None: a fifth of the run time, at most a minute."""


class ConcurrentRules(msgspec.Struct, frozen=True):
    threads: tuple[int, ...] = (1, 2, 4)
    """Concurrent calls of one session; 1 is always measured."""
    processes: tuple[int, ...] = ()
    """Concurrent sessions, each in a separate process."""
    rounds: int = CONCURRENT.maximum


class GenerateRules(msgspec.Struct, frozen=True):
    prompt_tokens: int = 64
    new_tokens: int = 32
    """Tokens generated after each prompt, at least two."""
    rounds: int = GENERATING.maximum
    time_limit_s: float = 60.0
    """Time after which no round begins, except for those that a verdict needs."""
    load_patience_s: float | None = None
    """Maximum load time of a side in seconds; None: derived from its backend and size."""


class Spread(msgspec.Struct, frozen=True):
    """Median of repeated values, with the quartiles below and above it."""

    median: float
    low: float
    high: float


class ColdStart(msgspec.Struct, frozen=True):
    """One start, by phase; the total excludes the work that only the measurement needs."""

    start_ms: float
    """Time from the request for the process until it can import the runtime: Python and edgeopt."""
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
    """Share of the files, in percent, that stayed in memory after they were dropped; None if unknown."""
    failure: str | None = None


class ColdReport(ComparedReport, frozen=True):
    sides: tuple[ColdSide, ...]
    load_comparisons: tuple[Comparison, ...] = ()
    """Comparisons of the loading time alone."""
    cache: str = ""
    """Sentence on the contents of the page cache at each start."""
    duty: Literal["cold"] = "cold"


class PacedSide(msgspec.Struct, frozen=True):
    name: str
    runs: int = 0
    missed_runs: int = 0
    """Runs that were due while another still ran."""
    achieved_per_s: float | None = None
    kept: bool = False
    """Whether hardly any run was missed."""
    p50_ms: float | None = None
    p90_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    cpu_ms_per_run: float | None = None
    """CPU time of all threads of the trial, for each run."""
    cpu_percent: float | None = None
    """CPU use as a percentage of one core; 200 means two cores busy all the time."""
    energy: Energy | None = None
    latencies_ms: tuple[float, ...] = ()
    failure: str | None = None


class PacedReport(ComparedReport, frozen=True):
    rate_per_s: float
    sides: tuple[PacedSide, ...]
    tail_comparisons: tuple[Comparison, ...] = ()
    """Comparisons of the 99th percentile of a slice's latencies."""
    rounds: int = 0
    slice_s: float = 0.0
    duty: Literal["paced"] = "paced"


class GenerateSide(msgspec.Struct, frozen=True):
    name: str
    answers: int = 0
    """Number of answers, each to one prompt."""
    first_token_ms: float | None = None
    """Median time of a prompt and its first token, in milliseconds."""
    token_ms: float | None = None
    """Median time of a further token, in milliseconds."""
    tokens_per_s: float | None = None
    """Tokens per second after the first one, in one sequence."""
    load_ms: float | None = None
    memory: Memory | None = None
    first_tokens_ms: tuple[float, ...] = ()
    """Time to the first token of each answer, at most 20,000 of them."""
    tokens_ms: tuple[float, ...] = ()
    """Mean time of a further token, of the same answers."""
    failure: str | None = None


class GenerateReport(ComparedReport, frozen=True):
    """Language models that answer prompts; `comparisons` are those of the time of a token after the first."""

    sides: tuple[GenerateSide, ...]
    prompt_tokens: int
    new_tokens: int
    first_comparisons: tuple[Comparison, ...] = ()
    """Comparisons of the time to the first token."""
    rounds: int = 0
    """Number of rounds that count."""
    data: str = ""
    """Description of the prompts."""
    prompts: int = 0
    """Number of different prompts that the side with the fewest answered."""
    duty: Literal["generate"] = "generate"


class Window(msgspec.Struct, frozen=True):
    """A few seconds of a sustained run."""

    begin_s: float
    """Seconds since the start of the sustained run."""
    seconds: float
    runs: int
    p50_ms: float
    p99_ms: float
    throughput_per_s: float
    clock_hz: float | None = None
    temperature_c: float | None = None
    load_percent: float | None = None
    """Use of all cores, including the run itself."""
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
    """Speed at the end as a multiple of the first speed."""
    changed_after_s: float | None = None
    """Seconds until the turning point, if the side slowed or got faster."""
    verdict: str = ""
    """Sentence on how the speed changed."""
    energy: Energy | None = None
    """Energy over all windows."""
    failure: str | None = None


class SustainedReport(WorkloadReport, frozen=True):
    sides: tuple[SustainedSide, ...]
    minutes: float
    window_s: float
    pauses_s: tuple[float, ...] = ()
    """Pauses before each side but the first, to cool down."""
    stopped_by: Literal["", "interrupt", "terminate"] = ""
    """Signal that ended the measurement early (Ctrl-C or SIGTERM), with the results until then kept."""
    duty: Literal["sustained"] = "sustained"


class Level(msgspec.Struct, frozen=True):
    """Results at one level of concurrency."""

    kind: Literal["threads", "processes"]
    count: int
    runs: int = 0
    throughput_per_s: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    gain: Interval | None = None
    """Throughput as a multiple of a single run's, paired within rounds."""
    efficiency_percent: float | None = None
    """Gain divided by the concurrency; 100 means that twice as many do twice the work."""
    memory_bytes: int | None = None
    """Resident memory of all processes of the level, in bytes."""
    failure: str | None = None


class ConcurrencySide(msgspec.Struct, frozen=True):
    name: str
    levels: tuple[Level, ...]


class ConcurrencyReport(ComparedReport, frozen=True):
    sides: tuple[ConcurrencySide, ...]
    rounds: int = 0
    slice_ms: float = 0.0
    duty: Literal["concurrent"] = "concurrent"
