"""How a candidate was made from the source model, step by step, so that a replay makes the same."""

import msgspec

from edgeopt.bundle.deployment import Step
from edgeopt.graph.ledger import Ledger
from edgeopt.profiles import TargetProfile
from edgeopt.search.making.lowering import NAME as LOWERED
from edgeopt.search.making.made import Variants
from edgeopt.search.outcome import Candidate

CLEANED = "cleaned"


def steps_of(
    variants: Variants, candidate: Candidate, profile: TargetProfile, calibration_count: int
) -> list[Step]:
    if candidate.variant == "source":
        return []
    cleaning = _cleaning(variants, candidate.backend)
    if candidate.variant == CLEANED:
        return cleaning
    if candidate.variant == LOWERED:
        names = [*dict.fromkeys(profile.lowerings[candidate.backend])]
        return [*cleaning, Step(LOWERED, {"lowerings": _kept(names, variants, LOWERED, candidate.backend)})]
    made = variants.planned(candidate)
    if made is None:
        return [*cleaning, Step(candidate.variant)]
    settings = {"calibration_samples": calibration_count, **msgspec.structs.asdict(made.settings)}
    return [*cleaning, Step(candidate.variant, settings, made.forms)]


def record_of(variants: Variants, candidate: Candidate) -> bytes | None:
    """What calibration found for it; None where nothing was quantized."""
    from edgeopt.quant.recorded import encoded

    made = variants.planned(candidate)
    return encoded(made.recorded) if made is not None and made.recorded is not None else None


def ledger_of(variants: Variants, candidate: Candidate) -> Ledger:
    """The passes behind a candidate: those of its variant, after those of the cleaned model it started from."""
    return tuple(entry for one in variants.reports if one.is_of(candidate) for entry in one.ledger)


def _cleaning(variants: Variants, backend: str) -> list[Step]:
    """Nothing where no exact rewrite applied: then all starts from the source itself."""
    if not variants.has(CLEANED, backend):
        return []
    return [Step(CLEANED, {"passes": _kept(list(variants.passes), variants, CLEANED, backend)})]


def _kept(names: list[str], variants: Variants, variant: str, backend: str) -> list[str]:
    """Without those that were rolled back: they changed the numbers of this model."""
    reports = [one for one in variants.reports if one.name == variant and backend in (one.backends or (backend,))]
    entries = [entry for one in reports for entry in one.ledger]
    undone = {entry.pass_name for entry in entries if entry.rolled_back}
    # One that was taken back in one round may have done its work in another.
    stayed = {entry.pass_name for entry in entries if not entry.rolled_back}
    return [name for name in names if name not in undone - stayed]
