"""The ledger of the winner as rows: each pass, what it changed, what it left and why."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from edgeopt.graph.ledger import LedgerEntry

if TYPE_CHECKING:
    from edgeopt.pipeline.outcome import Outcome

Did = Literal["applied", "refused", "rolled back", "nothing to do"]
_MAX_NODES_SHOWN = 12


@dataclass(frozen=True, slots=True)
class LedgerRow:
    position: int
    pass_name: str
    did: Did
    what: str
    nodes: tuple[str, ...]
    nodes_before: int
    nodes_after: int

    @property
    def count(self) -> str:
        """Nodes before → after, if the pass changed their number."""
        same = self.nodes_before == self.nodes_after
        return f"{self.nodes_after:,}" if same else f"{self.nodes_before:,} → {self.nodes_after:,}"

    @property
    def details(self) -> str:
        nodes = ", ".join(self.nodes[:_MAX_NODES_SHOWN])
        more = len(self.nodes) - _MAX_NODES_SHOWN
        named = f": {nodes}{f' and {more:,} more' if more > 0 else ''}" if nodes else ""
        return (
            f"{self.pass_name}, {self.did}: {self.what}{named}" if self.what else f"{self.pass_name}: {self.did}"
        )


def ledger_rows(result: "Outcome") -> tuple[LedgerRow, ...]:
    """Returns the passes of the winner, after those of the cleaned model from which it was made."""
    variant, backend = result.winner.variant, result.winner.backend
    names = {variant} | ({"cleaned"} if variant != "source" else set())
    made = [v for v in result.variants if v.name in names and (not v.backends or backend in v.backends)]
    entries = [entry for v in made for entry in v.ledger]
    rows: list[LedgerRow] = []
    for entry in entries:
        for did, what, nodes in _outcomes(entry):
            before, after = entry.nodes_before, entry.nodes_after
            rows.append(LedgerRow(len(rows), entry.pass_name, did, what, nodes, before, after))
    return tuple(rows)


def _outcomes(entry: LedgerEntry) -> Iterator[tuple[Did, str, tuple[str, ...]]]:
    if entry.rolled_back is not None:
        yield "rolled back", entry.rolled_back, ()
    else:
        for change in entry.applied:
            yield "applied", change.what, change.nodes
    for refusal in entry.refused:
        yield "refused", refusal.reason, refusal.nodes
    if not (entry.applied or entry.refused or entry.rolled_back is not None):
        yield "nothing to do", "", ()
