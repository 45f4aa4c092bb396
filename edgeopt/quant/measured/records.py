"""Records of `edgeopt quantize`: the request, the proofs of accuracy and the result."""

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
from edgeopt.quant.records import CalibrationTried, PrecisionPlan, QuantFinding, TargetVerdict
from edgeopt.quant.schemes import SCHEMES

PLAN = "plan"
METHODS = (PLAN, *(scheme.name for scheme in SCHEMES))
"""Methods: `plan` chooses a scheme for each layer; any other is one scheme for all layers that it fits."""

QuantizeVerdict = Literal["written", "keep float", "reported"]
"""The outcome; `reported` if the request has no file to write."""


class QuantizeRequest(msgspec.Struct, frozen=True):
    model: Path
    out: Path | None = None
    """The ONNX file or the bundle (`.edgeopt`) to write; None: only report."""
    data: Path | None = None
    pre: Path | None = None
    """A file with the preparation of pictures in the data; None: the profile's."""
    method: str = PLAN
    """A name of METHODS."""
    backend: str = ""
    """A backend by name; empty: the fastest of the available ones."""
    options: dict[str, Value] = {}
    """Options of the backend; the plan chooses those that are not given."""
    goal: Goal = Goal()
    """The accuracy floor of the result; with `NO_FLOOR`, for a single scheme, any accuracy is accepted."""
    labels: str = ""
    """Name of the array of labels in the data; empty: found by its usual names if the metric needs labels."""
    profile: str = ""
    """A target profile, by name or as a file; empty: the profile that fits this device."""
    shapes: dict[str, tuple[int, ...]] = {}
    """Fixed shapes of inputs, by name."""
    calibration: str = ""
    """A name of `edgeopt.quant.ranges.METHODS`; empty: the profile's."""
    samples: int | None = None
    """The most calibration samples; None: half of the samples, up to 100."""
    sensitivity: bool = False
    """Whether to report the error and the gain of each layer."""
    keep_float: tuple[str, ...] = ()
    """Nodes, or patterns of names with `*`, that stay float."""
    time_limit_s: float | None = None
    compare_calibrations: bool = False
    """Whether to try every calibration method and report its accuracy."""
    check_targets: tuple[str, ...] = ()
    """Target profiles on whose devices the result is assessed."""
    single_file: bool = False
    """Whether to write the bundle as one file instead of a folder."""

    @property
    def shown_goal(self) -> Goal | None:
        """The goal, or None if any accuracy is accepted."""
        return None if self.goal.is_open else self.goal


class SampleUse(msgspec.Struct, frozen=True):
    """The number of samples for each use; no sample has two uses unless `shared`."""

    given: int
    calibrated: int
    planned: int
    proved: int
    generated: bool = False
    """Whether the samples were generated because there was no data; such samples prove little."""
    shared: bool = False
    """Whether there were too few samples to set some aside for the proof."""


class AccuracyProof(msgspec.Struct, frozen=True):
    """Accuracy of the written file on its backend, compared with the source model on samples set aside."""

    samples: int
    set_aside: bool
    """Whether neither calibration nor the plan used the samples."""
    snr_db: float
    low_db: float
    """Lower bound for other samples, from resampling, in dB."""
    judged: Judged | None = None
    """The result by the goal's metric; None if the metric is the signal-to-noise ratio."""
    outputs: tuple[OutputAccuracy, ...] = ()
    """Accuracy of each output, without the values of single samples."""
    steps_back: int = 0
    """The number of faster plans that were below the goal on these samples."""
    tail: Tail | None = None
    """The lowest sample and the worst tenth of the samples."""
    weak: WeakSamples | None = None
    """Samples that are far below the floor individually."""
    weakest: LevelAccuracy | None = None
    """Accuracy of the deciding level, if samples have several; `snr_db` and `low_db` are the lowest of all."""


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
    """The result of quantizing a model."""

    outcome: QuantizeVerdict
    summary: str
    """A sentence that describes the result or says why the model stays float."""
    model: str
    method: str
    backend: str
    options: dict[str, Value | dict[str, list[int]]]
    goal: Goal | None
    """The accuracy floor; None if there was none."""
    plan: PrecisionPlan | None = None
    """The chosen schemes with a verdict for each layer; also set for a single scheme."""
    proof: AccuracyProof | None = None
    """Proof of the chosen point, or of the last point that was tried if the model stays float."""
    speedup: Interval | None = None
    """Speedup over the fastest float model in full precision; None if it was not measured."""
    source_speedup: Interval | None = None
    """Speedup over the source model in plain ONNX Runtime; None if it was not measured."""
    float_ms: float | None = None
    """Time of one run of the fastest float model."""
    float_on: str = ""
    """Configuration that runs the fastest float model, which may be the source: a backend with its options."""
    float_side: str = ""
    """The same backend and options in the notation of `edgeopt bench`, after the @ of a side."""
    use: SampleUse | None = None
    quantized_share: float = 0.0
    """The share of the multiply-adds that run in fewer bits."""
    source_bytes: int = 0
    files: tuple[File, ...] = ()
    changes: tuple[Change, ...] = ()
    """Changes made by preparation and by the schemes."""
    findings: tuple[QuantFinding, ...] = ()
    calibrations: tuple[CalibrationTried, ...] = ()
    targets: tuple[TargetVerdict, ...] = ()
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0
    phases_s: dict[str, float] = {}
    """Time spent in each phase."""
    taken: dict[str, TrialLog] = {}
    """Timings of the result, the float model and the source; only in a bundle."""
    memory: dict[str, Memory] = {}
    """Memory of the same sides; only in a bundle."""
    device: Device | None = None
    """The device of the measurement; only in a bundle."""
    elsewhere: tuple[RuntimeProof, ...] = ()
    """Proofs of a plain ONNX file in the other installed runtimes."""
