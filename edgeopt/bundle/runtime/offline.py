"""Offline inference: a bundle or model over all samples of some data."""

import contextlib
import hashlib
import os
import re
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import msgspec
import numpy as np

from edgeopt.backends import backend_named
from edgeopt.backends.base import Array, Available, Feeds, fallback
from edgeopt.backends.onnxruntime.nvidia import external_files
from edgeopt.bundle.deployment import check_outside_bundles
from edgeopt.bundle.durable import remove
from edgeopt.bundle.manifest import file_digest
from edgeopt.bundle.processing.attach import pictures_for, taken_by
from edgeopt.bundle.request import RunRequest
from edgeopt.bundle.runtime.batching import run_together
from edgeopt.bundle.runtime.session import Session, load
from edgeopt.data.read import load_data
from edgeopt.data.samples import Samples, write_archive
from edgeopt.decoding import thread_safe
from edgeopt.errors import EdgeoptError, OptionReference, UsageError, writing_to
from edgeopt.events import Emit, Log, Progress
from edgeopt.platform.files import replace_path
from edgeopt.version import __version__

FOLDER = ".interrupted"
"""Folder within that of the outputs; it exists until these are complete."""
_RECORD = "run.json"
_PART = re.compile(r"(\d+)-(\d+)\.npz")
FILE = "outputs.npz"
_SAVE_EVERY_S = 5.0


class _Record(msgspec.Struct, frozen=True):
    run: str
    """A digest of all that the outputs depend on."""
    parts: dict[str, str] = {}
    """The SHA-256 of each file, by its name, which says the samples: `FIRST-END.npz`."""


class InterruptedRun:
    """The folder with the outputs so far, and whether they belong to this run."""

    def __init__(self, out: Path, identity: Callable[[], str]) -> None:
        """`identity` reads whole files, so it is called only where there is something to keep or to take up."""
        self._out = out
        self._made = not out.exists()
        self._folder = out / FOLDER
        self._identity = identity
        self._record: _Record | None = None

    @property
    def exists(self) -> bool:
        return self._folder.is_dir()

    def found(self) -> list[dict[str, Array]]:
        """The outputs of the first samples, as far as they are of this run and whole."""
        if not self.exists:
            return []
        try:
            record = msgspec.json.decode((self._folder / _RECORD).read_bytes(), type=thread_safe(_Record))
        except (OSError, msgspec.DecodeError):
            record = _Record("")
        runs: list[dict[str, Array]] = []
        kept: dict[str, str] = {}
        if record.run == self._identity():
            for name in sorted(filter(_PART.fullmatch, record.parts), key=_samples):
                first, end = _samples(name)
                part = self._whole(name, record.parts[name]) if first == len(runs) else None
                if part is None or len(part) != end - first:
                    break
                runs += part
                kept[name] = record.parts[name]
        for file in self._folder.iterdir():
            if file.name not in kept and file.name != _RECORD:
                remove(file)
        self._record = _Record(record.run, kept) if kept else None
        return runs

    def save(self, first: int, runs: Sequence[dict[str, Array]]) -> None:
        """Adds the outputs of the samples from `first` on; nothing is lost where this is interrupted itself."""
        if not runs:
            return
        name = f"{first}-{first + len(runs)}.npz"
        record = self._record or _Record(self._identity())
        with writing_to(self._folder / name, inside=self._out):
            self._folder.mkdir(parents=True, exist_ok=True)
            self._put(name, lambda partial: write_archive(partial, _numbered(runs)))
            self._record = _Record(record.run, {**record.parts, name: file_digest(self._folder / name)})
            self._put(_RECORD, lambda partial: partial.write_bytes(msgspec.json.encode(self._record)))

    def clear(self) -> None:
        remove(self._folder)

    def _put(self, name: str, write: Callable[[Path], object]) -> None:
        partial = self._folder / f".{name}.partial-{os.getpid()}"
        try:
            write(partial)
            replace_path(partial, self._folder / name)
        except BaseException:
            partial.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                self._folder.rmdir()
                if self._made:
                    self._out.rmdir()
            raise

    def _whole(self, name: str, digest: str) -> list[dict[str, Array]] | None:
        """Returns the outputs in a file, or None if it is damaged or holds a type that numpy does not write."""
        runs: defaultdict[int, dict[str, Array]] = defaultdict(dict)
        try:
            if file_digest(self._folder / name) != digest:
                return None
            with np.load(self._folder / name) as archive:
                for key, array in archive.items():
                    sample, output = key.split("/", 1)
                    runs[int(sample)][output] = array
        except (OSError, ValueError, BadZipFile, zlib.error):
            return None
        if any(array.dtype.kind == "V" for run in runs.values() for array in run.values()):
            return None
        return [runs[k] for k in sorted(runs)]


