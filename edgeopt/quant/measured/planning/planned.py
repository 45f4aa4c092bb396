"""`edgeopt quantize`: a plan with a scheme for each layer, or one scheme for all layers."""

from collections.abc import Mapping, Sequence

from edgeopt.errors import DataError, EdgeoptError, UsageError
from edgeopt.events import Log, Progress
from edgeopt.quant.forms import Form, form_named
from edgeopt.quant.measured.planning.choosing import Chooser, stepped_back
from edgeopt.quant.measured.planning.entry import GROUPED, Entry, settings_for, write_entry
from edgeopt.quant.measured.proving.finish import fastest, finish, may_be_delivered
from edgeopt.quant.measured.records import Quantized
from edgeopt.quant.measured.timing.courses import GROUPS, OPENVINO, Course, is_inexact
from edgeopt.quant.measured.timing.gains import Track, tracks_of
from edgeopt.quant.measured.work import Work, unfit, why_none
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


# A backend configuration whose best case is slower than another's by this factor is not planned.
_HOPELESS = 1.2
_PLANNING_ENDS = 0.7
_FLOAT_COULD_WIN = 1.3


def planned(work: Work) -> Quantized:
    """Plans each course, proves each plan, and lets the proven ones run against each other."""
    study = work.study
    floats = [Entry(course, {}, study.path) for course in work.courses]
    if all(layer.reason for layer in study.layers):
        return finish(work, floats[0], why=f"Keep float: {unfit(study.layers)}.")
    study.calibrated()
    tracks = tracks_of(work)
    able = hopeful(work, tracks)
    entries: list[Entry] = []
    for number, track in enumerate(able):
        if number and work.left_s(_PLANNING_ENDS) < 0:
            work.warn(f"{track.course.name} was not planned within the time limit; a longer one allows it.")
            continue
        chooser = Chooser(work, track, shared_forms(track, able))
        entries += [proven(work, entry) for entry in chooser.entries()]
    rivals = [each for entry in floats if (each := _float_rival(work, entry, tracks)) is not None]
    if not entries and not any(is_inexact(each.course) for each in rivals):
        return finish(work, floats[0], why=f"Keep float: {_nothing_gained(tracks)}.")
    able_to_win = [each for each in (*entries, *rivals) if may_be_delivered(work, each)]
    best = fastest(work, _distinct(able_to_win)) if able_to_win else entries[0]
    if best.plan is None and entries:
        # Where float is quickest, the frontier still says what a plan would have cost and saved.
        best.plan, best.proof = entries[0].plan, entries[0].proof
    return finish(work, best)


def hopeful(work: Work, tracks: Sequence[Track]) -> list[Track]:
    """Those whose best case is not far behind the best of all."""
    able = [track for track in tracks if track.forms]
    least_ms = min((track.best_ms for track in tracks), default=0.0)
    for track in able:
        if track.best_ms > _HOPELESS * least_ms:
            said = f"at best {track.best_ms:.2f} ms, while another reaches {least_ms:.2f}"
            work.emit(Log("info", f"{track.course.name} is not planned: {said}."))
    return [track for track in able if track.best_ms <= _HOPELESS * least_ms]


def _nothing_gained(tracks: Sequence[Track]) -> str:
    if not tracks:
        return "no scheme fits any of its layers on the available backends"
    return f"no layer is faster in any scheme on {' or '.join(track.course.name for track in tracks)}"


def shared_forms(track: Track, tracks: Sequence[Track]) -> Mapping[str, Sequence[str]]:
    """Of all tracks of the same backend, so that what is simulated once serves all of them."""
    found: dict[str, dict[str, None]] = {}
    for each in tracks:
        if each.course.backend == track.course.backend:
            for layer, forms in each.forms.items():
                found.setdefault(layer, {}).update(dict.fromkeys(forms))
    return {layer: tuple(forms) for layer, forms in found.items()}


def _float_rival(work: Work, entry: Entry, tracks: Sequence[Track]) -> Entry | None:
    """The float model where its kernels come near the best: a plan must beat it there too.

    Floats that are rounded are a plan of their own, in which all layers have that precision.
    """
    key = entry.course.backend, entry.course.options.get("precision")
    track = next((t for t in tracks if (t.course.backend, t.course.options.get("precision")) == key), None)
    if track is None or track.timed.float_ms >= _FLOAT_COULD_WIN * min(each.best_ms for each in tracks):
        return None
    if not is_inexact(entry.course):
        return entry
    with work.study.phase("proving", entry.course.name):
        entry.proof = work.judge.proof(entry.path, entry.course)
    if not work.judge.met(entry.proof):
        return None
    form = str(key[1])
    proof, layers = entry.proof, work.study.layers
    verdicts = tuple(
        Verdict(layer.name, form, f"{form}: like all float nodes on {entry.course.name}") for layer in layers
    )
    point = Point({}, track.timed.float_ms, proof.snr_db, proof.snr_db, proof.low_db)
    goal_db = work.request.goal.target_db or 0.0
    entry.plan = Plan(
        entry.course.backend, dict(entry.course.options), goal_db, point, (point,), verdicts, base_db=track.base_db
    )
    return entry


def _distinct(entries: Sequence[Entry]) -> list[Entry]:
    """One of each: a plan that chose nothing is the float model of its course."""
    found: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        found.setdefault((entry.course.name, str(entry.path)), entry)
    return list(found.values())


def proven(work: Work, entry: Entry) -> Entry:
    """The entry, or the next more exact point that holds on the samples set aside; float where none does.

    Floats that are rounded are proved as well: they are what runs where no layer has another form.
    """
    steps = 0
    while not entry.is_source:
        with work.study.phase("proving", entry.course.name):
            proof = work.judge.proof(entry.path, entry.course, steps)
        if work.judge.met(proof) or entry.is_float:
            entry.proof = proof
            return entry
        steps += 1
        said = f"{proof.snr_db:.1f} dB ({proof.low_db:.1f} on others perhaps)"
        work.emit(Log("info", f"On the samples set aside the plan reaches {said}: one step back."))
        entry = stepped_back(work, entry)
        entry.proof = proof
    return entry
