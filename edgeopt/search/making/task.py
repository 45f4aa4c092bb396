"""What a recipe works with: the files, the samples and the settings of one variant to be made."""

from dataclasses import dataclass
from pathlib import Path

from edgeopt.data.samples import Samples
from edgeopt.quant.settings import QuantSettings
from edgeopt.search.making.plans import Planning


@dataclass(frozen=True, slots=True)
class Task:
    """One variant to be made."""

    source: Path
    base: Path
    """The cleaned model, or the source where cleaning failed."""
    out: Path
    check_samples: Samples
    calibration: Samples | None
    """Samples that may be used to calibrate; None where the user gave no data."""
    settings: QuantSettings
    passes: tuple[str, ...] | None = None
    """The graph passes to run; None for all."""
    backends: tuple[str, ...] = ()
    """Those that the variant is made for; empty: all that read it."""
    lowerings: tuple[str, ...] = ()
    """What the profile lists for these."""
    samples: Samples | None = None
    """All that calibrate or check, those that calibrate first; the ones that prove are not among them."""
    planning: Planning | None = None
    """What a plan of precisions must hold to."""
    floor_db: float | None = None
    """Of a variant that is made to hold it."""
    limit_s: float = 0.0
    """How long making that may take."""
