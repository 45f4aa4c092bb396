"""`edgeopt optimize --device`: the deployment that is predicted to be best on a device that is not here."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from edgeopt import units
from edgeopt.backends import eight_bits_of
from edgeopt.bundle import write
from edgeopt.bundle.deployment import Budget, Predicted, Processing, Run, SourceModel, Step, four_digits
from edgeopt.bundle.golden import put_processing_golden
from edgeopt.bundle.plan import Plan as DeployPlan
from edgeopt.bundle.plan import limits_in
from edgeopt.bundle.processing.attach import attach, pictures_for
from edgeopt.bundle.write import check_target
from edgeopt.commands.predict.latency import Latency, Predictor
from edgeopt.commands.predict.records import VERDICT, PredictedCandidate, PredictedOutcome, Status
from edgeopt.commands.predict.variants import PredictedVariant, PredictionPlan, judge, prepared, write_variant
from edgeopt.errors import EdgeoptError, VerificationError
from edgeopt.events import Emit, Progress, ignore
from edgeopt.graph.accuracy import accuracy_text
from edgeopt.graph.analysis.records import AnalysisOptions as Shapes
from edgeopt.graph.files.sniff import check_file
from edgeopt.graph.model import load
from edgeopt.pipeline.baseline import baseline_order, plain
from edgeopt.pipeline.outcome import Candidate
from edgeopt.pipeline.plans.space import first_candidates, starts_on
from edgeopt.pipeline.request import OptimizeRequest, inputs_of
from edgeopt.platform.command_line import quote_word
from edgeopt.quant.measured.planning.entry import WEIGHTS_ALONE, step_of
from edgeopt.quant.measured.sample_sets import ModelRuns
from edgeopt.quant.measured.timing.configs import GROUPS
from edgeopt.quant.measured.work import put_golden
from edgeopt.quant.schemes import SCHEMES
from edgeopt.workspace import WORK, workspace


@dataclass(frozen=True, slots=True)
class RankedVariant:
    """Candidate in the order; `latency` is the end of a sentence if it cannot be predicted."""

    made: PredictedVariant
    latency: Latency | str

    @property
    def predicted_ms(self) -> float | None:
        return self.latency.predicted_ms if isinstance(self.latency, Latency) else None


@dataclass(frozen=True, slots=True)
class Ranked:
    places: tuple[RankedVariant, ...]
    """Candidates, the best first; rejected ones come last."""
    by_time: bool
    """Whether the order is by predicted times; otherwise it is by precision, as some times are unknown."""

    def in_line(self) -> list[RankedVariant]:
        return [place for place in self.places if place.made.is_alive]


def ranked(
    made: Sequence[PredictedVariant],
    backends: Sequence[str],
    ladder: Sequence[str],
    latencies: Mapping[int, Latency | str],
) -> Ranked:
    places = [RankedVariant(one, latencies[place]) for place, one in enumerate(made)]
    alive = [place for place in places if place.made.is_alive]
    out = [place for place in places if not place.made.is_alive]
    by_time = bool(alive) and all(place.predicted_ms is not None for place in alive)

    def preference(place: RankedVariant) -> tuple[float, ...]:
        candidate = place.made.candidate
        time_ms = place.predicted_ms if by_time else None
        on_ladder = _on_ladder(candidate.variant, bool(place.made.doubt), ladder)
        return (time_ms or 0.0, backends.index(candidate.backend), *on_ladder)

    return Ranked((*sorted(alive, key=preference), *out), by_time)


def _on_ladder(variant: str, doubtful: bool, ladder: Sequence[str]) -> tuple[int, int]:
    """Ranks fewer bits in the ladder's order, then exact rewrites, what may gain nothing, and last the source."""
    place = ladder.index(variant) if variant in ladder else len(ladder)
    if variant in WEIGHTS_ALONE or doubtful:
        return 2, place
    return {"cleaned": (1, 0), "source": (3, 0)}.get(variant, (0, place))


LEFT = {
    "lowered": "left to the device: operators specific to a runtime must be measured",
    "mapped": "left to the device: memory must be measured",
    "planned": "left to the device: the gain of each layer in each scheme must be measured",
}


