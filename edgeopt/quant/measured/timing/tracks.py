"""The courses on which a plan is worth a look: what floats reach there, and what each form of each layer saves."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edgeopt.errors import EdgeoptError
from edgeopt.events import Log, Progress
from edgeopt.graph.accuracy import SILENT_POWER, Accuracy, compare_outputs
from edgeopt.quant.forms import Form
from edgeopt.quant.measured.planning.entry import GROUPED, WEIGHTS_ALONE, settings_for
from edgeopt.quant.measured.study import forms_for
from edgeopt.quant.measured.timing.courses import GROUP_SIZES, GROUPS, OPENVINO, Course, is_inexact
from edgeopt.quant.measured.timing.gains import PHASE, Timed, time_forms
from edgeopt.quant.measured.work import Work
from edgeopt.quant.records import Gain

# Until these shares of the time limit are used up, another course is timed, and timed a second time.
_TIMING_ENDS, _SECOND_TURN_ENDS = 0.5, 0.3
# Decibels that a few unchanged layers win back, which costs less than smaller groups for all.
_GIVEN_BACK_DB = 2.0
# Groups of 32 are more exact than groups of 128 by no more than this.
_OUT_OF_REACH_DB = 4.0
# A weight that is used so seldom in a run takes longer to read than to use.
_FEW_USES = 8
# Differences between timings of the same model, for all its layers and for one.
_LEAST_OF_ALL, _LEAST_OF_LAYER = 0.03, 0.05


@dataclass(frozen=True, slots=True)
class Track:
    """One course, on the way to a plan."""

    course: Course
    timed: Timed
    forms: Mapping[str, tuple[str, ...]]
    """By layer, those that may save something there."""
    base_db: float | None = None
    """What floats reach, where they are rounded too."""
    base: tuple[float, ...] = ()
    """The same as noise over signal at each output."""

    @property
    def best_ms(self) -> float:
        """With every layer in its quickest form, whatever that costs."""
        saves: dict[str, float] = {}
        for gain in self.timed.gains:
            saves[gain.layer] = max(saves.get(gain.layer, 0.0), gain.saves_ms)
        return self.timed.float_ms - sum(saves.values())


def tracks_of(work: Work) -> list[Track]:
    """Those on which something fits and floats are exact enough, the quickest at best first."""
    found: list[Track] = []
    for course in work.courses:
        if found and work.left_s(_TIMING_ENDS) < 0:
            work.warn(f"{course.name} was skipped within the time limit; a longer one includes it.")
            continue
        try:
            track = _track(work, course)
        except EdgeoptError as error:
            work.warn(f"{course.name} was skipped: {error.message}")
            continue
        if track is not None:
            found.append(track)
    return sorted(found, key=lambda track: track.best_ms)


def _track(work: Work, course: Course) -> Track | None:
    base_db: float | None = None
    base: tuple[float, ...] = ()
    if is_inexact(course):
        accuracy, met = _floats(work, course)
        base_db, base = accuracy.snr_db, noise_of(accuracy)
        if not met:
            said = f"float itself reaches only {base_db:.1f} dB there"
            work.emit(Log("info", f"{course.name} is skipped: {said}."))
            return None
    forms = forms_for(course.backend, bool(work.study.known.ranges))
    settled = _grouped(work, course, forms)
    fitting = _fitting(work, settled, forms)
    if not fitting:
        return None
    timed = _timed(work, settled, fitting)
    for warning in timed.warnings:
        work.warn(warning)
    return Track(settled, timed, worth(timed), base_db, base)


def _fitting(work: Work, course: Course, forms: tuple[Form, ...]) -> dict[str, tuple[str, ...]]:
    """By layer, the forms to try: weights alone only where each is read a few times, and memory is what limits.

    Not beside groups: OpenVINO has one option for the whole model.
    """
    fitting = work.study.forms(course.backend, forms, **settings_for(course))
    few = {layer.name for layer in work.study.layers if layer.multiply_adds <= _FEW_USES * layer.parameters}
    grouped = bool(course.options.get(GROUPS))
    return {
        name: kept
        for name, some in fitting.items()
        if (kept := tuple(f for f in some if f not in WEIGHTS_ALONE or (name in few and not grouped)))
    }


def _floats(work: Work, course: Course) -> tuple[Accuracy, bool]:
    """What the float model reaches there on the samples that plan, and whether that meets the goal."""
    given, study, goal = work.given, work.study, work.request.goal
    got = work.runs.outputs(study.path, course.backend, course.options, given.feeds(given.plan))
    reference = study.reference_of(given.plan)
    judged = goal.judge(got, reference, given.labels_of(given.plan), given.levels.of(given.plan))
    return compare_outputs(reference, got), goal.met(judged)


def noise_of(accuracy: Accuracy) -> tuple[float, ...]:
    """Over the signal, at each output."""
    return tuple(
        math.inf if output.problem else sum(output.noise_power) / max(sum(output.signal_power), SILENT_POWER)
        for output in accuracy.outputs
    )


def _grouped(work: Work, course: Course, forms: tuple[Form, ...]) -> Course:
    """With the largest groups of activations, so the quickest, with which all layers nearly meet the goal."""
    grouped = next((form for form in forms if form.name == GROUPED), None)
    if grouped is None or course.backend != OPENVINO or GROUPS in course.options:
        return course
    if not work.study.forms(course.backend, (grouped,)):
        return course
    goal, tried = work.request.goal, course
    for size in GROUP_SIZES:
        before, tried = tried, course.having(**{GROUPS: size})
        work.emit(Progress(PHASE, f"groups of {size} on {course.name}"))
        try:
            fitting = work.study.forms(course.backend, (grouped,), **settings_for(tried))
            path = _uniform(work, tried, GROUPED, fitting)
            judged = work.judge.judged(path, tried, work.given.plan)
        except EdgeoptError as error:
            work.emit(Log("info", f"Groups of {size} do not run on {course.name}: {error.message}"))
            return before
        if goal.met(judged) or (goal.is_ratio and goal.needed - goal.score(judged)[1] <= _GIVEN_BACK_DB):
            return tried
        if goal.is_ratio and goal.needed - goal.score(judged)[1] > _OUT_OF_REACH_DB:
            return course.having(**{GROUPS: GROUP_SIZES[-1]})
    return tried


def _uniform(work: Work, course: Course, form: str, fitting: Mapping[str, tuple[str, ...]]) -> Path:
    """The model with all layers in a form that it fits, written once for all courses of a backend."""
    path = work.folder / f"all-{course.backend}-{form}-{course.options.get(GROUPS, '')}.onnx"
    if not path.exists():
        choices = {layer: form for layer, forms in fitting.items() if form in forms}
        work.study.save_written(choices, course.backend, path, **settings_for(course))
    return path


def _timed(work: Work, course: Course, fitting: Mapping[str, tuple[str, ...]]) -> Timed:
    """Each form on all layers that it fits, against float."""
    study = work.study
    written: dict[str, Path] = {}
    for form in dict.fromkeys(form for forms in fitting.values() for form in forms):
        try:
            written[form] = _uniform(work, course, form, fitting)
        except EdgeoptError as error:
            work.warn(f"The scheme {form} is skipped on {course.backend}: {error.message}")
    feeds = work.given.samples.feeds(work.given.plan.start)
    with study.phase(PHASE, course.name):
        return time_forms(
            *(study.path, written, study.layers, course.backend, course.options, feeds, work.emit, work.device),
            until=work.begin_s + _SECOND_TURN_ENDS * work.limit_s,
            sources=work.sources,
        )


def worth(timed: Timed) -> dict[str, tuple[str, ...]]:
    """By layer, the forms that save more than two timings of the same differ by.

    A form that saves next to nothing on all layers together is none; one layer of it may be slower if its
    conversions fall away between neighbours.
    """
    saved: dict[str, float] = {}
    for gain in timed.gains:
        saved[gain.form] = saved.get(gain.form, 0.0) + max(0.0, gain.saves_ms)
    found: dict[str, list[str]] = {}
    for gain in timed.gains:
        if saved[gain.form] < _LEAST_OF_ALL * timed.float_ms:
            continue
        if gain.saves_ms + gain.boundary_ms > _LEAST_OF_LAYER * gain.float_ms:
            found.setdefault(gain.layer, []).append(gain.form)
    return {layer: tuple(forms) for layer, forms in found.items()}


def unfit_reasons(work: Work, track: Track) -> dict[str, str]:
    """Why a layer has no form there, as the end of a sentence."""
    context = work.study.context(track.course.backend, **settings_for(track.course))
    forms = forms_for(track.course.backend, bool(work.study.known.ranges))
    gains: dict[str, list[Gain]] = {}
    for gain in track.timed.gains:
        gains.setdefault(gain.layer, []).append(gain)
    found = {}
    for layer in work.study.layers:
        if layer.name in track.forms:
            continue
        said = [layer.reason, *(form.fits(layer, context) for form in forms)]
        found[layer.name] = next((each for each in said if each), "it is not faster in any scheme here")
    return found
