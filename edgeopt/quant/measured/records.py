"""What the user asks of `edgeopt quantize`, and what becomes of it."""

from pathlib import Path
from typing import Literal

import msgspec

from edgeopt.backends.options import Value
from edgeopt.data.judging.goals import Goal
from edgeopt.data.judging.metric import Judged
from edgeopt.graph.accuracy import OutputAccuracy
from edgeopt.graph.ledger import Change
from edgeopt.graph.levels import LevelAccuracy, Tail, WeakSamples
from edgeopt.hw.device import Device
from edgeopt.measure.messages import Memory
from edgeopt.measure.scoreboard import TrialLog
from edgeopt.measure.stats import Interval
from edgeopt.notebook import NotebookRecord
from edgeopt.quant.records import CalibrationTried, PrecisionPlan, QuantFinding, TargetSaid
from edgeopt.quant.schemes import SCHEMES

PLAN = "plan"
METHODS = (PLAN, *(scheme.name for scheme in SCHEMES))
"""`plan` chooses for each layer; the others are forms, given to every layer that they fit."""

QuantizeVerdict = Literal["written", "keep float", "reported"]
"""`reported`: nothing was to be written."""


class QuantizeRequest(msgspec.Struct, frozen=True):
    model: Path
    out: Path | None = None
    """The ONNX file to write, or the bundle (`.edgeopt`); None: only report."""
    data: Path | None = None
    pre: Path | None = None
    """A file that says how pictures in the data are prepared; None: the profile says it."""
    method: str = PLAN
    """One of METHODS."""
    backend: str = ""
    """Empty: the fastest of the available ones."""
    options: dict[str, Value] = {}
    """Of the backend; those that are not named are the plan's to choose."""
    goal: Goal = Goal()
    """Nothing below it is written; `NO_FLOOR`, for a single form: it is written whatever its accuracy."""
    labels: str = ""
    """The array in the data that holds them; empty: found by its name where the metric needs it."""
    profile: str = ""
    """A target profile, by name or as a file; empty: that of the target which fits this device."""
    shapes: dict[str, tuple[int, ...]] = {}
    """Of inputs that are to be fixed."""
    calibration: str = ""
    """A name of `edgeopt.quant.ranges.METHODS`; empty: the profile's."""
    samples: int | None = None
    """The most samples that calibrate; None: half of them, up to 100."""
    sensitivity: bool = False
    """Report what each layer costs and saves."""
    keep_float: tuple[str, ...] = ()
    """Nodes, or patterns of names with `*`, that stay float."""
    time_limit_s: float | None = None
    compare_calibrations: bool = False
    """Try every method of calibration, and report how exact each is."""
    check_targets: tuple[str, ...] = ()
    """Target profiles: what would become of the result on their devices."""
    single_file: bool = False
    """The bundle becomes one file instead of a folder."""

    @property
    def shown_goal(self) -> Goal | None:
        """The goal, where there is one."""
        return None if self.goal.is_open else self.goal


class SampleUse(msgspec.Struct, frozen=True):
    """How many samples did what; none did two of these unless `shared` says so."""

    given: int
    calibrated: int
    planned: int
    proved: int
    generated: bool = False
    """There was no data: the samples are made up, and prove little."""
    shared: bool = False
    """There were too few to keep some aside."""


class AccuracyProof(msgspec.Struct, frozen=True):
    """The written file on its backend against the source model, on samples set aside."""

    samples: int
    set_aside: bool
    """Neither calibration nor the plan saw them."""
    snr_db: float
    low_db: float
    """What resampling says that it may be on other samples."""
    judged: Judged | None = None
    """By the goal's own metric; None where that is the ratio in dB."""
    outputs: tuple[OutputAccuracy, ...] = ()
    """Without their figures for each sample."""
    steps_back: int = 0
    """The number of faster plans that were below the goal on these samples."""
    tail: Tail | None = None
    """The lowest sample, and the worst tenth of them."""
    weak: WeakSamples | None = None
    """Samples that are far below the floor by themselves."""
    weakest: LevelAccuracy | None = None
    """Of samples of several levels, that which decides; `snr_db` and `low_db` are the lowest of all levels."""


class RuntimeProof(msgspec.Struct, frozen=True):
    """The written file with the default options of a runtime that it was not made for."""

    backend: str
    meets_goal: bool
    """Always false if there is no goal."""
    proof: AccuracyProof | None = None
    """Accuracy in this runtime; None if the file does not run there."""
    reason: str = ""
    """Message of the runtime that does not run the file."""

    @property
    def where(self) -> str:
        return f"{self.backend} with default options"


class File(msgspec.Struct, frozen=True):
    path: str
    size_bytes: int


class Quantized(NotebookRecord, msgspec.Struct, frozen=True):
    """What became of a model."""

    outcome: QuantizeVerdict
    summary: str
    """A sentence: what it is, or why it stays float."""
    model: str
    method: str
    backend: str
    options: dict[str, Value | dict[str, list[int]]]
    goal: Goal | None
    """What the result had to reach; None where no floor was wanted."""
    plan: PrecisionPlan | None = None
    """For a single form too: what was chosen, and a verdict for each layer."""
    proof: AccuracyProof | None = None
    """Of the chosen point, or of the last that was tried where it stays float."""
    speedup: Interval | None = None
    """Over the quickest float model in full precision; None where it was not measured."""
    source_speedup: Interval | None = None
    """Over the source model in plain ONNX Runtime, where that was measured."""
    float_ms: float | None = None
    """One run of that float model."""
    float_on: str = ""
    """Where it ran: the quickest of the backends that were allowed and of what the source runs on."""
    float_side: str = ""
    """The same as `edgeopt bench` reads it behind the @ of a side."""
    use: SampleUse | None = None
    quantized_share: float = 0.0
    """The share of the multiply-adds that run in fewer bits."""
    source_bytes: int = 0
    files: tuple[File, ...] = ()
    changes: tuple[Change, ...] = ()
    """By preparation and by the forms."""
    findings: tuple[QuantFinding, ...] = ()
    calibrations: tuple[CalibrationTried, ...] = ()
    targets: tuple[TargetSaid, ...] = ()
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0
    phases_s: dict[str, float] = {}
    """Where the time went."""
    taken: dict[str, TrialLog] = {}
    """In a bundle alone: how the result, floats and the source ran."""
    memory: dict[str, Memory] = {}
    """In a bundle alone, likewise."""
    device: Device | None = None
    """In a bundle alone: the one that it was measured on."""
    elsewhere: tuple[RuntimeProof, ...] = ()
    """Proofs of a plain ONNX file in the other installed runtimes, which may load it too."""
