"""Plans, and the requests and answers of the workers that make variants."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from edgeopt.backends.base import TensorInfo
from edgeopt.bundle.deployment import Step
from edgeopt.data.judging.goals import Goal
from edgeopt.data.samples import Samples
from edgeopt.graph.import_proof import ImportProof
from edgeopt.graph.ledger import LedgerEntry
from edgeopt.profiles import TargetProfile
from edgeopt.quant.measured.timing.configs import ExecutionConfig, OptionValue
from edgeopt.quant.records import QuantSettings
from edgeopt.quant.write import Recorded

CLEANED, REPAIRED, PLANNED = "cleaned", "nncf-repaired", "planned"
"""The recipes that others start from, or give way to."""
PLUGIN = "plugin"
"""Parameter of the step of a plug-in: its name and version."""


class Planning(msgspec.Struct, frozen=True):
    """What a plan must hold to."""

    courses: tuple[ExecutionConfig, ...]
    """The backends with the options that each candidate has there, and every precision that the profile allows."""
    goal: Goal
    limit_s: float
    """The time after which unplanned backends are left out."""
    profile: TargetProfile
    labels: bytes = b""
    """Of all samples that calibrate or check, as an .npy file holds them."""


class PlannedVariant(msgspec.Struct, frozen=True):
    """One variant: a model for one backend, which holds with these options."""

    backend: str
    options: dict[str, OptionValue]
    path: str
    ledger: tuple[LedgerEntry, ...]
    step: Step
    """With the scheme of each layer; all others are float."""
    recorded: Recorded | None = None
    """What it takes to write the same model again without data."""


class Plans(msgspec.Struct, frozen=True):
    variants: tuple[PlannedVariant, ...]
    covered: tuple[str, ...]
    """The backends on which every layer was timed in every form: one form for all layers has no chance there."""
    reason: str = ""
    """Why there is none, as a sentence."""
    ledger: tuple[LedgerEntry, ...] = ()
    """The layers, if there is no plan."""


@dataclass(frozen=True, slots=True)
class BuildTask:
    """One variant to be made."""

    source: Path
    base: Path
    """The cleaned model, or the source where cleaning failed."""
    out: Path
    check_samples: Samples
    calibration: Samples | None
    """Samples that may be used to calibrate; None where the user gave no data."""
    settings: QuantSettings
    step: Step
    """What to do; the step of a deployment profile in the end."""
    backends: tuple[str, ...] = ()
    """Those that the variant is made for; empty: all that read it."""
    samples: Samples | None = None
    """All that calibrate or check, those that calibrate first; the ones that prove are not among them."""
    planning: Planning | None = None
    """What a plan of precisions must hold to."""
    repair_floor_db: float | None = None
    """What a repaired model must reach."""


class Inspect(msgspec.Struct, frozen=True, tag="inspect"):
    """Load the model, say what it is, and write generated samples for it."""

    model_path: str
    samples_path: str
    sample_count: int
    narrowed: tuple[TensorInfo, ...] = ()
    """Inputs with axes fixed to the sizes of the samples, although the model leaves them open."""
    allow_random: bool = True


class Make(msgspec.Struct, frozen=True, tag="make"):
    step: Step
    source_path: str
    base_path: str
    out_path: str
    samples_path: str
    check_first: int
    check_count: int
    calibration_count: int
    """The first samples calibrate; 0 where there is no data that may."""
    settings: QuantSettings
    backends: tuple[str, ...] = ()
    """Those that the variant is made for; empty: all that read it."""
    planning: Planning | None = None
    repair_floor_db: float | None = None
    """What a repaired model must reach."""

    @property
    def recipe(self) -> str:
        return self.step.recipe


class Inspected(msgspec.Struct, frozen=True, tag="inspected"):
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    digest: str
    nodes: int
    operators: dict[str, int]
    size_bytes: int
    """With external data."""
    external: tuple[str, ...] = ()
    """Files of external data, relative to the model's folder."""
    layers: dict[str, int] = {}
    """How many of each kind, and of each operator."""
    imported: ImportProof | None = None


class Made(msgspec.Struct, frozen=True, tag="made"):
    step: Step
    """What was done: without the passes that were rolled back."""
    ledger: tuple[LedgerEntry, ...]
    seconds: float
    plans: Plans | None = None
    """Of a recipe that makes a variant for each backend in one go."""
