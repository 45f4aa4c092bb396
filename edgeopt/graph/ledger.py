"""The ledger: every pass tried on a model, what it changed, and why it did not apply elsewhere."""

import msgspec


class Change(msgspec.Struct, frozen=True):
    what: str
    nodes: tuple[str, ...] = ()


class Refusal(msgspec.Struct, frozen=True):
    reason: str
    nodes: tuple[str, ...] = ()


def promised_inputs(finite_only: bool, nonempty_only: bool) -> str:
    """The inputs for which the results stay the same, where that is not all."""
    kinds = [*(["finite"] if finite_only else []), *(["non-empty"] if nonempty_only else [])]
    return f"{' and '.join(kinds)} inputs only" if kinds else ""


class LedgerEntry(msgspec.Struct, frozen=True):
    pass_name: str
    applied: tuple[Change, ...] = ()
    refused: tuple[Refusal, ...] = ()
    nodes_before: int = 0
    nodes_after: int = 0
    rolled_back: str | None = None
    """Why the pass was undone after it ran, where it was."""
    wrong_in: str = ""
    """The backend whose results it changes, where those of the one that judges stay; set in searches."""
    seconds: float = 0.0
    snr_db: float | None = None
    """The outputs against the source model's after this pass, where that was measured."""
    max_abs: float | None = None
    """The largest difference of the outputs after this pass, where that was measured."""
    tolerance_db: float | None = None
    """What the pass promises: outputs keep at least this ratio; None: they stay the same to the last bit."""
    finite_only: bool = False
    """The pass changed something, and keeps the results for finite inputs alone, without -0."""
    nonempty_only: bool = False
    """The pass changed something, and where an open dimension is 0 the result may fail or differ."""
    gain: float | None = None
    """How much faster the model became by this pass, where that was measured."""


Ledger = tuple[LedgerEntry, ...]
