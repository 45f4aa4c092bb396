"""`edgeopt optimize` and `edgeopt.optimize`: of an ONNX model, or of what `edgeopt import` takes."""

import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, Unpack

import msgspec

from edgeopt.errors import EdgeoptError, UsageError, flag_of
from edgeopt.events import Emit, Log, Progress, ignore
from edgeopt.importing.request import PROOF_SAMPLES, Dynamic, ImportRequest, Opset, PythonPath, Task, Trust
from edgeopt.importing.sources import is_source
from edgeopt.keywords import read, takes
from edgeopt.options import changed, option
from edgeopt.pipeline.request import OptimizeKeywords, OptimizeRequest

if TYPE_CHECKING:
    from edgeopt.measure.report import OriginalSpeed
    from edgeopt.pipeline.outcome import Outcome

_OWN = ("python", "task", "trust", "dynamic", "opset", "samples")
_FIXED = re.compile(r"[^=]+=\d+(x\d+)+")
"""The shape of an input, not the sizes of an open dimension."""
_SHORTEST_S, _LONGEST_S = 5.0, 30.0


class OptimizeSourceRequest(OptimizeRequest, frozen=True):
    python: PythonPath = None
    task: Task = ""
    trust: Trust = False
    dynamic: Dynamic = ""
    opset: Opset = None
    samples: Annotated[
        int, option("Number of samples of the proof of an import.", metavar="N", minimum=1, maximum=4096)
    ] = PROOF_SAMPLES

    @property
    def is_of_source(self) -> bool:
        return is_source(str(self.model))


class OptimizeSourceKeywords(OptimizeKeywords, total=False):
    """Keywords of `edgeopt.optimize` for models to import; a test compares them with the request."""

    python: str | Path | None
    task: str
    trust: bool
    dynamic: str
    opset: int | None
    samples: int


class SearchFiles(NamedTuple):
    """Files of a search: the model, which an import writes, and its samples."""

    model: Path
    data: Path | None


@takes(OptimizeSourceRequest, OptimizeSourceKeywords)
def optimize(
    model: str | Path,
    out: str | Path,
    *,
    stop: threading.Event | None = None,
    emit: Emit = ignore,
    **keywords: Unpack[OptimizeSourceKeywords],
) -> "Outcome":
    """Finds the fastest deployment of a model on this device inside the accuracy floor, and writes it as a bundle.

    `model` is an ONNX model, or what `edgeopt import` takes, such as "net.py:Net"; that is imported first.
    `data` is a file, a folder, arrays by input name with samples along the first axis, or any iterable of feeds.
    A search that was done before is answered from the cache, unless it is to be `fresh`. Once another thread sets
    `stop`, what is best so far is proved shortly and written; StoppedError where nothing can be proved faster yet.
    """
    from edgeopt.data.samples import as_file
    from edgeopt.workspace import WORK, workspace

    with workspace(WORK) as folder:
        values = {**keywords, "model": model, "out": out, "data": as_file(keywords.get("data"), folder)}
        return optimize_source(read(OptimizeSourceRequest, values), emit, stop or threading.Event())


def search_files(settings: OptimizeSourceRequest) -> SearchFiles:
    """Returns files beside the bundle, under names that no one else writes."""
    from edgeopt.bundle.plan import IMPORTED
    from edgeopt.bundle.runtime.locate import encoder_beside

    if not settings.is_of_source:
        # The decoder of a speech model does not take the audio itself.
        is_speech = encoder_beside(settings.model) is not None
        return SearchFiles(settings.model, None if is_speech else settings.data)
    imported = settings.out.with_name(f"{settings.out.stem}{IMPORTED}.onnx")
    own = imported.with_suffix(".npz")
    return SearchFiles(imported, own if encoder_beside(imported) is not None else settings.data or own)


def optimize_source(settings: OptimizeSourceRequest, emit: Emit, stop: threading.Event) -> "Outcome":
    """Imports the model where it is one of another framework, and measures the bundle against that at the end."""
    from edgeopt.bundle.write import check_target, replace_document
    from edgeopt.commands.report.evidence import FILE
    from edgeopt.importing.importer import import_model
    from edgeopt.pipeline.request import check, inputs_of

    check_source(settings)
    if not settings.is_of_source:
        return _run(_search(settings), settings.data, emit, stop)
    check(settings)
    check_target(settings.out.absolute(), inputs_of(settings))
    _check_files(settings)
    model, data = search_files(settings)
    if not (settings.pick and model.is_file() and data is not None and data.exists()):
        import_model(_import_request(settings, model), emit)
    shape = tuple(s for s in settings.shape if not _FIXED.fullmatch(s))
    search = msgspec.structs.replace(
        _search(settings),
        model=model,
        data=data,
        pre=settings.pre if settings.pre is not None or shape else _imported_pre(model),
        shape=shape,
    )
    outcome = _run(search, settings.data, emit, stop)
    if stop.is_set():
        return outcome
    try:
        outcome = msgspec.structs.replace(outcome, original=_against_original(settings, search, emit))
        replace_document(search.out.absolute(), FILE, outcome)
        return outcome
    except EdgeoptError as error:
        warning = f"The bundle was not measured against {settings.model.name}: {error.message}"
        emit(Log("warning", warning))
        return msgspec.structs.replace(outcome, warnings=(*outcome.warnings, warning))