def _ahead_of(
    plan: PredictionPlan,
    found: Ranked,
    best: RankedVariant,
    baseline: Candidate,
    accuracy_db: float,
    seconds: float,
) -> PredictedOutcome:
    start = next((place for place in found.places if _is_baseline(place, baseline)), None)
    speedup = None
    if start is not None and start.predicted_ms is not None and best.predicted_ms:
        speedup = start.predicted_ms / best.predicted_ms
    basis = _basis(best)
    return PredictedOutcome(
        model=plan.request.model.name,
        model_digest=plan.source.digest,
        bundle=str(plan.request.out),
        device=plan.record.title,
        target=plan.profile.name,
        verdict=VERDICT,
        summary=_summary(plan, best, start, speedup, accuracy_db),
        basis=basis,
        floor_db=plan.bench.floor_db,
        winner=best.made.candidate,
        baseline=baseline,
        baseline_ms=start.predicted_ms if start is not None else None,
        latency=best.latency if isinstance(best.latency, Latency) else None,
        speedup=speedup,
        accuracy_db=accuracy_db,
        judged_with=best.made.judged_with,
        samples=len(plan.sample_sets.prove),
        set_aside=not (plan.sample_sets.use.shared or plan.sample_sets.use.generated),
        finish=_finish(plan),
        inputs=plan.bench.runs.ports[0],
        outputs=plan.bench.runs.ports[1],
        candidates=tuple(_rows(plan, found, best, baseline)),
        ledger=best.made.ledger,
        warnings=tuple(plan.warnings),
        seconds=seconds,
    )


def _rows(
    plan: PredictionPlan, found: Ranked, best: RankedVariant, baseline: Candidate
) -> Iterator[PredictedCandidate]:
    for place in found.places:
        made = place.made
        status, reason = _verdict(place, best)
        if status == "behind" and _is_baseline(place, baseline):
            status = "baseline"
        yield PredictedCandidate(
            made.candidate,
            status,
            "; ".join(filter(None, [reason, "" if made.failure or found.by_time else made.doubt, *made.notes])),
            place.latency if isinstance(place.latency, Latency) else None,
            made.accuracy_db,
            made.accuracy_low_db,
            made.judged_with,
            made.path.stat().st_size if made.path.exists() else None,
        )
    first = plan.backends.order[0]
    for name in plan.profile.precision.ladder:
        if name in LEFT:
            yield PredictedCandidate(Candidate(name, first), "not planned", LEFT[name])


def _verdict(place: RankedVariant, best: RankedVariant) -> tuple[Status, str]:
    made = place.made
    if made.failure:
        return ("below the floor" if made.below else "failed"), made.failure
    if place is best:
        if isinstance(place.latency, Latency):
            share = units.percent(place.latency.products_share, 0)
            return "chosen", f"fastest predicted; {share} of its time in products"
        return "chosen", "first in the order of the profile within the floor"
    if place.predicted_ms is not None and best.predicted_ms:
        return (
            "behind",
            f"predicted at {place.predicted_ms / best.predicted_ms:.2f} times the time of the chosen one",
        )
    return "behind", "behind the chosen one in the order of the profile"


def _summary(
    plan: PredictionPlan,
    best: RankedVariant,
    start: RankedVariant | None,
    speedup: float | None,
    accuracy_db: float,
) -> str:
    device, name = plan.record.title, best.made.candidate.name
    if best.predicted_ms is None:
        choice = f"{name} is the first choice of the profile for {device}"
        return f"Planned, not measured: {choice}, {accuracy_text(accuracy_db)}."
    if best.made.candidate.variant == "source" and (start is None or start.made is best.made):
        return f"Predicted, not measured: on {device} nothing is expected to be faster than the source model."
    text = f"Predicted, not measured: {name} is expected to be the best on {device}"
    if speedup is not None and best.predicted_ms is not None and start is not None and start.predicted_ms:
        text += (
            f", {speedup:.2f}x as fast as the source model "
            f"({units.time_instead(best.predicted_ms, start.predicted_ms)})"
        )
    return f"{text}, {accuracy_text(accuracy_db)}."


def _basis(best: RankedVariant) -> str:
    if isinstance(best.latency, Latency):
        latency = best.latency
        low, high = latency.low_ms / latency.predicted_ms, latency.high_ms / latency.predicted_ms
        return (
            f"Predicted from {latency.basis}. Times may be {low:g} to {high:g} times the prediction, as "
            "in most checked predictions."
        )
    return f"No latency can be predicted: {best.latency} (on the device). The order is that of the profile."


