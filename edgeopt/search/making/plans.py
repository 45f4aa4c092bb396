"""What is asked of the planning of precision, and what comes of it."""

import msgspec

from edgeopt.data.judging.goals import Goal
from edgeopt.graph.ledger import LedgerEntry
from edgeopt.profiles import TargetProfile
from edgeopt.quant.measured.timing.courses import Course, OptionValue
from edgeopt.quant.recorded import Recorded
from edgeopt.quant.settings import QuantSettings

PLANNED = "planned"
"""The recipe of these."""


class Planning(msgspec.Struct, frozen=True):
    """What a plan must hold to."""

    courses: tuple[Course, ...]
    """The backends with the options that each candidate has there, and every precision that the profile allows."""
    goal: Goal
    limit_s: float
    """The time after which unplanned backends are left out."""
    profile: TargetProfile
    labels: bytes = b""
    """Of all samples that calibrate or check, as an .npy file holds them."""


class Planned(msgspec.Struct, frozen=True):
    """One variant: a model for one backend, which holds with these options."""

    backend: str
    options: dict[str, OptionValue]
    path: str
    ledger: tuple[LedgerEntry, ...]
    forms: dict[str, list[str]]
    """Form, the layers that have it; all others are float."""
    settings: QuantSettings = QuantSettings()
    """With which the forms were written."""
    recorded: Recorded | None = None
    """What it takes to write the same model again without data."""


class Plans(msgspec.Struct, frozen=True):
    variants: tuple[Planned, ...]
    covered: tuple[str, ...]
    """The backends on which every layer was timed in every form: one form for all layers has no chance there."""
    reason: str = ""
    """Why there is none, as a sentence."""
    ledger: tuple[LedgerEntry, ...] = ()
    """The layers, if there is no plan."""
