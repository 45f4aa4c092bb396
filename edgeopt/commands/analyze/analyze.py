"""Structure and cost of a model or a bundle, and ways to improve it: `edgeopt analyze`."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from edgeopt import units
from edgeopt.bundle.deployment import SUFFIX, Deployment, Processing
from edgeopt.bundle.read import Bundle, is_bundle, read_bundle
from edgeopt.commands.analyze.messages import RealShapes, Rewrites, Rewritten, Seen
from edgeopt.commands.analyze.request import AnalyzeRequest, check
from edgeopt.decoding import thread_safe
from edgeopt.errors import MissingExtraError
from edgeopt.events import Emit, Progress, ignore
from edgeopt.graph.analysis import Analysis, DeploymentRow, ProvedOutput
from edgeopt.graph.analysis.records import AnalysisOptions
from edgeopt.graph.files.sniff import check_file
from edgeopt.graph.import_proof import ImportProof
from edgeopt.graph.nodes import rare_collections
from edgeopt.hw.device import Device
from edgeopt.hw.probe import probe
from edgeopt.options import read_shapes
from edgeopt.profiles.schema import Data
from edgeopt.workers.client import WorkerClient
from edgeopt.workers.host import LocalHost
from edgeopt.workspace import temporary_folder

if TYPE_CHECKING:
    from edgeopt.backends.base import Backend
    from edgeopt.graph.model import Model


# What is asked of a model must not take longer than people wait: larger ones are left out, and a note says so.
_REWRITES_MAX_BYTES = 300_000_000
_COVERAGE_MAX_BYTES = 1_500_000_000
_RUN_MAX_BYTES = 500_000_000
_BYTES_PER_S = 50e6
_RUN_LIMIT_S = 30.0


@dataclass(frozen=True, slots=True)
class AnalyzeKeywords:
    data: Path | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    device: Device | None = None
    coverage: bool = True
    opportunities: bool = True
    run: bool = True
    backends: tuple[str, ...] = ()
    threads: int | None = None
    profile_ops: bool | tuple[str, ...] = ()
    pre: Path | None = None
    pictures: Data | None = None
    """The preparation of pictures in the data: that of `pre`, else that of the bundle."""


def analyze(  # noqa: PLR0913 - all but the first two are optional and given by name
    path: str | Path,
    emit: Emit = ignore,
    *,
    data: str | Path | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    device: Device | None = None,
    coverage: bool = True,
    opportunities: bool = True,
    run: bool = True,
    backends: Sequence[str] = (),
    threads: int | None = None,
    profile_ops: bool | Sequence[str] = (),
    pre: str | Path | None = None,
) -> Analysis:
    """Looks at a model, or at the model of a bundle and what the bundle says of itself.

    `shapes` and `data` say what the figures are for where the model leaves dimensions open; `device` is this one
    unless another is given. `coverage` asks the installed runtimes, or those of `backends`, which nodes they would
    run, and `opportunities` looks for what could be done; `run` allows one run where shapes stay unknown.
    `profile_ops` names backends to measure node by node; True: those of the processor. `pre` names a TOML file
    that says how pictures in `data` are prepared; without it a bundle's own preparation counts.
    """
    keywords = AnalyzeKeywords(
        Path(data) if data is not None else None,
        shapes or {}, device, coverage, opportunities, run, tuple(backends), threads,
        profile_ops if isinstance(profile_ops, bool) else tuple(profile_ops),
        Path(pre) if pre is not None else None,
    )  # fmt: skip
    return read_and_analyze(Path(path), keywords, emit).analysis


@dataclass(frozen=True, slots=True)
class AnalyzedModel:
    """An analysis and what it was read from, for those who look at the graph as well."""

    analysis: Analysis
    model: "Model | None"
    """Graph of the model; None for an OpenVINO IR."""
    bundle: Bundle | None = None
    """Bundle that was analyzed; the unpacked files of a single-file bundle exist while this reference does."""


def _pictures_for(pre: Path | None, processing: Processing | None = None) -> Data | None:
    """Returns how pictures in the data are prepared; the reader is imported only where it is needed."""
    if pre is None and processing is None:
        return None
    from edgeopt.bundle.processing.attach import pictures_for

    return pictures_for(pre, processing)


def read_and_analyze(path: Path, keywords: AnalyzeKeywords, emit: Emit = ignore) -> AnalyzedModel:
    """Reads a model, or that of a bundle, once."""
    if not is_bundle(path) and path.suffix != SUFFIX:
        return AnalyzedModel(*_model(path, replace(keywords, pictures=_pictures_for(keywords.pre)), emit))
    emit(Progress("checking digests", path.name))
    bundle = read_bundle(path)
    keywords = replace(keywords, pictures=_pictures_for(keywords.pre, bundle.deployment.processing))
    analysis, model = _model(bundle.model, keywords, emit)
    left = analysis.opportunities
    if left:
        from edgeopt.commands.analyze.opportunities import tried_for
        from edgeopt.commands.report.evidence import evidence_in

        tried = tried_for(evidence_in(bundle.folder))
        left = tuple(each for each in left if each.kind not in tried)
    evidence = recorded_proofs(bundle.folder)
    analysis = msgspec.structs.replace(
        analysis,
        name=path.name,
        path=str(path),
        kind="bundle",
        deployment=deployment_row(bundle.deployment, evidence.outputs),
        imported=analysis.imported or evidence.imported,
        opportunities=left,
    )
    return AnalyzedModel(analysis, model, bundle)


def analyze_request(request: AnalyzeRequest, emit: Emit) -> Analysis:
    check(request)
    return analyze(
        request.subject,
        emit,
        data=request.data,
        pre=request.pre,
        shapes=read_shapes(request.shape),
        backends=request.backends,
        threads=request.threads,
        coverage=not request.quick,
        opportunities=not request.quick,
        # Without the real shapes there is no least time to compare with.
        run=request.profile_ops or not (request.no_run or request.quick),
        profile_ops=request.profile_ops and (request.backends or True),
    )


@rare_collections()
def _model(path: Path, keywords: AnalyzeKeywords, emit: Emit) -> "tuple[Analysis, Model | None]":
    """Reads the model in this process, while others run the passes and ask the runtimes."""
    emit(Progress("reading the model", path.name))
    device = keywords.device or probe()
    backends: list[Backend] = []
    if keywords.coverage or keywords.backends:
        # Not at the top of the file: `--quick`, whose end the app waits for, asks no backend.
        from edgeopt.commands.analyze.coverage import CoverageCheck, installed

        backends = installed(keywords.backends, device)
    if path.suffix != ".xml":
        check_file(path)  # before any process is started that would have to end again
    notes: list[str] = []
    with ExitStack() as stack:
        # The reader reports a path that is not a file.
        size = path.stat().st_size if path.is_file() else None
        folder = Path(stack.enter_context(temporary_folder("analyze")))
        worker = stack.enter_context(closing(WorkerClient(LocalHost(folder))))
        coverage = None
        if keywords.coverage and size is not None and _small_enough(size, keywords, notes):
            coverage = stack.enter_context(closing(CoverageCheck(path, backends, named=bool(keywords.backends))))
        asks_passes = (
            keywords.opportunities
            and size is not None
            and path.suffix != ".xml"
            and _asked_the_passes(path, size, worker, notes)
        )
        options = AnalysisOptions(keywords.shapes, {}, device, keywords.threads)
        model, read = _reader(path)
        analysis = read(options)
        if keywords.shapes:
            from edgeopt.commands.analyze.inputs import check_shapes

            check_shapes(keywords.shapes, analysis.inputs)
        if keywords.data is not None:
            from edgeopt.commands.analyze.inputs import shapes_of

            emit(Progress("reading the data", keywords.data.name))
            options = replace(options, shapes=shapes_of(keywords.data, analysis.inputs, keywords.pictures))
            analysis = read(options)
        if asks_passes:
            emit(Progress("trying the passes"))
        rewritten = _rewritten(worker, size or 0, notes) if asks_passes else None
        if keywords.run and _unknown(analysis) and analysis.format == "ONNX" and (size or 0) <= _RUN_MAX_BYTES:
            emit(Progress("running once for the shapes"))
            options = _with_real_shapes(path, options, keywords, worker, notes)
            analysis = read(options)
        if coverage is not None:
            analysis = msgspec.structs.replace(analysis, coverage=coverage.rows(emit))
    # Only now: what else runs would disturb the times.
    if keywords.profile_ops:
        analysis = _profiled(path, analysis, options, keywords, emit)
    if not keywords.opportunities:
        return msgspec.structs.replace(analysis, warnings=(*analysis.warnings, *notes)), model
    from edgeopt.commands.analyze.opportunities import find_all
    from edgeopt.commands.analyze.opportunity_view import View

    view = View(analysis, options.device, options.threads, rewritten, keywords.data, keywords.pictures)
    found = find_all(view)
    return msgspec.structs.replace(analysis, opportunities=found, warnings=(*analysis.warnings, *notes)), model


def _reader(path: Path) -> "tuple[Model | None, Callable[[AnalysisOptions], Analysis]]":
    """Loads the model once; it is looked at again when more is known about its shapes."""
    if path.suffix == ".xml":
        from edgeopt.graph.analysis.openvino_ir import analyze_ir

        return None, lambda _: analyze_ir(path)
    from edgeopt.graph.model import load

    model = load(path)
    from edgeopt.graph.analysis.onnx import analysis_of  # after it: a file that is refused is refused sooner

    return model, lambda options: analysis_of(model, options)


def _small_enough(size: int, keywords: AnalyzeKeywords, notes: list[str]) -> bool:
    """Runtimes hold the whole model, and several at once multiply that; named backends are asked anyway."""
    if size <= _COVERAGE_MAX_BYTES or keywords.backends:
        return True
    notes.append(
        f"The model is larger than {units.size(_COVERAGE_MAX_BYTES)}, so runtimes were not asked "
        "which nodes they run; name one with --backend to ask it."
    )
    return False


def _asked_the_passes(path: Path, size: int, worker: WorkerClient, notes: list[str]) -> bool:
    if size > _REWRITES_MAX_BYTES:
        notes.append(
            f"The model is larger than {units.size(_REWRITES_MAX_BYTES)}, so passes were not tried; "
            "`edgeopt simplify` tries them."
        )
        return False
    worker.send(Rewrites(str(path.absolute()), _rewrites_limit_s(size)))
    return True


def _rewrites_limit_s(size: int) -> float:
    """Returns the limit: small models need up to 3 s of a desktop's processor, and a device is far slower."""
    return 10.0 + 0.5 * size / _BYTES_PER_S


