"""What each stage of a search works with, of what was asked for and what was prepared."""

from collections.abc import Callable
from pathlib import Path

from edgeopt.hw.device import Device
from edgeopt.search.aim import Aim
from edgeopt.search.delivering.delivery import Delivery
from edgeopt.search.delivering.golden import Golden
from edgeopt.search.delivering.proving import Proving, Rivals
from edgeopt.search.delivering.report import Case
from edgeopt.search.making.gathering import PlanTerms
from edgeopt.search.making.ladder import Material
from edgeopt.search.objectives import Objective
from edgeopt.search.outcome import Candidate
from edgeopt.search.padding import graph_passes, kept_by
from edgeopt.search.place import Place
from edgeopt.search.prepare import Prepared
from edgeopt.search.racing.space import courses_on
from edgeopt.search.settings import Settings


def material_of(model: Path, prepared: Prepared, place: Place) -> Material:
    given, profile, facts, ground = prepared.given, prepared.profile, prepared.facts, place.ground
    # With a mask in buckets, what is left out is cut off before the run, down to a size with a program of its own.
    is_cut = given.shaped is not None and bool(given.shaped.mask)
    kept = kept_by(facts.inputs, given.samples) if given.of_user and not is_cut else 1.0
    return Material(
        model=model,
        size_bytes=facts.size_bytes,
        samples_path=given.shaped.usual_path if given.shaped is not None else ground.samples_path,
        split=given.split,
        of_user=given.of_user,
        profile=profile,
        kept=kept,
        passes=graph_passes(profile, kept),
        floor_db=prepared.standard.goal.target_db,
        limit_s=prepared.limit_s,
        operators=facts.operators,
        folder=ground.folder / "variants",
    )


def plan_terms_of(
    objective: Objective, prepared: Prepared, floats_ms: Callable[[Candidate], float]
) -> PlanTerms | None:
    """None where a plan, which saves time, is of no use."""
    if not objective.of_time:
        return None
    standard, profile, starts = prepared.standard, prepared.profile, prepared.starts
    labels = None if standard.labels is None else standard.labels[: standard.split.prove_first]
    return PlanTerms(standard.goal, labels, lambda: courses_on(profile, starts, floats_ms))


def delivery_of(settings: Settings, aim: Aim, prepared: Prepared, device: Device, baseline: Candidate) -> Delivery:
    given, facts, attached = prepared.given, prepared.facts, prepared.attached
    rivals = Rivals(settings.model, facts.size_bytes, baseline, prepared.today)
    case = Case(
        model=settings.model,
        out=settings.out,
        goal=settings.goal,
        objective=aim.objective,
        today=settings.baseline.name if settings.baseline is not None else None,
        facts=facts,
        device=device,
        profile=prepared.profile,
        baseline=baseline,
        limit_s=prepared.limit_s,
        calibration_count=given.split.calibration_count,
        processing=attached.processing if attached is not None else None,
    )
    proving = Proving(prepared.standard, aim.objective, rivals, given.samples, given.shaped)
    golden = Golden(given.split, given.samples, given.raw, attached)
    return Delivery(aim, case, proving, golden, attached, settings.single_file)
