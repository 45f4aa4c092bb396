"""`edgeopt optimize --device`: the deployment that is predicted to be best on a device that is not here."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

from edgeopt.bundle.write import check_target
from edgeopt.commands.predict.bundled import write_bundle
from edgeopt.commands.predict.latency import Latency, Predictor
from edgeopt.commands.predict.rank import Ranked, ranked
from edgeopt.commands.predict.records import Ahead
from edgeopt.commands.predict.summary import ahead_of
from edgeopt.commands.predict.variants import Made, in_form, judge
from edgeopt.commands.predict.work import Plan, Wishes, prepared
from edgeopt.data.judging.goals import floor_from
from edgeopt.errors import EdgeoptError, VerificationError
from edgeopt.events import Emit, Progress, ignore
from edgeopt.graph.analysis.given import Given as Shapes
from edgeopt.graph.files.sniff import check_file
from edgeopt.graph.model import load
from edgeopt.quant.forms import FORMS
from edgeopt.quant.measured.runs import Runs
from edgeopt.quant.measured.timing.courses import GROUPS
from edgeopt.quant.rules import rules_of
from edgeopt.search.outcome import Candidate
from edgeopt.search.racing.baseline import baseline_order, plain
from edgeopt.search.racing.space import first_candidates, starts_on
from edgeopt.workspace import WORK, workspace

CLEANED = "cleaned"
_FULL = {"", "f32"}
# They calibrate nothing, and made-up inputs tell whether a value left their range.
_FLOATS = frozenset({"fp16", "bf16"})


def optimize_for(  # noqa: PLR0913 - all but the first three are optional and given by name
    model: str | Path,
    out: str | Path,
    device: str | Path,
    *,
    data: str | Path | None = None,
    floor: str | float = "transparent",
    target: str | None = None,
    profile: str | Path | None = None,
    single_file: bool = False,
    emit: Emit = ignore,
) -> Ahead:
    """Plans for the device of a record, and writes a bundle that says *predicted*; nothing is measured.

    `device` is a file that `edgeopt probe --json` wrote there, or the folder of `edgeopt probe --record`.
    """
    wishes = Wishes(
        Path(model),
        Path(os.path.abspath(out)),  # noqa: PTH100 - `resolve` would follow a link at the end too
        Path(device),
        Path(data) if data is not None else None,
        floor_from(str(floor)),
        target,
        profile,
        single_file,
    )
    begun = time.monotonic()
    check_target(wishes.out, [wishes.model, *([wishes.data] if wishes.data else [])])
    check_file(wishes.model)
    with workspace(WORK) as folder, Runs() as runs:
        plan = prepared(wishes, folder, runs, emit)
        made = make_all(plan, folder)
        latencies = predicted(plan, made)
        found = ranked(made, plan.backends.order, plan.profile.precision.ladder, latencies)
        return _delivered(plan, found, begun)


def make_all(plan: Plan, folder: Path) -> list[Made]:
    """Every variant of the ladder on every backend that the device has."""
    plan.emit(Progress("making variants", plan.profile.name))
    made = [_exact(plan, name, backend) for backend in plan.backends.order for name in _exact_names(plan)]
    forms = {form.name: form for form in FORMS}
    quantizes = not (plan.given.use.generated or plan.given.use.shared)
    for name in plan.profile.precision.ladder:
        form = forms.get(name)
        if form is None or not (quantizes or name in _FLOATS):
            continue
        if form.needs_ranges:
            plan.bench.study.calibrated(
                backend=next((b for b in plan.backends.order if rules_of(b).everywhere), "")
            )
        for backend in plan.backends.order:
            if backend in form.backends:
                plan.emit(Progress("making variants", f"{name} for {backend}"))
                place = folder / "variants" / name / backend
                made.append(in_form(plan.bench, form, _candidate(plan, name, backend), place, plan.cleaning))
    return made


def _exact_names(plan: Plan) -> Sequence[str]:
    return ("source", CLEANED) if plan.cleaning else ("source",)


def _exact(plan: Plan, name: str, backend: str) -> Made:
    path = plan.bench.study.path if name == CLEANED else plan.wishes.model
    made = Made(_candidate(plan, name, backend), path, plan.cleaning if name == CLEANED else ())
    try:
        judge(plan.bench, made)
    except EdgeoptError as error:
        made.failure = error.message.rstrip(".")
    return made


def _candidate(plan: Plan, name: str, backend: str) -> Candidate:
    """With the options that a search on the device would begin with; floats in full precision."""
    starts = starts_on(plan.record.device, plan.profile, plan.given.inputs, plan.given.samples)
    found = first_candidates(name, (backend,), starts) or [Candidate(name, backend)]
    return next((one for one in found if one.options.get("precision", "") in _FULL), found[0])


def predicted(plan: Plan, made: Sequence[Made]) -> dict[int, Latency | str]:
    """By the place of what was made: its latency, or why it cannot be told."""
    from edgeopt.graph.analysis.onnx import analysis_of

    predictor = Predictor(plan.record.device, plan.record.table)
    shapes = Shapes({name: tuple(shape) for name, shape in plan.given.samples.shapes().items()})
    found: dict[int, Latency | str] = {}
    for place, one in enumerate(made):
        backend = one.candidate.backend
        reason = predictor.why_not(backend)
        if reason or not one.is_alive:
            found[place] = reason or one.failure
            continue
        options = one.candidate.options
        threads = options.get("threads")
        found[place] = predictor.latency(
            analysis_of(load(one.path), shapes),
            backend,
            threads if isinstance(threads, int) and threads else None,
            grouped=bool(options.get(GROUPS)),
        )
    return found


def _delivered(plan: Plan, found: Ranked, begun: float) -> Ahead:
    """Holds the best against the floor once more, on the samples that nothing has seen, and writes it."""
    first = baseline_order(plan.backends.order)[0]
    for best in found.in_line():
        judged = plan.bench.judged(best.made, plan.given.prove)
        if judged.problem or judged.value < plan.wishes.floor_db:
            where = f": {judged.weakest.where}" if judged.weakest is not None else ""
            best.made.failure = f"{judged.value:.1f} dB on samples set aside{where}"
            best.made.below = True
            continue
        outcome = ahead_of(plan, found, best, plain(first), judged.value, time.monotonic() - begun)
        plan.emit(Progress("writing", str(plan.wishes.out)))
        write_bundle(plan, best.made, outcome)
        return outcome
    raise VerificationError("The source model no longer reaches the floor.", "Run the command again.")
