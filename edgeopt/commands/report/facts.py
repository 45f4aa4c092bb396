"""Facts of a report, as records and as JSON; unknown ones are None, with a reason in `unknown`."""

from typing import Literal

import msgspec

from edgeopt.bundle.deployment import Deployment
from edgeopt.graph.accuracy import OutputAccuracy
from edgeopt.graph.analysis import OpTimes
from edgeopt.graph.import_proof import ImportProof
from edgeopt.graph.ledger import LedgerEntry
from edgeopt.graph.levels import LevelAccuracy
from edgeopt.hw.device import Device
from edgeopt.measure.messages import Memory
from edgeopt.measure.report import OriginalSpeed
from edgeopt.measure.scoreboard import TrialLog
from edgeopt.measure.stats import Interval
from edgeopt.pipeline.outcome import SizeTimes

SCHEMA = 1
Made = Literal["a search", "a plan of precision", "a plan for another device", "unknown"]


class SpeedSide(msgspec.Struct, frozen=True):
    """Baseline or result of a speed measurement."""

    name: str
    latency_ms: float | None = None
    taken: TrialLog | None = None
    memory: Memory | None = None


class SpeedFacts(msgspec.Struct, frozen=True):
    baseline: SpeedSide
    result: SpeedSide
    ratio: Interval
    verdict: str
    measured_while: str = ""
    source: str = ""
    """Method of the measurement, as a sentence."""
    by_size: tuple[SizeTimes, ...] = ()
    """Times by size, if open dimensions have several sizes."""
    cost: str = ""
    """Cost of a program for each size, as a sentence."""


class AccuracyFacts(msgspec.Struct, frozen=True):
    snr_db: float | None
    floor_db: float | None
    goal: str = ""
    samples: int | None = None
    set_aside: bool | None = None
    """Whether nothing before the proof used the samples; None if that is not recorded."""
    low_db: float | None = None
    """Lower bound of the ratio on other samples, by resampling."""
    lowest_db: float | None = None
    """Ratio of the single worst sample."""
    outputs: tuple[OutputAccuracy, ...] = ()
    outputs_on: str = ""
    """Samples that the outputs were compared on, in words."""
    weakest: LevelAccuracy | None = None
    """The level of input that decided, where the samples are of several."""
    generated: bool = False
    """Whether the samples were generated, because no data was given."""


class Stage(msgspec.Struct, frozen=True):
    """A step on the way from the source to the result, with the best that was known then."""

    name: str
    what: str
    candidate: str
    ratio: Interval | None = None
    """Speed relative to the baseline; None for the baseline itself, and if it was not measured."""
    time_ms: float | None = None
    """The baseline's time over that ratio: interleaved measurements can be compared, bare times cannot. If it
    is proved, what was measured."""
    size_bytes: int | None = None
    peak_bytes: int | None = None
    added_bytes: int | None = None
    snr_db: float | None = None
    proved: bool = False
    """Whether the stage was measured from a written bundle, not in the race."""


class FrontPoint(msgspec.Struct, frozen=True):
    """Candidate with its measurements among the others."""

    name: str
    variant: str
    backend: str
    status: str
    reason: str = ""
    time_ms: float | None = None
    """The baseline's time over the ratio in the race; or what a plan expected."""
    ratio: Interval | None = None
    snr_db: float | None = None
    low_db: float | None = None
    size_bytes: int | None = None
    peak_bytes: int | None = None
    added_bytes: int | None = None
    load_ms: float | None = None
    on_front: bool = False
    """No other one that may be delivered is at once as fast, as accurate, and as small; or it is the result."""
    basis: Literal["measured", "expected"] = "measured"


class NotMade(msgspec.Struct, frozen=True):
    """Variant that never took part."""

    name: str
    title: str
    reason: str


class LayerChoice(msgspec.Struct, frozen=True, rename={"scheme": "form"}):
    layer: str
    scheme: str
    reason: str


class OperatorCount(msgspec.Struct, frozen=True):
    operator: str
    before: int | None
    after: int | None


class SearchWork(msgspec.Struct, frozen=True):
    """Composition of a model, and the cost of one run."""

    nodes: int
    parameters: int
    size_bytes: int
    multiply_adds: int | None = None
    moved_bytes: int | None = None


class Bound(msgspec.Struct, frozen=True):
    """Best rate that was measured on the device, which no kernel can beat."""

    what: str
    operations_per_s: float | None = None
    bytes_per_s: float | None = None


class Reports(msgspec.Struct, frozen=True):
    path: str
    format: str
    size_bytes: int
    verdict: str
    summary: str
    unknown: dict[str, str] = {}


class ReportFacts(msgspec.Struct, frozen=True):
    bundle: str
    deployment: Deployment
    made_by: Made
    verdict: str
    summary: str
    reported_at: str
    reported_by: str
    """The version of edgeopt that gathered this."""
    model_bytes: int
    """The model's files in the bundle."""
    bundle_bytes: int
    speed: SpeedFacts | None = None
    float_ratio: Interval | None = None
    """Speed of a plan of precision relative to floats."""
    float_on: str = ""
    """Backend of the float model in `float_ratio`; empty: the result's own runtime."""
    accuracy: AccuracyFacts | None = None
    stages: tuple[Stage, ...] = ()
    points: tuple[FrontPoint, ...] = ()
    not_made: tuple[NotMade, ...] = ()
    layers: tuple[LayerChoice, ...] = ()
    operators: tuple[OperatorCount, ...] = ()
    work_before: SearchWork | None = None
    work_after: SearchWork | None = None
    nodes: OpTimes | None = None
    bounds: tuple[Bound, ...] = ()
    ledger: tuple[LedgerEntry, ...] = ()
    device: Device | None = None
    device_is: str = ""
    """Source of the device's record, as a sentence."""
    changed_here: tuple[str, ...] = ()
    """Parts of the device that differ on the device of the report."""
    source_path: str = ""
    """Path of the source model, if the user named it."""
    seconds: float | None = None
    """Time that it took to make the bundle."""
    imported: ImportProof | None = None
    """Proof of the source model's import, if `edgeopt import` made the model."""
    original: OriginalSpeed | None = None
    """The bundle against the model in its framework, where `edgeopt optimize` imported it."""
    preset: str = ""
    """The preset of the search and what it set, as a sentence; empty where it is not shown."""
    warnings: tuple[str, ...] = ()
    unknown: dict[str, str] = {}
    """Facts missing from the report, each with the reason."""
    schema: int = SCHEMA
