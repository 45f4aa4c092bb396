"""What the last stage of a search works with: what is to be delivered, and what the races left."""

from dataclasses import dataclass

from edgeopt.bundle.processing.attach import Attached
from edgeopt.search.aim import Aim
from edgeopt.search.delivering.golden import Golden
from edgeopt.search.delivering.proving import Means, Proving, Written, measured, unchanged
from edgeopt.search.delivering.report import Case, Told, outcome_of
from edgeopt.search.making.made import Variants
from edgeopt.search.outcome import Candidate, Outcome, Proof
from edgeopt.search.racing.screen import Entry


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery: the source model, the goal and the baseline of its proof."""

    aim: Aim
    case: Case
    proving: Proving
    golden: Golden
    attached: Attached | None
    """What the bundle is to do before and after the model."""
    single_file: bool
    """The bundle becomes one file instead of a folder."""


@dataclass(frozen=True, slots=True)
class Raced:
    """The state after the races: the variants, all candidates, and what a proof needs."""

    variants: Variants
    entries: list[Entry]
    means: Means


def prove(delivery: Delivery, means: Means, bundle: Written, legs: int) -> Proof:
    """Measures a bundle as it was written, and adds golden samples from that; no `legs`: it runs the baseline."""
    found = measured(delivery.proving, means, bundle, legs) if legs else unchanged(delivery.proving, means, bundle)
    delivery.golden.put(bundle.folder, found.outputs, found.reference, means.notes)
    return found.proof


def outcome_for(delivery: Delivery, raced: Raced, winner: Candidate, proof: Proof) -> Outcome:
    """What the search found, as of now."""
    ending = raced.means.ending
    told = Told(raced.means.notes.kept, ending.cut_short, ending.clock.spent_s, ending.unproved)
    return outcome_of(delivery.case, raced.variants, raced.entries, winner, proof, told)
