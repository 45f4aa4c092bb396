"""Writes a plan as a bundle that can be loaded and deployed, and that says of itself that nothing was measured."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from edgeopt.bundle import write
from edgeopt.bundle.deployment import (
    Budget,
    Deployment,
    Predicted,
    Run,
    Source,
    Step,
    four_digits,
    machine_of,
    tensor_of,
)
from edgeopt.commands.predict.records import Ahead
from edgeopt.commands.predict.variants import Made
from edgeopt.commands.predict.work import Plan
from edgeopt.hw.device import fingerprint
from edgeopt.version import __version__

_GOLDEN_SAMPLES = 4


def write_bundle(plan: Plan, made: Made, outcome: Ahead) -> None:
    """Puts it in its place, whole or not at all."""
    wishes = plan.wishes
    with write.draft(wishes.out) as folder:
        _write_golden(plan, made, folder)
        files = {"model.onnx": made.path}
        if made.candidate.variant == "source":
            parent = wishes.model.parent
            external = {file.relative_to(parent.resolve()).as_posix(): file for file in plan.source.external}
            files = {wishes.model.name: wishes.model, **external}
        name = next(iter(files))
        # No evidence: that is what was measured.
        documents: dict[str, object] = {"prediction.json": outcome, "ledger.json": outcome.ledger}
        write.fill(folder, files, _deployment(plan, made, outcome, name), documents, _record(plan, made))
        write.publish(folder, wishes.out, single_file=wishes.single_file)


def _write_golden(plan: Plan, made: Made, folder: Path) -> None:
    given = plan.given
    some = range(given.prove.start, min(given.prove.stop, given.prove.start + _GOLDEN_SAMPLES))
    write.write_golden(folder, "inputs", given.feeds(some))
    write.write_golden(folder, "outputs", plan.bench.outputs(made, some))
    write.write_golden(folder, "reference", plan.bench.study.reference_of(some))


def _deployment(plan: Plan, made: Made, outcome: Ahead, model: str) -> Deployment:
    source, device = plan.source, plan.record.device
    size = source.path.stat().st_size + sum(file.stat().st_size for file in source.external)
    return Deployment(
        name=source.path.stem,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        edgeopt=__version__,
        target=plan.profile.name,
        summary=outcome.summary,
        source=Source(source.path.name, source.digest, size),
        run=Run(made.candidate.backend, f"{write.MODEL_FOLDER}/{model}", made.candidate.options),
        inputs=[tensor_of(each) for each in outcome.inputs],
        outputs=[tensor_of(each) for each in outcome.outputs],
        steps=_steps(plan, made),
        budget=Budget(f"{outcome.floor_db:g} dB"),
        device=fingerprint(device),
        machine=machine_of(device),
        runtimes={runtime.name: runtime.version for runtime in device.runtimes},
        predicted=_predicted(outcome),
    )


def _predicted(outcome: Ahead) -> Predicted:
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


def _steps(plan: Plan, made: Made) -> list[Step]:
    if made.candidate.variant == "source":
        return []
    names = list(dict.fromkeys(entry.pass_name for entry in plan.cleaning if not entry.rolled_back))
    # A step without names would be one of all passes.
    cleaning = [Step("cleaned", {"passes": names})] if names else []
    if made.candidate.variant == "cleaned":
        return cleaning
    known = plan.bench.study.known.settings if made.trace is None else made.trace.context.settings
    settings = msgspec.structs.asdict(known)
    used = {"calibration_samples": len(plan.given.calibrate), **settings}
    return [*cleaning, Step(made.candidate.variant, used, made.forms)]


def _record(plan: Plan, made: Made) -> bytes | None:
    """What calibration found, so that a replay needs no data."""
    from edgeopt.quant.recorded import encoded

    if made.trace is None:
        return None
    choices = {layer: form for form, layers in made.forms.items() for layer in layers}
    return encoded(plan.bench.study.recorded(choices, made.trace))
