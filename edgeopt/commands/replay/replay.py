"""`edgeopt replay`: the bundle of a deployment profile again, from the source model, without searching."""

import os
import shlex
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from edgeopt.bundle import manifest, write
from edgeopt.bundle.deployment import SCHEMA, Deployment, Evidence, Replayed, machine_of
from edgeopt.bundle.golden import FINAL, RAW, problem_with, put_processing_golden
from edgeopt.bundle.processing.run import Processor
from edgeopt.bundle.read import Bundle
from edgeopt.commands.replay.golden import put_golden
from edgeopt.commands.replay.measure import prove, summary_of
from edgeopt.commands.replay.processing import outside
from edgeopt.commands.replay.profile import read_profile
from edgeopt.commands.replay.request import ReplayRequest
from edgeopt.commands.replay.steps import rebuild, said_of
from edgeopt.commands.replay.work import Work
from edgeopt.errors import ModelError, VerificationError
from edgeopt.events import Emit, Progress, ignore
from edgeopt.graph.ledger import Ledger
from edgeopt.hw.device import fingerprint
from edgeopt.hw.probe import probe
from edgeopt.measure.host import LocalHost
from edgeopt.measure.stages import fill_timed
from edgeopt.quant.measured.runs import Runs
from edgeopt.version import __version__
from edgeopt.workspace import WORK, workspace

if TYPE_CHECKING:
    from edgeopt.graph.model import Model

_COPIED = ("evidence.json", "ledger.json")
_PREDICTION = "prediction.json"


class Rebuilt(msgspec.Struct, frozen=True):
    """What a replay gave."""

    bundle: str
    profile: str
    model: str
    steps: tuple[str, ...]
    same_files: bool
    """The model's files are those of the first bundle, byte for byte."""
    summary: str
    measured: bool
    evidence: Evidence | None
    """Taken here where it was measured, else that of the first bundle."""
    alike_db: float | None = None
    """The golden outputs against those of the first bundle; None where it came without, or they were not run."""
    accuracy_db: float | None = None
    """The same against those of the source model."""
    floor_db: float | None = None
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0


def replay(request: ReplayRequest, emit: Emit = ignore) -> Rebuilt:
    """Writes the bundle, or raises why it would not be the same."""
    begin = time.monotonic()
    # One spelling for all that follows: a path with ".." in it may lead elsewhere once folders exist.
    out = Path(os.path.abspath(request.out))  # noqa: PTH100 - `resolve` would follow a link at the end too
    write.check_target(out, [request.model, request.profile, *([request.data] if request.data else [])])
    emit(Progress("reading the profile", request.profile.name))
    profile = read_profile(request.profile)
    emit(Progress("reading the model", request.model.name))
    source = source_of(request.model, profile.deployment)
    with workspace(WORK) as rest, Runs() as runs, write.draft(out) as folder:
        work = Work(request, profile, folder, rest, runs, emit)
        ledger = rebuild(profile, source, folder, rest, emit)
        same = _is_same(work)
        answered = put_golden(work, same)
        evidence = prove(work) if request.measure else profile.deployment.evidence
        deployment = _with_processing(work, _described(work, same, answered.own_answers, evidence))
        documents = _documents(work, ledger)
        if request.measure:
            fill_timed(LocalHost(rest), folder, deployment, documents, profile.record, emit)
        else:
            write.fill(folder, {}, deployment, documents, profile.record)
        write.publish(folder, out, single_file=request.single_file)
    return Rebuilt(
        bundle=str(out),
        profile=str(request.profile),
        model=str(request.model),
        steps=tuple(said_of(step) for step in profile.deployment.steps),
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
    """The source model; ModelError where it is another than then."""
    from edgeopt.graph.model import load

    model, told = load(path), deployment.source
    if model.digest != told.sha256:
        raise ModelError(
            f"'{path.name}' is not the model that the bundle was made from: that was '{told.name}' with the "
            f"digest {told.sha256[:12]}..., and this one has {model.digest[:12]}...",
            f"Give that model, or optimize this one: edgeopt optimize {shlex.quote(str(path))} -o OUT",
        )
    return model


def _is_same(work: Work) -> bool:
    """Whether the files are those of the first bundle."""
    bundle, told = work.profile.bundle, dict(work.deployment.files)
    if not told and bundle is not None:
        listed = manifest.check_manifest(bundle.folder).files
        told = {name: entry.sha256 for name, entry in listed.items() if name.startswith(f"{write.MODEL_FOLDER}/")}
    made = {
        file.relative_to(work.folder).as_posix(): manifest.file_digest(file)
        for file in (work.folder / write.MODEL_FOLDER).rglob("*")
        if file.is_file()
    }
    if not told:
        work.warn("The profile holds no digests of the model's files, so they cannot be compared.")
    elif made != told:
        work.warn(
            "The model's files differ in some bytes: the first ones were written by edgeopt "
            f"{work.deployment.edgeopt} and the libraries of that time. Their outputs are compared "
            "instead."
        )
    return made == told


def _described(work: Work, same: bool, own_answers: bool, evidence: Evidence | None) -> Deployment:
    """That of the first bundle; a new measurement is about this device."""
    now, measured = datetime.now(UTC).isoformat(timespec="seconds"), work.request.measure
    replayed = Replayed(now, __version__, measured, same, own_answers)
    first = msgspec.structs.replace(work.deployment, schema=SCHEMA, evidence=evidence, replayed=replayed)
    if not measured or evidence is None:
        return first
    device = probe()
    return msgspec.structs.replace(
        first,
        summary=summary_of(evidence),
        predicted=None,
        device=fingerprint(device),
        machine=machine_of(device),
        runtimes={runtime.name: runtime.version for runtime in device.runtimes},
    )


def _with_processing(work: Work, deployment: Deployment) -> Deployment:
    """Writes its files; what was timed of it stays that of the first bundle, as the evidence does."""
    told = deployment.processing
    if told is None:
        return deployment
    for place, content in work.profile.processing.items():
        (work.folder / place).parent.mkdir(exist_ok=True)
        (work.folder / place).write_bytes(content)
    processing = outside(told) if not work.request.measure else msgspec.structs.replace(outside(told), times=None)
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


def _documents(work: Work, ledger: Ledger) -> dict[str, object]:
    """Those of the first bundle if there is one; otherwise those of this replay."""
    bundle = work.profile.bundle
    if bundle is None:
        return {"ledger.json": ledger}
    wanted = (*_COPIED, *([] if work.request.measure else [_PREDICTION]))
    present = [name for name in wanted if (bundle.folder / name).is_file()]
    kept = {name: msgspec.Raw((bundle.folder / name).read_bytes()) for name in present}
    return {"ledger.json": ledger, **kept}