def digest_of_paths(*paths: Path) -> str:
    """One digest of files, and of all files in folders, by name and content."""
    digest = hashlib.sha256()
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                digest.update(f"{file.relative_to(path.parent)}\0{file_digest(file)}\n".encode())
    return digest.hexdigest()


def _samples(name: str) -> tuple[int, int]:
    first, end = name.removesuffix(".npz").split("-")
    return int(first), int(end)


def _numbered(runs: Sequence[dict[str, Array]]) -> dict[str, Array]:
    return {f"{k}/{name}": array for k, run in enumerate(runs) for name, array in run.items()}


class OfflineRun(msgspec.Struct, frozen=True):
    subject: str
    samples: int
    out: str
    outputs: dict[str, list[int]]
    """The shape of each array written, samples along the first axis."""
    resumed: int = 0
    """Samples whose outputs an interrupted run had left, checked and not run again."""


def run_offline(request: RunRequest, emit: Emit) -> OfflineRun:
    """Writes `outputs.npz` into the folder asked for: one array for each output, samples along the first axis.

    Until that is complete, the outputs so far lie beside it, and the same run goes on with them.
    """
    subject, data, out = request.subject, request.data, request.out
    assert data is not None  # noqa: S101 - `input_of` has checked both
    assert out is not None  # noqa: S101
    if request.batch > 1 and request.process:
        raise UsageError(
            "--batch needs prepared samples, and --process raw ones.",
            "Leave one of them out.",
            [OptionReference("batch"), OptionReference("process")],
        )
    if out.exists() and not out.is_dir():
        raise UsageError(f"'{out}' is a file; the outputs need a folder.", "Choose another place for -o.")
    if data.exists() and (out / FILE).exists() and (out / FILE).samefile(data):
        raise UsageError(f"'{data}' is an input and would be replaced.", "Choose another folder for -o.")
    check_outside_bundles(out)
    with load(subject, strict=request.strict, custom_ops=request.custom_ops) as session:
        warning = fallback(session.placement)
        if warning is not None:
            emit(Log("warning", f"{warning}."))
        samples, answer = (
            _raw(data, session, request.pre)
            if request.process
            else (load_data(data, session.inputs, pictures_for(request.pre, session.processing)), session.run)
        )
        count = len(samples)
        if request.batch > 1:
            session.check_batching([samples.feeds(k) for k in range(min(count, 4))], request.batch)
        interrupted = InterruptedRun(out, lambda: _identity(request, data, session))
        left_over = interrupted.exists
        runs = interrupted.found()
        resumed = len(runs)
        if left_over and not resumed:
            emit(
                Log(
                    "info",
                    f"The partial results in '{out}' are damaged or of another run and are ignored.",
                )
            )
        if resumed:
            emit(Log("info", f"{resumed} of {count} samples were done before the interruption; continuing."))
        _run_rest(_Work(samples, answer, request.batch, subject.name), runs, interrupted, emit)
    shapes = {name: {run[name].shape for run in runs} for name in runs[0]}
    uneven = next((name for name, found in shapes.items() if len(found) > 1), None)
    if uneven is None:
        arrays = {name: np.stack([run[name] for run in runs]) for name in runs[0]}
    else:
        # Outputs whose shape depends on the sample (detections, say) cannot be one array.
        arrays = {f"{name}/{k}": run[name] for k, run in enumerate(runs) for name in run}
    made = not out.exists()
    partial = out / f".{FILE}.partial-{os.getpid()}"
    try:
        with writing_to(out / FILE, inside=out):
            out.mkdir(parents=True, exist_ok=True)
            write_archive(partial, arrays)
            replace_path(partial, out / FILE)
        interrupted.clear()
    except BaseException:
        partial.unlink(missing_ok=True)
        if made:
            with contextlib.suppress(OSError):
                out.rmdir()
        raise
    written = {name: list(array.shape) for name, array in arrays.items()}
    return OfflineRun(str(subject), count, str(out / FILE), written, resumed)


