"""The result as a bundle: it holds the backend and the options that the plan is for, and what was proved."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from edgeopt.bundle import write
from edgeopt.bundle.deployment import (
    Budget,
    Deployment,
    Evidence,
    Run,
    Source,
    Step,
    four_digits,
    machine_of,
    tensor_of,
)
from edgeopt.graph.ledger import LedgerEntry
from edgeopt.hw.device import device_for_evidence, fingerprint
from edgeopt.measure.report import Verdict
from edgeopt.quant.measured.planning.entry import Entry
from edgeopt.quant.measured.proving.speed import FLOAT, SOURCE, Measured, Speed
from edgeopt.quant.measured.records import File, Quantized
from edgeopt.quant.measured.work import Work, passes_of
from edgeopt.version import __version__

if TYPE_CHECKING:
    from edgeopt.quant.write import Trace

_GOLDEN_SAMPLES = 4


def write_bundle(work: Work, entry: Entry, found: Quantized, measured: Measured) -> tuple[File, ...]:
    """Puts it in its place, whole or not at all."""
    from edgeopt.graph.model import load, save

    out = work.request.out
    assert out is not None  # noqa: S101 - else nothing is written
    out = out.absolute()
    with write.draft(out) as folder:
        model = folder / write.MODEL_FOLDER / f"{work.request.model.stem}.onnx"
        model.parent.mkdir()
        save(load(entry.path).ir, model)
        _write_golden(work, entry, folder)
        evidence = _evidence(work, found, measured)
        deployment = _deployment(work, entry, found, model.relative_to(folder), evidence)
        ledger = (LedgerEntry("quantize", applied=found.changes),)
        kept = msgspec.structs.replace(
            found,
            taken=dict(measured.taken),
            memory=dict(measured.memory),
            device=device_for_evidence(work.device),
        )
        documents: dict[str, object] = {"evidence.json": kept, "ledger.json": ledger}
        write.fill(folder, {}, deployment, documents, _record(work, entry))
        held = sum(file.stat().st_size for file in model.parent.rglob("*") if file.is_file())
        write.publish(folder, out, single_file=work.request.single_file)
    return (File(str(out), held),)


def _write_golden(work: Work, entry: Entry, folder: Path) -> None:
    given = work.given
    some = range(given.prove.start, min(given.prove.stop, given.prove.start + _GOLDEN_SAMPLES))
    course, feeds = entry.course, given.feeds(some)
    write.write_golden(folder, "inputs", feeds)
    write.write_golden(folder, "outputs", work.runs.outputs(entry.path, course.backend, course.options, feeds))
    write.write_golden(folder, "reference", work.study.reference_of(some))


def _deployment(work: Work, entry: Entry, found: Quantized, model: Path, evidence: Evidence) -> Deployment:
    source = work.request.model
    inputs, outputs = work.runs.ports
    return Deployment(
        name=source.stem,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        edgeopt=__version__,
        target=work.profile.name,
        summary=found.summary,
        source=Source(source.name, work.source_digest, work.source_bytes),
        run=Run(entry.course.backend, str(model), dict(entry.course.options)),
        inputs=[tensor_of(each) for each in inputs],
        outputs=[tensor_of(each) for each in outputs],
        steps=_steps(work, entry),
        budget=Budget("" if found.goal is None else str(found.goal), time_limit_s=round(work.limit_s, 1)),
        device=fingerprint(work.device),
        machine=machine_of(work.device),
        runtimes={runtime.name: runtime.version for runtime in work.device.runtimes},
        evidence=evidence,
    )


def _steps(work: Work, entry: Entry) -> list[Step]:
    """So that a replay makes the same."""
    shapes = work.request.shapes
    cleaning: dict[str, str | int | float | bool | list[str]] = {"passes": list(passes_of(work.request))}
    if shapes:
        cleaning["shapes"] = [f"{name}={'x'.join(map(str, shape))}" for name, shape in shapes.items()]
    forms: dict[str, list[str]] = {}
    for layer, form in entry.choices.items():
        forms.setdefault(form, []).append(layer)
    settings = msgspec.structs.asdict(_trace(work, entry).context.settings)
    return [
        Step("cleaned", cleaning),
        Step("quantized", {"calibration_samples": len(work.given.calibrate), **settings}, forms),
    ]


def _record(work: Work, entry: Entry) -> bytes:
    """What calibration found; of a model in floats, by what its channels were evened out."""
    from edgeopt.quant.recorded import encoded

    return encoded(work.study.recorded(entry.choices, _trace(work, entry)))


def _trace(work: Work, entry: Entry) -> "Trace":
    from edgeopt.quant.forms import FormContext
    from edgeopt.quant.write import Trace

    return entry.trace or Trace(FormContext(entry.course.backend, work.study.known.settings))


def has_evidence(measured: Measured) -> bool:
    """Whether enough was timed for a bundle, which is not written without its evidence."""
    return _timed_against(measured) is not None


def _timed_against(measured: Measured) -> tuple[str, Speed] | None:
    """The source in plain ONNX Runtime, or the float model where that could not be timed."""
    return next(((name, measured.speeds[name]) for name in (SOURCE, FLOAT) if name in measured.speeds), None)


def _evidence(work: Work, found: Quantized, measured: Measured) -> Evidence:
    """The interleaved times, and the proof on samples."""
    against, proof = _timed_against(measured), found.proof
    assert against is not None  # noqa: S101 - nothing is delivered otherwise
    assert proof is not None  # noqa: S101 - likewise
    name, speed = against
    baseline = f"source · {work.runs.judge}" if name == SOURCE else f"float · {found.float_on}"
    goal, ratio = work.request.goal, speed.speedup
    return Evidence(
        verdict=_verdict(speed.verdict),
        baseline=baseline,
        baseline_ms=four_digits(speed.other_ms),
        latency_ms=four_digits(speed.first_ms),
        speedup=four_digits(ratio.median),
        speedup_low=four_digits(ratio.low),
        speedup_high=four_digits(ratio.high),
        rounds=ratio.rounds,
        accuracy_db=round(proof.snr_db, 1),
        floor_db=goal.target_db or 0.0,
        samples=proof.samples,
    )


def _verdict(seen: Verdict) -> str:
    return "faster" if seen == "faster" else "not proved faster"
