"""Command `edgeopt replay`: makes the bundle of a deployment profile again, without searching."""

import os
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from edgeopt import units
from edgeopt.bundle import manifest, write
from edgeopt.bundle.deployment import SCHEMA, Deployment, Evidence, Replayed, Run
from edgeopt.bundle.golden import FINAL, RAW, golden_floor_db, problem_with, put_processing_golden
from edgeopt.bundle.plan import now, on_device
from edgeopt.bundle.processing.attach import pictures_for
from edgeopt.bundle.processing.run import Processor
from edgeopt.bundle.profile import Profile, outside, read_profile
from edgeopt.bundle.read import Bundle, read_bundle
from edgeopt.bundle.request import ReplayRequest
from edgeopt.data.judging.goals import Goal
from edgeopt.data.levels import levels_in
from edgeopt.data.read import load_data
from edgeopt.data.samples import Samples, check_samples, from_feeds, save_samples
from edgeopt.errors import MissingError, ModelError, VerificationError
from edgeopt.events import Emit, Log, Progress, ignore
from edgeopt.graph.accuracy import accuracy_text, compare_outputs, decibels
from edgeopt.graph.ledger import Ledger
from edgeopt.hw.probe import probe
from edgeopt.measure.stages import fill_timed
from edgeopt.measure.stats import FASTER
from edgeopt.pipeline.replay_steps import describe_step, rebuild
from edgeopt.platform.command_line import quote_word
from edgeopt.quant.measured.proof import RESULT, SOURCE, ContestSide, compared
from edgeopt.quant.measured.sample_sets import ModelRuns, Outputs
from edgeopt.version import __version__
from edgeopt.workers.host import LocalHost
from edgeopt.workspace import WORK, workspace

if TYPE_CHECKING:
    from edgeopt.graph.model import Model


_FLOOR_DB = 30.0
# Other processors round differently.
_LEEWAY_DB = 1.0


