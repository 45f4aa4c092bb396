"""Ledger of the passes tried on a model: their changes, and why they did not apply elsewhere."""

import msgspec


class Change(msgspec.Struct, frozen=True):
    what: str
    nodes: tuple[str, ...] = ()


class Refusal(msgspec.Struct, frozen=True):
    reason: str
    nodes: tuple[str, ...] = ()


def promised_inputs(finite_only: bool, nonempty_only: bool) -> str:
    """Describes the inputs for which the results stay the same; empty if that is all inputs."""
    kinds = [*(["finite"] if finite_only else []), *(["non-empty"] if nonempty_only else [])]
    return f"{' and '.join(kinds)} inputs only" if kinds else ""


class LedgerEntry(msgspec.Struct, frozen=True):
    pass_name: str
    applied: tuple[Change, ...] = ()
    refused: tuple[Refusal, ...] = ()
    nodes_before: int = 0
    nodes_after: int = 0
    rolled_back: str | None = None
    """Reason why the pass was undone; None if it was not."""
    wrong_in: str = ""
    """Backend whose results the pass changes while the reference backend's stay the same; set in searches."""
    seconds: float = 0.0
    snr_db: float | None = None
    """SNR of the outputs relative to the source model after this pass, in dB; None if not measured."""
    max_abs: float | None = None
    """Largest difference of the outputs after this pass; None if not measured."""
    tolerance_db: float | None = None
    """Lowest SNR of the outputs that the pass promises, in dB; None if outputs stay the same to the last bit."""
    finite_only: bool = False
    """Whether the pass changed something and keeps the results for finite inputs without -0 only."""
    nonempty_only: bool = False
    """Whether the pass changed something and the result may fail or differ if an open dimension is 0."""
    gain: float | None = None
    """Speedup by this pass; None if not measured."""


Ledger = tuple[LedgerEntry, ...]