def _finish(plan: PredictionPlan) -> tuple[str, ...]:
    data = f" --data {quote_word(plan.request.data.name)}" if plan.request.data is not None else ""
    pre = f" --pre {quote_word(plan.request.pre.name)}" if plan.request.pre is not None else ""
    model, bundle = quote_word(plan.request.model.name), quote_word(plan.request.out.name)
    floor = f" --floor {plan.bench.floor_db:g}dB" if data else ""
    replay = f"edgeopt replay {bundle} {model}{data} -o NEW --measure"
    return (
        f"On the device, search and prove: edgeopt optimize {model}{data}{pre}{floor} -o NEW",
        f"On the device, measure and prove this plan alone: {replay}",
    )


def _is_baseline(place: RankedVariant, baseline: Candidate) -> bool:
    """Whether variant and backend are the baseline's; candidates have the options that a search begins with."""
    mine = place.made.candidate
    return (mine.variant, mine.backend) == (baseline.variant, baseline.backend)


def write_bundle(plan: PredictionPlan, made: PredictedVariant, outcome: PredictedOutcome) -> None:
    request = plan.request
    with write.draft(request.out) as folder:
        answered = put_golden(folder, plan.bench.study, partial(plan.bench.outputs, made))
        processing = _processing(plan)
        if processing is not None:
            put_processing_golden(folder, processing, (), answered)
        files = {"model.onnx": made.path}
        if made.candidate.variant == "source":
            parent = request.model.parent
            external = {file.relative_to(parent.resolve()).as_posix(): file for file in plan.source.external}
            files = {request.model.name: request.model, **external}
        deploy = _deploy_plan(plan, made, next(iter(files)))
        # No evidence: that is what was measured.
        deployment = deploy.deployment(plan.record.device, outcome.summary, predicted=_predicted(outcome))
        documents: dict[str, object] = {"prediction.json": outcome, "ledger.json": outcome.ledger}
        write.put_text(folder, request.model)
        write.fill(folder, files, deployment, documents, deploy.record)
        write.publish(folder, request.out, single_file=request.single_file)


def _processing(plan: PredictionPlan) -> Processing | None:
    """Returns the preparation of pictures that the bundle contains."""
    attached = attach(plan.request.pre, None, *plan.bench.runs.ports)
    return attached.processing if attached is not None else None


def _deploy_plan(plan: PredictionPlan, made: PredictedVariant, model: str) -> DeployPlan:
    source, (steps, record) = plan.source, _steps(plan, made)
    size = source.path.stat().st_size + sum(file.stat().st_size for file in source.external)
    return DeployPlan(
        source=SourceModel(source.path.name, source.digest, size),
        target=plan.profile.name,
        run=Run(made.candidate.backend, f"{write.MODEL_FOLDER}/{model}", made.candidate.options),
        inputs=plan.bench.runs.ports[0],
        outputs=plan.bench.runs.ports[1],
        steps=steps,
        limits=limits_in(source.path),
        budget=Budget(f"{plan.bench.floor_db:g} dB"),
        record=record,
        processing=_processing(plan),
    )


def _predicted(outcome: PredictedOutcome) -> Predicted:
    latency = outcome.latency
    return Predicted(
        verdict=outcome.verdict,
        device=outcome.device,
        basis=outcome.basis,
        accuracy_db=round(outcome.accuracy_db, 1),
        judged_with=outcome.judged_with,
        floor_db=outcome.floor_db,
        samples=outcome.samples,
        finish=list(outcome.finish),
        baseline_ms=_digits(outcome.baseline_ms),
        latency_ms=_digits(latency.predicted_ms) if latency else None,
        latency_low_ms=_digits(latency.low_ms) if latency else None,
        latency_high_ms=_digits(latency.high_ms) if latency else None,
        speedup=_digits(outcome.speedup),
    )


def _digits(value: float | None) -> float | None:
    return None if value is None else four_digits(value)


def _steps(plan: PredictionPlan, made: PredictedVariant) -> tuple[list[Step], bytes | None]:
    """Returns the steps that make the variant, and the calibration results with which a replay needs no data."""
    from edgeopt.quant.write import encoded

    if made.candidate.variant == "source":
        return [], None
    names = list(dict.fromkeys(entry.pass_name for entry in plan.cleaning if not entry.rolled_back))
    # A step without names would be one of all passes.
    cleaning = [Step("cleaned", {"passes": names})] if names else []
    if made.trace is None:
        return cleaning, None
    choices = {layer: scheme for scheme, layers in made.layers.items() for layer in layers}
    quantized, recorded = step_of(plan.bench.study, made.candidate.variant, choices, made.trace)
    return [*cleaning, quantized], encoded(recorded)