@dataclass(frozen=True, slots=True)
class _Work:
    samples: Samples
    answer: Callable[[Feeds], dict[str, Array]]
    batch: int
    name: str


def _run_rest(work: _Work, runs: list[dict[str, Array]], interrupted: InterruptedRun, emit: Emit) -> None:
    """Adds the outputs of all samples that `runs` does not have yet, and saves them every few seconds."""
    count, saved = len(work.samples), len(runs)
    reported, begin, resumed = -1, time.monotonic(), len(runs)
    last_save = begin
    try:
        for batch in _batches(work.samples, saved, work.batch):
            done, now = len(runs), time.monotonic()
            if done // max(count // 100, 1) != reported:
                reported = done // max(count // 100, 1)
                left = (now - begin) / (done - resumed) * (count - done) if done > resumed else None
                emit(Progress("running", work.name, done, count, time_left_s=left))
            if now - last_save > _SAVE_EVERY_S:
                interrupted.save(saved, runs[saved:])
                saved, last_save = done, time.monotonic()
            together = run_together(work.answer, batch) if len(batch) > 1 else None
            runs += together if together is not None else [work.answer(feeds) for feeds in batch]
    except BaseException:
        # What ended the run is what counts, even where its outputs cannot be saved.
        with contextlib.suppress(EdgeoptError, OSError):
            interrupted.save(saved, runs[saved:])
        raise


def _batches(samples: Samples, first: int, maximum: int) -> Iterator[Sequence[Feeds]]:
    """Samples that follow each other and have equal shapes."""
    batch: list[Feeds] = []
    for index in range(first, len(samples)):
        feeds = samples.feeds(index)
        if batch and (len(batch) == maximum or any(a.shape != batch[0][n].shape for n, a in feeds.items())):
            yield batch
            batch = []
        batch.append(feeds)
    if batch:
        yield batch


def _identity(request: RunRequest, data: Path, session: Session) -> str:
    """Returns a text that identifies the outputs: a digest of model, weights and data, the runtime, the batch."""
    subject = request.subject
    beside = [subject.with_suffix(".bin")] if subject.suffix == ".xml" else []
    if subject.suffix == ".onnx":
        beside = [subject.parent / name for name in external_files(subject)]
    runtime = backend_named(session.backend).available()
    version = runtime.version if isinstance(runtime, Available) else ""
    beside += [request.pre] if request.pre is not None else []
    digest = digest_of_paths(subject, *beside, data, *map(Path, request.custom_ops))
    return (
        f"edgeopt {__version__}, {session.backend} {version}, batch {request.batch}, {request.process}, {digest}"
    )


def _raw(path: Path, session: Session, pre: Path | None) -> tuple[Samples, Callable[[Feeds], dict[str, Array]]]:
    """The data as a bundle that processes takes it, and what makes final results of one sample."""
    processing, processor = session.processing, session.processor
    if processing is None or processor is None:
        raise UsageError("It has no pre- or postprocessing.", "Leave --process out.")
    if processing.pre is not None and processing.pre.pictures is None:
        return load_data(path, taken_by(processing.pre, session.inputs), None), session.process
    return load_data(path, session.inputs, pictures_for(pre, processing)), lambda feeds: processor.after(
        session.run(feeds)
    )
