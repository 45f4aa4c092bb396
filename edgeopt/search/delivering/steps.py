"""How a candidate was made from the source model, step by step, so that a replay makes the same."""

import msgspec

from edgeopt.bundle.deployment import Step
from edgeopt.search.field import Field
from edgeopt.search.making.lowering import NAME as LOWERED
from edgeopt.search.outcome import Candidate
from edgeopt.search.prepare import Search

CLEANED = "cleaned"


def steps_of(search: Search, field: Field, candidate: Candidate) -> list[Step]:
    if candidate.variant == "source":
        return []
    cleaning = _cleaning(field)
    if candidate.variant == CLEANED:
        return cleaning
    if candidate.variant == LOWERED:
        return [*cleaning, Step(LOWERED, {"lowerings": _lowerings(search, field, candidate)})]
    made = field.quantized.get((candidate.variant, candidate.backend))
    if made is None:
        return [*cleaning, Step(candidate.variant)]
    settings = {
        "calibration_samples": search.course.split.calibration_count,
        **msgspec.structs.asdict(made.settings),
    }
    return [*cleaning, Step(candidate.variant, settings, made.forms)]


def record_of(field: Field, candidate: Candidate) -> bytes | None:
    """What calibration found for it; None where nothing was quantized."""
    from edgeopt.quant.recorded import encoded

    made = field.quantized.get((candidate.variant, candidate.backend))
    return encoded(made.recorded) if made is not None and made.recorded is not None else None


def _cleaning(field: Field) -> list[Step]:
    """Nothing where no exact rewrite applied: then all starts from the source itself."""
    if (CLEANED, "") not in field.paths:
        return []
    return [Step(CLEANED, {"passes": _kept(list(field.passes), field, CLEANED, "")})]


def _lowerings(search: Search, field: Field, candidate: Candidate) -> list[str]:
    names = dict.fromkeys(search.profile.lowerings[candidate.backend])
    return _kept(list(names), field, LOWERED, candidate.backend)


def _kept(names: list[str], field: Field, variant: str, backend: str) -> list[str]:
    """Without those that were rolled back: they changed the numbers of this model."""
    reports = [one for one in field.variants if one.name == variant and backend in (one.backends or ("",))]
    entries = [entry for one in reports for entry in one.ledger]
    undone = {entry.pass_name for entry in entries if entry.rolled_back}
    # One that was taken back in one round may have done its work in another.
    stayed = {entry.pass_name for entry in entries if not entry.rolled_back}
    return [name for name in names if name not in undone - stayed]
