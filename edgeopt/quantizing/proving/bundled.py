"""The result as a bundle: it holds the backend and the options that the plan is for, and what was proved."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from edgeopt.bench.report import Verdict
from edgeopt.bundle import write
from edgeopt.bundle.deployment import Deployment, Evidence, Run, Source, Step
from edgeopt.bundle.facts import four_digits, tensor_of
from edgeopt.bundle.manifest import file_digest
from edgeopt.graph.ledger import LedgerEntry
from edgeopt.hw.device import fingerprint
from edgeopt.quantizing.planning.entry import Entry
from edgeopt.quantizing.proving.speed import RESULT, SOURCE, Measured
from edgeopt.quantizing.records import File, Quantized
from edgeopt.quantizing.work import Work
from edgeopt.version import __version__

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
        write.fill(folder, {}, deployment, {"evidence.json": found, "ledger.json": ledger})
        write.publish(folder, out)
    held = sum(file.stat().st_size for file in (out / write.MODEL_FOLDER).rglob("*") if file.is_file())
    return (File(str(out), held),)


def _write_golden(work: Work, entry: Entry, folder: Path) -> None:
    given = work.given
    some = range(given.prove.start, min(given.prove.stop, given.prove.start + _GOLDEN_SAMPLES))
    course, feeds = entry.course, given.feeds(some)
    write.write_golden(folder, "inputs", feeds)
    write.write_golden(folder, "outputs", work.runs.outputs(entry.path, course.backend, course.options, feeds))
    write.write_golden(folder, "reference", work.study.reference_of(some))


def _deployment(work: Work, entry: Entry, found: Quantized, model: Path, evidence: Evidence | None) -> Deployment:
    source = work.request.model
    inputs, outputs = work.runs.ports
    return Deployment(
        name=source.stem,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        edgeopt=__version__,
        target=work.profile.name,
        summary=found.summary,
        source=Source(source.name, file_digest(source), work.source_bytes),
        run=Run(entry.course.backend, str(model), dict(entry.course.options)),
        inputs=[tensor_of(each) for each in inputs],
        outputs=[tensor_of(each) for each in outputs],
        steps=[Step("cleaned"), Step("quantized", _parameters(work, entry.choices))],
        device=fingerprint(work.device),
        runtimes={runtime.name: runtime.version for runtime in work.device.runtimes},
        evidence=evidence,
    )


def _parameters(work: Work, choices: Mapping[str, str]) -> dict[str, str | int | float | bool | list[str]]:
    layers: dict[str, list[str]] = {}
    for layer, form in choices.items():
        layers.setdefault(form, []).append(layer)
    return {**layers, "calibration_samples": len(work.given.calibrate), "goal": str(work.request.goal)}


def _evidence(work: Work, found: Quantized, measured: Measured) -> Evidence | None:
    """Against the source in plain ONNX Runtime, where both the speed and the accuracy were seen."""
    speed, proof = measured.speeds.get(SOURCE), found.proof
    if speed is None or proof is None:
        return None
    goal, ratio = work.request.goal, speed.speedup
    return Evidence(
        verdict=_verdict(speed.verdict),
        baseline=f"source · {work.runs.judge}",
        baseline_ms=four_digits(measured.latency_ms[SOURCE]),
        latency_ms=four_digits(measured.latency_ms[RESULT]),
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