def _rewritten(worker: WorkerClient, size: int, notes: list[str]) -> Rewritten | None:
    """Returns the worker's answer; the child limits its own time, and this limit is for a pass that never ends."""
    answer = worker.answer(Rewritten, 5 * _rewrites_limit_s(size))
    if isinstance(answer, Rewritten):
        if answer.not_asked:
            names = ", ".join(answer.not_asked[:3]) + (" and others" if len(answer.not_asked) > 3 else "")
            notes.append(
                f"{len(answer.not_asked)} passes were not tried in time ({names}); `edgeopt simplify` tries them."
            )
        return answer
    notes.append(f"Passes could not be tried: {answer.reason}")
    return None


def _unknown(analysis: Analysis) -> bool:
    """Whether a run could tell more: a few tensors without a size matter to nothing but the peak of memory."""
    work = analysis.work
    return work is None or work.unknown > 0 or work.peak_activation_bytes is None


def _with_real_shapes(
    path: Path, options: AnalysisOptions, keywords: AnalyzeKeywords, worker: WorkerClient, notes: list[str]
) -> AnalysisOptions:
    """Adds the shapes that the tensors had in one run; if the model cannot run, adds a note only."""
    data = str(keywords.data.absolute()) if keywords.data is not None else ""
    worker.send(RealShapes(str(path.absolute()), dict(options.shapes), data, keywords.pictures))
    answer = worker.answer(Seen, _RUN_LIMIT_S)
    if isinstance(answer, Seen):
        return replace(options, real=answer.shapes)
    notes.append(f"The model could not be run to find unknown shapes: {answer.reason}")
    return options


