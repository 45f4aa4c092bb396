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
MAPPED = "mapped"
REPAIR_BASE = "nncf-transformer"
"""The variant that a repair starts from: these settings keep almost every model more accurate."""
"""Recipes that others start from, or give way to."""
PLUGIN = "plugin"
"""Parameter of the step of a plug-in: its name and version."""


class Planning(msgspec.Struct, frozen=True):
    """Configurations and constraints of a precision plan."""

    configs: tuple[ExecutionConfig, ...]
    """Backends with the options that each candidate has there, in every precision that the profile allows."""
    goal: Goal
    limit_s: float
    """Time after which unplanned backends are left out, in seconds."""
    profile: TargetProfile
    labels: bytes = b""
    """Labels of all samples that calibrate or check, as an .npy file holds them."""


class PlannedVariant(msgspec.Struct, frozen=True):
    """Variant for one backend, planned for these options."""

    backend: str
    options: dict[str, OptionValue]
    path: str
    ledger: tuple[LedgerEntry, ...]
    step: Step
    """Step with the scheme of each quantized layer; all other layers are float."""
    recorded: Recorded | None = None
    """Calibration results that rebuild the same model without data."""


class Plans(msgspec.Struct, frozen=True):
    variants: tuple[PlannedVariant, ...]
    covered: tuple[str, ...]
    """Backends on which every layer was timed in every scheme: one scheme for all has no chance there."""
    reason: str = ""
    """Reason why there is no plan, as a sentence."""
    ledger: tuple[LedgerEntry, ...] = ()
    """Ledger of the layers, if there is no plan."""


@dataclass(frozen=True, slots=True)
class BuildTask:
    """Variant to be made, with its inputs."""

    source: Path
    base: Path
    """Cleaned model, or the source if cleaning failed."""
    out: Path
    check_samples: Samples
    calibration: Samples | None
    """Samples that may be used to calibrate; None if the user gave no data."""
    settings: QuantSettings
    step: Step
    """Step to run; recorded in the deployment profile."""
    backends: tuple[str, ...] = ()
    """Backends that the variant is made for; empty: all that can read it."""
    samples: Samples | None = None
    """Calibration samples followed by check samples; does not contain the samples of the proof."""
    planning: Planning | None = None
    """Configurations and constraints of a precision plan."""
    repair_floor_db: float | None = None
    """Minimum accuracy of a repaired model, in dB."""


class Inspect(msgspec.Struct, frozen=True, tag="inspect"):
    """Request to load the model, describe it, and write generated samples for it."""

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
    """Number of leading samples that calibrate; 0 if no data may be used for it."""
    settings: QuantSettings
    backends: tuple[str, ...] = ()
    """Backends that the variant is made for; empty: all that can read it."""
    planning: Planning | None = None
    repair_floor_db: float | None = None
    """Minimum accuracy of a repaired model, in dB."""

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
    """Size of the model with its external data."""
    external: tuple[str, ...] = ()
    """Files of external data, relative to the model's folder."""
    layers: dict[str, int] = {}
    """Number of layers of each kind, and of nodes of each operator."""
    imported: ImportProof | None = None


class Made(msgspec.Struct, frozen=True, tag="made"):
    step: Step
    """Step that was run, without the passes that were rolled back."""
    ledger: tuple[LedgerEntry, ...]
    seconds: float
    plans: Plans | None = None
    """Plans of a recipe that makes a variant for each backend in one go."""
