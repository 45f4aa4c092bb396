"""Everything that a search needs before its first candidate: model, data, device, target, baseline."""

from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from edgeopt.backends import backend_named
from edgeopt.bench.host import LocalHost
from edgeopt.bundle.read import Bundle
from edgeopt.data import Samples, open_samples, save_samples
from edgeopt.data.regimes.covered import alike_inputs
from edgeopt.data.regimes.levels import Levels
from edgeopt.data.split import split
from edgeopt.errors import DataError, MissingError, ModelError
from edgeopt.events import Progress
from edgeopt.graph.files.sniff import check_file
from edgeopt.graph.verify import compare_outputs
from edgeopt.hw.device import Device, Unavailable
from edgeopt.hw.probe import probe
from edgeopt.judging.budgets import BUDGETS_DB
from edgeopt.judging.goals import Goal
from edgeopt.judging.labels import labels_for
from edgeopt.judging.metrics import Labels
from edgeopt.processing.attach import Attached, attach
from edgeopt.processing.data import samples_from, try_after
from edgeopt.profiles import TargetProfile
from edgeopt.search.making.messages import Inspected
from edgeopt.search.making.variants import Maker, inspect
from edgeopt.search.notes import Notes
from edgeopt.search.racing.baseline import PROCESSOR, Baseline, first_running, judge_for
from edgeopt.search.racing.ground import Ground, outputs_of
from edgeopt.search.racing.standard import Answers, Standard
from edgeopt.search.settings import Settings, time_limit_for
from edgeopt.search.shapes.bucketing import check_shape, explained, settle_buckets, shaped_samples
from edgeopt.search.shapes.sized import Shaped
from edgeopt.search.today import running_today
from edgeopt.targets import DoesNotFit, fit, planned_names, profile_for, without_planned

_GENERATED_SAMPLES = 16


@dataclass(frozen=True, slots=True)
class Given:
    """What there is to run the model on."""

    samples: Samples
    """As the model takes them; of all sizes where several were asked for."""
    of_user: bool
    """They are the user's, not generated."""
    raw: Samples | None = None
    """What they were made of by what the bundle is to do before the model, where the user gave that."""
    labels: Labels | None = None
    shaped: Shaped | None = None
    """The sizes that were asked for, and what is made of them."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is known of model, data and device before anything is made of them."""

    device: Device
    profile: TargetProfile
    facts: Inspected
    given: Given
    ground: Ground
    standard: Standard
    baseline: Baseline
    today: Bundle | None
    """What runs today, where that was given."""
    attached: Attached | None
    """What the bundle is to do before and after the model."""
    maker: Maker
    limit_s: float
    """For the whole search."""


def prepare(settings: Settings, folder: Path, stack: ExitStack, notes: Notes) -> Prepared:
    """Reads, checks and starts; raises the first thing that is wrong with what was given."""
    check_shape(settings)
    device = probe()
    asked = profile_for(device, settings.target, settings.profile)
    profile, absent = _with_what_is_here(
        without_planned(asked), is_named=bool(settings.target or settings.profile)
    )
    notes.emit(Progress("reading the model", settings.model.name))
    check_file(settings.model)  # before a process is started that would have to end again
    ground = Ground(LocalHost(folder), folder, folder / "samples")
    maker = Maker(ground.host)
    stack.callback(maker.close)
    made_up = folder / "generated"
    facts = inspect(maker, settings.model, made_up, _GENERATED_SAMPLES)
    attached = attach(settings.pre, settings.post, facts.inputs, facts.outputs)
    given = _given(settings, facts, profile, attached, folder, notes)
    save_samples(given.samples, ground.samples_path)
    baseline = first_running(ground, settings.model, profile.backends.order)
    stack.callback(baseline.contender.close)
    standard = _standard(settings, given, ground, baseline, attached)
    today = None if settings.baseline is None else running_today(settings.baseline, facts, ground, maker)
    if planned_names(asked):
        notes.warn(f"Left out, as this version of edgeopt has them not yet: {', '.join(planned_names(asked))}.")
    for name, reason in absent.items():
        notes.warn(f"The backend {name} is left out, as it cannot be used here: {reason}.")
    misfit = fit(device, profile)
    if isinstance(misfit, DoesNotFit):
        notes.warn(f"The target {profile.name} does not fit this device: {misfit.reason}.")
    _warn_of_the_data(given, standard, notes)
    if given.shaped is not None:
        others = open_samples(made_up) if given.of_user else None
        shaped = settle_buckets(given.shaped, ground, settings.model, baseline.candidate, others, notes)
        given = replace(given, shaped=shaped)
    limit_s = settings.time_limit_s or time_limit_for(facts.size_bytes, profile.search.time_limit_s)
    return Prepared(
        device=device,
        profile=profile,
        facts=facts,
        given=given,
        ground=ground,
        standard=standard,
        baseline=baseline,
        today=today,
        attached=attached,
        maker=maker,
        limit_s=limit_s,
    )