def _profiled(
    path: Path, analysis: Analysis, options: AnalysisOptions, keywords: AnalyzeKeywords, emit: Emit
) -> Analysis:
    from edgeopt.commands.analyze.inputs import feeds_for
    from edgeopt.measure.op_times import Timing, profile_ops, timeable

    names = keywords.profile_ops
    if names is True:
        here = timeable(path)
        # Several backends of one runtime run on the processor; one of each is enough.
        names = tuple(name for name in here if name.endswith("-cpu")) or here
        if not names:
            raise MissingExtraError("cpu", "Measuring the time of every node")
    feeds = feeds_for(path, keywords.data, options.shapes, analysis.inputs, keywords.pictures)
    timing = Timing(threads=keywords.threads, device=options.device)
    times = profile_ops(path, analysis, names or (), feeds, emit=emit, timing=timing)
    return msgspec.structs.replace(analysis, op_times=times)


_EVIDENCE = "evidence.json"
_LARGEST_BYTES = 64 << 20


class _Proof(msgspec.Struct, frozen=True):
    outputs: tuple[ProvedOutput, ...] = ()


class RecordedProofs(msgspec.Struct, frozen=True):
    """Fields that the records of all proofs share; reading a complete record imports the search's modules."""

    proof: _Proof | None = None
    imported: ImportProof | None = None

    @property
    def outputs(self) -> tuple[ProvedOutput, ...]:
        return self.proof.outputs if self.proof is not None else ()


def recorded_proofs(folder: Path) -> RecordedProofs:
    """Reads the proofs of a bundle; an invalid record gives none, and `edgeopt report` explains the error."""
    file = folder / _EVIDENCE
    try:
        if file.stat().st_size > _LARGEST_BYTES:
            return RecordedProofs()
        return msgspec.json.decode(file.read_bytes(), type=thread_safe(RecordedProofs))
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return RecordedProofs()


def deployment_row(deployment: Deployment, outputs: tuple[ProvedOutput, ...] = ()) -> DeploymentRow:
    evidence = deployment.evidence
    row = DeploymentRow(
        deployment.name,
        deployment.created,
        deployment.target,
        deployment.run.backend,
        deployment.run.options,
        deployment.source.name,
        deployment.summary,
        outputs=outputs,
    )
    if evidence is None:
        # An analysis has no predicted times; the verdict contains the prediction.
        predicted = deployment.predicted
        return msgspec.structs.replace(row, verdict=predicted.verdict) if predicted else row
    return msgspec.structs.replace(
        row,
        verdict=evidence.verdict,
        speedup=evidence.speedup,
        speedup_low=evidence.speedup_low,
        speedup_high=evidence.speedup_high,
        latency_ms=evidence.latency_ms,
        accuracy_db=evidence.accuracy_db,
        floor_db=evidence.floor_db,
    )
