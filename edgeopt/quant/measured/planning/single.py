"""One form for every layer that it fits: `--method int8` and its like."""

from edgeopt.errors import DataError, EdgeoptError, UsageError
from edgeopt.events import Progress
from edgeopt.quant.forms import Form, form_named
from edgeopt.quant.measured.planning.entry import GROUPED, Entry, settings_for, write_entry
from edgeopt.quant.measured.proving.finish import fastest, finish
from edgeopt.quant.measured.records import Quantized
from edgeopt.quant.measured.timing.courses import GROUPS, OPENVINO, Course
from edgeopt.quant.measured.work import Work, why_none
from edgeopt.quant.records import FLOAT, Plan, Point, Verdict


def single(work: Work) -> Quantized:
    """The quickest that meets the goal, measured; where none does, the one that comes nearest, to be told."""
    form = form_named(work.request.method)
    if form.needs_ranges and not len(work.given.calibrate):
        raise DataError(
            f"The method {form.name} calibrates activation ranges on samples, but there are none.",
            "Give some with --data, or choose int8-dynamic, w8 or another method without calibration.",
        )
    entries, reasons = proved_entries(work, form)
    if not entries:
        said = " ".join(f"{reason.rstrip('.')}." for reason in reasons)
        raise UsageError(
            f"The method {form.name} cannot be used on this model. {said}",
            "Choose another method, or let `--method plan` choose a scheme for each layer.",
        )
    for reason in reasons:
        work.warn(f"Skipped: {reason}")
    good = [each for each in entries if work.judge.met(each.proof)]
    best = fastest(work, good) if good else max(entries, key=lambda each: work.judge.score(each.proof))
    return finish(work, best)


def proved_entries(work: Work, form: Form) -> tuple[list[Entry], list[str]]:
    """The form on each course, written and proved; and of courses that have none of it, the reasons."""
    if form.needs_ranges:
        work.study.calibrated()
    entries: list[Entry] = []
    reasons: list[str] = []
    for number, course in enumerate(_courses(work, form)):
        choices = _choices(work, form, course)
        if not choices:
            reasons.append(f"{course.name}: {why_none(work.study, form, course.backend, **settings_for(course))}")
            continue
        work.emit(Progress("writing", f"{form.name} for {course.name}"))
        try:
            entry = write_entry(work.study, course, choices, work.folder / f"single-{number}.onnx")
            entry.proof = work.judge.proof(entry.path, entry.course)
        except EdgeoptError as error:
            reasons.append(f"{course.name}: {error.message}")
            continue
        entry.plan = _as_plan(work, form, entry)
        entries.append(entry)
    return entries, reasons


def _courses(work: Work, form: Form) -> tuple[Course, ...]:
    """Those on which the form gains; where that is none of them, all, with a warning."""
    able = tuple(course for course in work.courses if course.backend in form.backends)
    if not able:
        names = ", ".join(dict.fromkeys(course.backend for course in work.courses))
        work.warn(f"No available backend computes {form.name} faster than float ({names}); it is written anyway.")
        able = work.courses
    if form.name == GROUPED:
        return tuple(
            course.having(**{GROUPS: work.study.known.settings.group_size})
            if course.backend == OPENVINO and GROUPS not in course.options
            else course
            for course in able
        )
    return able


def _choices(work: Work, form: Form, course: Course) -> dict[str, str]:
    fitting = work.study.forms(course.backend, (form,), **settings_for(course))
    return dict.fromkeys(fitting, form.name)


def _as_plan(work: Work, form: Form, entry: Entry) -> Plan:
    """So that a single form reads like a plan: a verdict for each layer, and one point."""
    proof = entry.proof
    context = work.study.context(entry.course.backend)
    verdicts = tuple(
        Verdict(layer.name, form.name, f"{form.name}: requested")
        if layer.name in entry.choices
        else Verdict(layer.name, FLOAT, f"kept float: {layer.reason or form.fits(layer, context)}")
        for layer in work.study.layers
    )
    point = Point(
        dict(entry.choices),
        expected_ms=0.0,
        expected_db=proof.snr_db if proof else 0.0,
        snr_db=proof.snr_db if proof else None,
        low_db=proof.low_db if proof else None,
    )
    floor_db = work.request.goal.target_db
    return Plan(entry.course.backend, dict(entry.course.options), floor_db or 0.0, point, (point,), verdicts)