CLEANED = "cleaned"
_FULL = {"", "f32"}
# They calibrate nothing, and made-up inputs tell whether a value left their range.
_FLOATS = frozenset({"fp16", "bf16"})


def optimize_for(settings: OptimizeRequest, device: Path, emit: Emit = ignore) -> PredictedOutcome:
    """Plans for the device of a record, and writes a bundle that says *predicted*; nothing is measured.

    `device` is a file that `edgeopt probe --json` wrote there, or the folder of `edgeopt probe --record`.
    """
    out = Path(os.path.abspath(settings.out))  # noqa: PTH100 - `resolve` would follow a link at the end too
    request = msgspec.structs.replace(settings, out=out)
    begun = time.monotonic()
    check_target(request.out, inputs_of(request))
    pictures_for(request.pre)
    check_file(request.model)
    with workspace(WORK) as folder, ModelRuns() as runs:
        plan = prepared(request, device, folder, runs, emit)
        made = make_all(plan, folder)
        latencies = predicted(plan, made)
        found = ranked(made, plan.backends.order, plan.profile.precision.ladder, latencies)
        return _delivered(plan, found, begun)


def make_all(plan: PredictionPlan, folder: Path) -> list[PredictedVariant]:
    """Makes every variant of the ladder on every backend that the device has."""
    plan.emit(Progress("making variants", plan.profile.name))
    made = [
        _exact(plan, name, backend)
        for backend in plan.backends.order
        for name in (("source", CLEANED) if plan.cleaning else ("source",))
    ]
    schemes = {scheme.name: scheme for scheme in SCHEMES}
    quantizes = not (plan.sample_sets.use.generated or plan.sample_sets.use.shared)
    for name in plan.profile.precision.ladder:
        scheme = schemes.get(name)
        if scheme is None or not (quantizes or name in _FLOATS):
            continue
        if scheme.needs_ranges:
            plan.bench.study.calibrated(
                backend=next((b for b in plan.backends.order if eight_bits_of(b).everywhere), "")
            )
        for backend in plan.backends.order:
            if backend in scheme.backends:
                plan.emit(Progress("making variants", f"{name} for {backend}"))
                place = folder / "variants" / name / backend
                made.append(
                    write_variant(plan.bench, scheme, _candidate(plan, name, backend), place, plan.cleaning)
                )
    return made


def _exact(plan: PredictionPlan, name: str, backend: str) -> PredictedVariant:
    path = plan.bench.study.path if name == CLEANED else plan.request.model
    made = PredictedVariant(_candidate(plan, name, backend), path, plan.cleaning if name == CLEANED else ())
    try:
        judge(plan.bench, made)
    except EdgeoptError as error:
        made.failure = error.message.rstrip(".")
    return made


def _candidate(plan: PredictionPlan, name: str, backend: str) -> Candidate:
    """Returns the candidate with the first options of a search on the device; floats in full precision."""
    starts = starts_on(plan.record.device, plan.profile, plan.sample_sets.inputs, plan.sample_sets.samples)
    found = first_candidates(name, (backend,), starts) or [Candidate(name, backend)]
    return next((one for one in found if one.options.get("precision", "") in _FULL), found[0])


def predicted(plan: PredictionPlan, made: Sequence[PredictedVariant]) -> dict[int, Latency | str]:
    """Predicts the latency of each variant, or the reason why it is unknown, by position."""
    from edgeopt.graph.analysis.onnx import analysis_of

    predictor = Predictor(plan.record.device, plan.record.table)
    shapes = Shapes({name: tuple(shape) for name, shape in plan.sample_sets.samples.shapes().items()})
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


def _delivered(plan: PredictionPlan, found: Ranked, begun: float) -> PredictedOutcome:
    """Holds the best against the floor once more, on the samples that nothing has seen, and writes it."""
    first = baseline_order(plan.backends.order)[0]
    for best in found.in_line():
        judged = plan.bench.judged(best.made, plan.sample_sets.prove)
        if judged.problem or judged.value < plan.bench.floor_db:
            where = f": {judged.weakest.where}" if judged.weakest is not None else ""
            best.made.failure = f"{judged.value:.1f} dB on samples set aside{where}"
            best.made.below = True
            continue
        outcome = _ahead_of(plan, found, best, plain(first), judged.value, time.monotonic() - begun)
        plan.emit(Progress("writing", str(plan.request.out)))
        write_bundle(plan, best.made, outcome)
        return outcome
    raise VerificationError("The source model no longer reaches the floor.", "Run the command again.")