def _given(
    settings: Settings,
    facts: Inspected,
    profile: TargetProfile,
    attached: Attached | None,
    folder: Path,
    notes: Notes,
) -> Given:
    if settings.data is not None:
        place = folder / "attached"
        samples, raw = samples_from(settings.data, facts.inputs, profile.data, attached, place, notes.emit)
    else:
        samples, raw = open_samples(folder / "generated"), None
    shaped = shaped_samples(settings, facts, samples, folder)
    taken = shaped.samples if shaped else samples
    return Given(taken, settings.data is not None, raw, _labels(settings, taken), shaped)


def _standard(
    settings: Settings, given: Given, ground: Ground, baseline: Baseline, attached: Attached | None
) -> Standard:
    """By the source model, which must answer the same twice."""
    chosen = split(len(given.samples), given.of_user)
    first, count = chosen.check_first, chosen.check_count
    with (
        explained(given.shaped),
        judge_for(ground, baseline.contender, baseline.candidate.backend, settings.model) as judge,
    ):
        reference = outputs_of(ground.folder, judge, first, count)
        try_after(attached, reference[0], ground.folder / "attached")
        again = outputs_of(ground.folder, judge, first, count)
    _check_steady(reference, again, settings.goal)
    return Standard(chosen, settings.goal, reference, Levels(given.samples), given.labels)


def _check_steady(reference: Answers, again: Answers, goal: Goal) -> None:
    steady = compare_outputs(reference, again)
    if steady.problem or steady.snr_db < (goal.target_db or BUDGETS_DB["transparent"]):
        raise ModelError(
            f"The model answers the same inputs differently each time ({steady.snr_db:.1f} dB apart), "
            "so no variant of it can be checked.",
            "Take the random operators out, or fix their seeds, and export it again.",
        )


def _labels(settings: Settings, samples: Samples) -> Labels | None:
    if settings.data is not None:
        return labels_for(settings.goal.kind, settings.data, samples, settings.labels)
    if settings.goal.kind.needs_labels:
        raise DataError(
            f"The metric '{settings.goal.metric}' needs labels.", "Give data that has them, with --data."
        )
    return None


def _with_what_is_here(profile: TargetProfile, *, is_named: bool) -> tuple[TargetProfile, dict[str, str]]:
    """Without the backends for accelerators that cannot be used here, and why; the processor's say so themselves.

    MissingError where the user named a profile that is about one of them.
    """
    states = {name: backend_named(name).available() for name in profile.backends.order if name not in PROCESSOR}
    absent = {name: state.reason for name, state in states.items() if isinstance(state, Unavailable)}
    first = profile.backends.order[0]
    if first in absent and is_named:
        raise MissingError(
            f"The backend {first}, which {profile.name} is about, cannot be used here: {absent[first]}.",
            "See what can: edgeopt backends. Without --target, a search uses what fits this device.",
        )
    order = tuple(name for name in profile.backends.order if name not in absent)
    backends = msgspec.structs.replace(profile.backends, order=order)
    return msgspec.structs.replace(profile, backends=backends), absent


def _warn_of_the_data(given: Given, standard: Standard, notes: Notes) -> None:
    samples, reference = given.samples, standard.reference
    if not given.of_user:
        notes.warn(
            "No data was given: only exact rewrites and float precisions are tried, on generated inputs. "
            "With --data, 8-bit variants can be tried and checked."
        )
    elif not standard.split.calibration_count:
        notes.warn(f"{len(samples)} samples are too few to calibrate and to check apart; 8-bit needs 12.")
    for one in alike_inputs(samples) if given.of_user else ():
        notes.warn(one.warning)
    for output in compare_outputs(reference, reference).outputs:
        if output.silent:
            notes.warn(
                f"The output '{output.name}' is as good as zero on all samples, so no variant's accuracy can be "
                "judged by it. Check the model and the data."
            )
    if samples.ignored:
        notes.warn(f"The data also holds {', '.join(samples.ignored)}, which is no input of the model.")
