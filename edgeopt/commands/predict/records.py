"""Records of a plan for an absent device; every time in the plan is predicted, and none was measured."""

from typing import Literal

import msgspec

from edgeopt.backends.base import TensorInfo
from edgeopt.commands.predict.latency import Latency
from edgeopt.graph.ledger import LedgerEntry
from edgeopt.pipeline.outcome import Candidate

SCHEMA = 1
VERDICT = "predicted"
Status = Literal["chosen", "baseline", "behind", "below the floor", "failed", "not planned"]


class PredictedCandidate(msgspec.Struct, frozen=True):
    """One candidate, or a variant that was left to the device."""

    candidate: Candidate
    status: Status
    reason: str
    latency: Latency | None = None
    """Predicted latency; None if it cannot be predicted."""
    accuracy_db: float | None = None
    accuracy_low_db: float | None = None
    """Lower bound of the accuracy on other samples, by resampling."""
    judged_with: str = ""
    """The backend that gave the answers here."""
    size_bytes: int | None = None


class PredictedOutcome(msgspec.Struct, frozen=True):
    """The plan: which candidate is predicted to be best, and on what that stands."""

    model: str
    model_digest: str
    bundle: str
    device: str
    target: str
    verdict: str
    """`predicted`, always: nothing here was measured on the device."""
    summary: str
    basis: str
    """The basis of the times, or why there are none."""
    floor_db: float
    winner: Candidate
    baseline: Candidate
    baseline_ms: float | None
    """Predicted latency of the baseline; None if nothing can be predicted."""
    latency: Latency | None
    speedup: float | None
    accuracy_db: float
    judged_with: str
    """The backend that gave the winner's answers here: accuracy is real, where times are not."""
    samples: int
    """The number of samples that judged the winner; with `set_aside`, nothing had used them before."""
    set_aside: bool
    finish: tuple[str, ...]
    """Steps to do on the device, one sentence each."""
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    candidates: tuple[PredictedCandidate, ...]
    ledger: tuple[LedgerEntry, ...] = ()
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0
    schema: int = SCHEMA