@dataclass(slots=True)
class ReplayRun:
    request: ReplayRequest
    profile: Profile
    folder: Path
    """Folder of the bundle while it is made."""
    rest: Path
    """Folder for files that are not kept."""
    runs: ModelRuns
    emit: Emit
    warnings: list[str] = field(default_factory=list)

    @property
    def deployment(self) -> Deployment:
        """Returns the deployment of the first bundle."""
        return self.profile.deployment

    @property
    def run(self) -> Run:
        return self.deployment.run

    @property
    def model(self) -> Path:
        """Returns the path of the rebuilt model."""
        return self.folder / self.run.model

    @property
    def floor_db(self) -> float:
        evidence = self.deployment.evidence or self.deployment.predicted
        return evidence.floor_db if evidence is not None else _FLOOR_DB

    @property
    def needed_db(self) -> float:
        """Returns the floor, or what the first bundle reached, with some allowance, if that is lower."""
        evidence = self.deployment.evidence or self.deployment.predicted
        return self.floor_db if evidence is None else min(self.floor_db, evidence.accuracy_db - _LEEWAY_DB)

    def warn(self, message: str) -> None:
        self.warnings.append(message)
        self.emit(Log("warning", message))

    def answers(self, feeds: Outputs) -> Outputs:
        return self.runs.outputs(self.model, self.run.backend, self.run.options, feeds)

    def samples(self) -> Samples:
        """Returns the samples that were given, those of the first bundle, or generated ones."""
        from edgeopt.data.regimes import mixed
        from edgeopt.graph.model import load

        inputs = self.runs.inputs(self.request.model)
        if self.request.data is not None:
            pictures = pictures_for(self.request.pre, self.deployment.processing)
            return load_data(self.request.data, inputs, pictures)
        bundle = self.profile.bundle
        if bundle is not None:
            return check_samples(from_feeds(bundle.golden("inputs")), inputs)
        feeds = mixed(inputs, load(self.request.model).ir, write.GOLDEN_SAMPLES // 2)
        return check_samples(from_feeds(feeds[: write.GOLDEN_SAMPLES]), inputs)

    def last_samples(self, samples: Samples, maximum: int) -> tuple[Outputs, Outputs]:
        """Returns the last samples, which a search sets aside, and the source's outputs; call `samples` first."""
        count = len(samples)
        feeds = [samples.feeds(k) for k in range(max(0, count - maximum), count)]
        return feeds, self.runs.source_outputs(self.request.model, feeds)


# Two runs of the same computation differ only by the order in which threads add.
_ALIKE_DB = 80.0
_OPTIMIZE = "Run `edgeopt optimize` on this device."


class GoldenCheck(msgspec.Struct, frozen=True):
    alike_db: float | None = None
    """Agreement with the first bundle's outputs; None if it has none, or the backend cannot be used here."""
    accuracy_db: float | None = None
    """Agreement with the source model."""
    floor_db: float | None = None
    own_answers: bool = False
    """Whether the samples are generated, and compared with the model's own answers."""


def _put_golden(work: ReplayRun, same: bool) -> GoldenCheck:
    """Writes the golden runs; raises VerificationError if the rebuilt model is too far from the source."""
    bundle = work.profile.bundle
    work.emit(Progress("running golden samples", work.run.backend))
    if bundle is None:
        return _fresh(work, same)
    shutil.copytree(bundle.folder / "golden", work.folder / "golden")
    found = Bundle(work.folder, work.deployment)
    try:
        outputs = work.answers(found.golden("inputs"))
    except MissingError as error:
        if not same:
            raise
        work.warn(f"The golden samples were not run, because the backend is not available: {error.message}")
        return GoldenCheck()
    accuracy, floor_db = compare_outputs(found.golden("reference"), outputs), golden_floor_db(found)
    if accuracy.problem or accuracy.snr_db < floor_db:
        raise _too_far(accuracy.snr_db, len(outputs), floor_db, accuracy.problem, _OPTIMIZE)
    alike = compare_outputs(found.golden("outputs"), outputs)
    if alike.snr_db < _ALIKE_DB:
        work.warn(
            f"The golden outputs differ from those of the first bundle ({alike.snr_db:.1f} dB): other "
            "processors and runtimes round differently. Compared with the source model they are within "
            "the floor."
        )
    return GoldenCheck(alike.snr_db, accuracy.snr_db, floor_db)


def _fresh(work: ReplayRun, same: bool) -> GoldenCheck:
    made_up = work.request.data is None
    try:
        feeds, reference = work.last_samples(work.samples(), write.GOLDEN_SAMPLES)
    except ModelError as error:
        if not made_up:
            raise
        hint = "The samples are generated, and the model may not take their sizes: pass real ones with --data."
        raise ModelError(error.message, hint) from None
    outputs = work.answers(feeds)
    accuracy = compare_outputs(reference, outputs)
    near = not accuracy.problem and accuracy.snr_db >= work.needed_db
    if not near and not (made_up and same):
        hint = "These samples are generated: pass real ones with --data." if made_up else _OPTIMIZE
        raise _too_far(accuracy.snr_db, len(outputs), work.needed_db, accuracy.problem, hint)
    if made_up:
        doubt = "" if near else ", and only show whether a device computes the same outputs"
        work.warn(f"The profile has no golden samples, so they are generated{doubt}. Pass real ones with --data.")
    write.write_golden_runs(work.folder, feeds, outputs, reference if near else outputs)
    return GoldenCheck(None, accuracy.snr_db, work.needed_db) if near else GoldenCheck(own_answers=True)


def _too_far(reached_db: float, count: int, floor_db: float, problem: str | None, hint: str) -> VerificationError:
    message = f"The rebuilt model reaches {reached_db:.1f} dB on {count} samples; it needs {floor_db:g} dB."
    return VerificationError(f"{message} {problem or ''}".strip(), hint)


_LIMIT_S = 20.0
_MAX_SAMPLES = 16


def prove(work: ReplayRun) -> Evidence:
    """Measures the bundle; raises VerificationError if it is below the floor, or cannot be measured."""
    samples = work.samples()
    feeds, reference = work.last_samples(samples, _MAX_SAMPLES)
    goal = Goal(floor=work.needed_db, budget="")
    judged = goal.judge(work.answers(feeds), reference, levels=[levels_in(sample) for sample in feeds])
    if judged.problem or judged.value < work.needed_db:
        detail = judged.problem or (judged.weakest.sentence if judged.weakest is not None else "")
        raise VerificationError(
            (
                f"The rebuilt model reaches {decibels(judged.value)} on {len(feeds)} samples here; it needs "
                f"{work.needed_db:g} dB. {detail}"
            ).strip(),
            "Run `edgeopt optimize` on this device.",
        )
    place = work.rest / "samples"
    save_samples(samples, place)
    judge = work.runs.judge
    runners = [
        ContestSide(RESULT, work.model, work.run.backend, work.run.options),
        ContestSide(SOURCE, work.request.model, judge, {}),
    ]
    found = compared(runners, place, work.rest, _LIMIT_S, work.emit)
    speed = found.speeds.get(SOURCE)
    if speed is None:
        detail = "; ".join(f"{name}: {reason}" for name, reason in found.failures.items())
        raise VerificationError(
            f"The rebuilt model could not be measured: {detail}.", "Run the command again, or leave --measure out."
        )
    if found.warning:
        work.warn(found.warning)
    return speed.evidence(f"source · {judge}", judged.value, work.floor_db, len(feeds))


def _summary_of(evidence: Evidence) -> str:
    times = f"{units.milliseconds(evidence.latency_ms)} against {units.milliseconds(evidence.baseline_ms)}"
    accuracy = accuracy_text(evidence.accuracy_db)
    if evidence.verdict == FASTER:
        return f"{evidence.speedup:.2f}x faster than {evidence.baseline} ({times}), {accuracy}."
    interval = units.speedup_text(evidence.speedup, evidence.speedup_low, evidence.speedup_high)
    return f"Not proved faster than {evidence.baseline}: {interval} ({times}), {accuracy}."


_COPIED = ("evidence.json", "ledger.json")
_PREDICTION = "prediction.json"


class Rebuilt(msgspec.Struct, frozen=True):
    bundle: str
    profile: str
    model: str
    steps: tuple[str, ...]
    same_files: bool
    """Whether the model's files are those of the first bundle, byte for byte."""
    summary: str
    measured: bool
    evidence: Evidence | None
    """Evidence that was measured here, otherwise that of the first bundle."""
    alike_db: float | None = None
    """Agreement of the golden outputs with the first bundle's; None if it came without, or they were not run."""
    accuracy_db: float | None = None
    """Agreement of the golden outputs with those of the source model."""
    floor_db: float | None = None
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0


def replay(request: ReplayRequest, emit: Emit = ignore) -> Rebuilt:
    """Rebuilds the bundle and writes it; raises an error with the reason if its outputs would differ."""
    begin = time.monotonic()
    # Normalized once: a path with ".." in it may lead elsewhere once folders exist.
    out = Path(os.path.abspath(request.out))  # noqa: PTH100 - `resolve` would follow a link at the end too
    write.check_target(out, [request.model, request.profile, *([request.data] if request.data else [])])
    emit(Progress("reading the profile", request.profile.name))
    profile = read_profile(request.profile)
    emit(Progress("reading the model", request.model.name))
    source = source_of(request.model, profile.deployment)
    with workspace(WORK) as rest, ModelRuns() as runs, write.draft(out) as folder:
        work = ReplayRun(request, profile, folder, rest, runs, emit)
        ledger = rebuild(profile, source, folder, rest, emit)
        same = _is_same(work)
        answered = _put_golden(work, same)
        evidence = prove(work) if request.measure else profile.deployment.evidence
        deployment = _with_processing(work, _described(work, same, answered.own_answers, evidence))
        documents = _documents(work, ledger)
        write.put_text(folder, request.model, profile.bundle)
        if profile.bundle is not None and profile.bundle.encoder is not None:
            write.put_encoder(folder, read_bundle(profile.bundle.encoder))
        if request.measure:
            fill_timed(LocalHost(rest), folder, deployment, documents, profile.record, emit)
        else:
            write.fill(folder, {}, deployment, documents, profile.record)
        write.publish(folder, out, single_file=request.single_file)
    return Rebuilt(
        bundle=str(out),
        profile=str(request.profile),
        model=str(request.model),
        steps=tuple(describe_step(step) for step in profile.deployment.steps),
        same_files=same,
        summary=deployment.summary,
        measured=request.measure,
        evidence=evidence,
        alike_db=answered.alike_db,
        accuracy_db=answered.accuracy_db,
        floor_db=answered.floor_db,
        warnings=tuple(work.warnings),
        seconds=time.monotonic() - begin,
    )


def source_of(path: Path, deployment: Deployment) -> "Model":
    """Loads the source model; raises ModelError if it is not the one that the bundle was made from."""
    from edgeopt.graph.model import load

    model, recorded = load(path), deployment.source
    if model.digest != recorded.sha256:
        raise ModelError(
            f"'{path.name}' is not the model that the bundle was made from: that was '{recorded.name}' with the "
            f"digest {recorded.sha256[:12]}..., and this one has {model.digest[:12]}...",
            f"Give that model, or optimize this one: edgeopt optimize {quote_word(str(path))} -o OUT",
        )
    return model


def _is_same(work: ReplayRun) -> bool:
    bundle, recorded = work.profile.bundle, dict(work.deployment.files)
    if not recorded and bundle is not None:
        listed = manifest.check_manifest(bundle.folder).files
        recorded = {
            name: entry.sha256 for name, entry in listed.items() if name.startswith(f"{write.MODEL_FOLDER}/")
        }
    made = {
        file.relative_to(work.folder).as_posix(): manifest.file_digest(file)
        for file in (work.folder / write.MODEL_FOLDER).rglob("*")
        if file.is_file()
    }
    if not recorded:
        work.warn("The profile holds no digests of the model's files, so they cannot be compared.")
    elif made != recorded:
        work.warn(
            "The model's files differ in some bytes: the first ones were written by edgeopt "
            f"{work.deployment.edgeopt} and the libraries of that time. Their outputs are compared "
            "instead."
        )
    return made == recorded


def _described(work: ReplayRun, same: bool, own_answers: bool, evidence: Evidence | None) -> Deployment:
    """Returns the deployment of the first bundle with the new evidence; a new measurement is about this device."""
    measured = work.request.measure
    replayed = Replayed(now(), __version__, measured, same, own_answers)
    first = msgspec.structs.replace(work.deployment, schema=SCHEMA, evidence=evidence, replayed=replayed)
    if not measured or evidence is None:
        return first
    return on_device(first, probe(), summary=_summary_of(evidence), predicted=None)


def _with_processing(work: ReplayRun, deployment: Deployment) -> Deployment:
    """Writes the files of the processing; without a measurement here, its times stay those of the first bundle."""
    recorded = deployment.processing
    if recorded is None:
        return deployment
    for place, content in work.profile.processing.items():
        (work.folder / place).parent.mkdir(exist_ok=True)
        (work.folder / place).write_bytes(content)
    processing = (
        outside(recorded) if not work.request.measure else msgspec.structs.replace(outside(recorded), times=None)
    )
    described = msgspec.structs.replace(deployment, processing=processing)
    rebuilt = Bundle(work.folder, described)
    if not rebuilt.has_golden(RAW) and not rebuilt.has_golden(FINAL):
        unchecked = put_processing_golden(work.folder, processing, (), rebuilt.golden("outputs"))
        if unchecked:
            work.warn(unchecked)
        return described
    processor = Processor(processing, work.folder, deployment.inputs)
    wrong = problem_with(rebuilt, processor)
    processor.close()
    if wrong:
        raise VerificationError(wrong, "Run `edgeopt optimize` again with the same --pre and --post.")
    return described


def _documents(work: ReplayRun, ledger: Ledger) -> dict[str, object]:
    """Returns the ledger of this replay, with the other documents of the first bundle if there is one."""
    bundle = work.profile.bundle
    if bundle is None:
        return {"ledger.json": ledger}
    names = (*_COPIED, *([] if work.request.measure else [_PREDICTION]))
    present = [name for name in names if (bundle.folder / name).is_file()]
    kept = {name: msgspec.Raw((bundle.folder / name).read_bytes()) for name in present}
    return {"ledger.json": ledger, **kept}
