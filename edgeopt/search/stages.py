"""What each stage of a search works with, of what was asked for and what was prepared."""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from edgeopt.bench.instruments.energy import EnergyMeter
from edgeopt.events import Emit
from edgeopt.search.aim import Aim, aim_of
from edgeopt.search.clock import Clock
from edgeopt.search.delivering.delivery import Delivery
from edgeopt.search.delivering.golden import Golden
from edgeopt.search.delivering.proving import Proving
from edgeopt.search.delivering.report import Case
from edgeopt.search.making.gathering import PlanTerms
from edgeopt.search.making.ladder import Material
from edgeopt.search.making.made import Variants
from edgeopt.search.notes import Notes
from edgeopt.search.outcome import Candidate
from edgeopt.search.padding import graph_passes, kept_by
from edgeopt.search.prepare import Prepared, prepare
from edgeopt.search.racing.baseline import Baseline
from edgeopt.search.racing.callers import Room
from edgeopt.search.racing.energy import open_meter
from edgeopt.search.racing.entrants import Entering
from edgeopt.search.racing.loads import Plain
from edgeopt.search.racing.screen import Entry
from edgeopt.search.racing.space import Starts, courses_on, starts_on
from edgeopt.search.settings import Settings
from edgeopt.search.stopping import Ending


@dataclass(frozen=True, slots=True)
class Begun:
    """A search that has read what it was given."""

    aim: Aim
    prepared: Prepared
    clock: Clock
    notes: Notes
    meter: EnergyMeter | None
    """Of a search for the least energy."""


def begin(settings: Settings, folder: Path, stack: ExitStack, emit: Emit, begin_s: float) -> Begun:
    """`begin_s`: when the time that it may take began."""
    aim, notes = aim_of(settings), Notes(emit)
    prepared = prepare(settings, folder, stack, notes)
    meter = open_meter(aim.objective, prepared.profile.backends.order, stack)
    return Begun(aim, prepared, Clock(begin_s, prepared.limit_s), notes, meter)


def plain_of(model: Path, prepared: Prepared) -> Plain:
    given = prepared.given
    inputs = prepared.facts.inputs
    return Plain(model, inputs, given.samples, prepared.ground, prepared.standard, prepared.baseline)


def material_of(model: Path, prepared: Prepared, folder: Path) -> Material:
    given, profile = prepared.given, prepared.profile
    # With a mask in buckets, what is left out is cut off before the run, down to a size with a program of its own.
    is_cut = given.shaped is not None and bool(given.shaped.mask)
    kept = kept_by(prepared.facts.inputs, given.samples) if given.of_user and not is_cut else 1.0
    return Material(
        model=model,
        size_bytes=prepared.facts.size_bytes,
        samples_path=given.shaped.usual_path if given.shaped is not None else prepared.ground.samples_path,
        split=prepared.standard.split,
        of_user=given.of_user,
        profile=profile,
        kept=kept,
        passes=graph_passes(profile, kept),
        folder=folder,
    )


def plan_terms_of(aim: Aim, prepared: Prepared, floats_ms: Callable[[Candidate], float]) -> PlanTerms | None:
    """None where a plan, which saves time, is of no use."""
    if not aim.objective.of_time:
        return None
    given, standard = prepared.given, prepared.standard
    labels = None if given.labels is None else given.labels[: standard.split.prove_first]
    starts = starts_of(prepared)
    return PlanTerms(standard.goal, labels, lambda: courses_on(prepared.profile, starts, floats_ms))


def starts_of(prepared: Prepared) -> Starts:
    return starts_on(prepared.device, prepared.profile, prepared.facts.inputs, prepared.given.samples)


def entering_of(begun: Begun, baseline: Baseline, room: Room | None, stop: threading.Event) -> Entering:
    prepared = begun.prepared
    return Entering(
        ground=prepared.ground,
        standard=prepared.standard,
        limits=begun.aim.limits,
        baseline=baseline,
        starts=starts_of(prepared),
        most=prepared.profile.search.max_candidates,
        room=room,
        clock=begun.clock,
        stop=stop,
        notes=begun.notes,
    )


def delivery_of(
    settings: Settings,
    begun: Begun,
    baseline: Candidate,
    variants: Variants,
    entries: list[Entry],
    ending: Ending,
) -> Delivery:
    prepared, objective = begun.prepared, begun.aim.objective
    given, split, attached = prepared.given, prepared.standard.split, prepared.attached
    proving = Proving(
        ground=prepared.ground,
        standard=prepared.standard,
        objective=objective,
        model=settings.model,
        size_bytes=prepared.facts.size_bytes,
        baseline=baseline,
        today=prepared.today,
        samples=given.samples,
        shaped=given.shaped,
        meter=begun.meter,
        ending=ending,
        notes=begun.notes,
    )
    case = Case(
        model=settings.model,
        out=settings.out,
        goal=settings.goal,
        objective=objective,
        today=settings.baseline.name if settings.baseline is not None else None,
        facts=prepared.facts,
        device=prepared.device,
        profile=prepared.profile,
        baseline=baseline,
        limit_s=prepared.limit_s,
        calibration_count=split.calibration_count,
        processing=attached.processing if attached is not None else None,
    )
    golden = Golden(split, given.samples, given.raw, attached, begun.notes)
    return Delivery(begun.aim, case, proving, golden, attached, variants, entries, settings.single_file)
