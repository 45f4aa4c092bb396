"""The plan: for each layer the form that saves the most time for the least error, where that is most."""

from collections.abc import Mapping, Sequence

from edgeopt.events import Log
from edgeopt.quant.measured.planning.choosing import Chooser, stepped_back
from edgeopt.quant.measured.planning.entry import Entry
from edgeopt.quant.measured.proving.finish import fastest, finish, may_be_delivered
from edgeopt.quant.measured.records import Quantized
from edgeopt.quant.measured.timing.courses import is_inexact
from edgeopt.quant.measured.timing.tracks import Track, tracks_of
from edgeopt.quant.measured.work import Work, unfit
from edgeopt.quant.records import Plan, Point, Verdict

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