def _run(search: OptimizeRequest, data: Path | None, emit: Emit, stop: threading.Event) -> "Outcome":
    """Runs the search; that of a speech model takes `data` of the user, not the samples of an import."""
    from edgeopt.bundle.runtime.locate import encoder_beside
    from edgeopt.pipeline.optimize import run_search
    from edgeopt.pipeline.speech import search_speech

    encoder = encoder_beside(search.model)
    if encoder is None:
        return run_search(search, emit, stop)
    return search_speech(msgspec.structs.replace(search, data=data), encoder, emit, stop)


def _check_files(settings: OptimizeSourceRequest) -> None:
    """Raises what is wrong with the user's files by themselves, before an import, which may take minutes."""
    from edgeopt.bundle.processing.attach import pictures_for, read_steps
    from edgeopt.data.judging.metrics import NAMES, no_labels
    from edgeopt.data.preparation import picture_files, read_pictures
    from edgeopt.data.read import read_arrays, unprepared
    from edgeopt.hw.probe import probe
    from edgeopt.importing.sources import source_of
    from edgeopt.profiles.schema import Data
    from edgeopt.profiles.targets import profile_for
    from edgeopt.speech.files import audio_files

    data, pre, post = settings.data, settings.pre, settings.post
    profile = profile_for(probe(), settings.target, settings.profile)
    declared = pictures_for(pre if pre is not None and pre.suffix == ".toml" else None) or profile.data
    if post is not None and post.suffix == ".toml":
        read_steps(post)
    arrays = {}
    if data is not None and audio_files(data):
        return
    if data is not None and (pictures := picture_files(data)):
        source = source_of(str(settings.model))
        if declared is None and (source is None or source.kind != "huggingface"):
            raise unprepared(data)
        read_pictures(pictures[:1], declared or Data())
    elif data is not None:
        arrays = read_arrays(data)
    label_names = (settings.labels,) if settings.labels else NAMES
    if settings.goal.kind.needs_labels and not any(name in arrays for name in label_names):
        names = " or ".join(f"'{each}'" for each in label_names)
        raise no_labels(f"The data has no array {names}; it has: {', '.join(arrays) or 'none'}.")


def _imported_pre(model: Path) -> Path | None:
    """Returns the file that the import wrote for --pre, according to the metadata of its model."""
    import onnx

    from edgeopt.graph.import_proof import import_proof_in

    props = onnx.load(model, load_external_data=False).metadata_props
    proof = import_proof_in({each.key: each.value for each in props})
    return model.with_name(proof.pre) if proof is not None and proof.pre else None


def check_source(settings: OptimizeSourceRequest) -> None:
    """Raises UsageError for options of an import without one."""
    flags = [flag_of(each.name) for each in changed(settings) if each.name in _OWN]
    if flags and not settings.is_of_source:
        raise UsageError(
            f"{flags[0]} is for models of other frameworks, and '{settings.model}' is none.",
            f"Leave {flags[0]} out, or name one: net.py:Net",
        )


def _search(settings: OptimizeSourceRequest) -> OptimizeRequest:
    return OptimizeRequest(**{name: getattr(settings, name) for name in OptimizeRequest.__struct_fields__})


def _import_request(settings: OptimizeSourceRequest, model: Path) -> ImportRequest:
    data = settings.data
    # Pictures become samples in the search alone.
    is_read = data is not None and (data.suffix == ".npz" or any(data.glob("*.npy")))
    return ImportRequest(
        source=str(settings.model),
        out=model,
        data=data if is_read else None,
        allow_random=settings.allow_random,
        shape=tuple(each for each in settings.shape if _FIXED.fullmatch(each)),
        **{name: getattr(settings, name) for name in _OWN},
    )


def _against_original(settings: OptimizeSourceRequest, search: OptimizeRequest, emit: Emit) -> "OriginalSpeed":
    from edgeopt.commands.bench.bench import bench
    from edgeopt.commands.bench.request import Request
    from edgeopt.measure.report import ContestReport, OriginalSpeed

    emit(Progress("measuring the original", settings.model.name))
    report = bench(
        Request(
            str(search.out),
            against=(str(settings.model),),
            data=search.data if search.data is not None and search.data.suffix == ".npz" else None,
            duty="steady",
            time_limit_s=max(_SHORTEST_S, min(_LONGEST_S, search.time_limit_s or _LONGEST_S)),
            python=settings.python,
            task=settings.task,
            trust=settings.trust,
        ),
        emit,
    )
    assert isinstance(report, ContestReport)  # noqa: S101 - the duty is steady
    failed = next((side for side in report.sides if side.failure), None)
    if failed is not None:
        raise EdgeoptError(f"{failed.name} did not finish: {failed.failure}")
    comparison = next(iter(report.comparisons), None)
    (figures,) = (side.figures for side in report.sides[1:])
    return OriginalSpeed(
        report.originals[0],
        comparison.speedup if comparison else None,
        comparison.verdict if comparison else "too few rounds to tell",
        figures.p50_ms if figures else None,
    )
