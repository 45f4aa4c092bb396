"""Offline inference: a bundle or model over all samples of some data."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np

from edgeopt.backends.base import Array, Feeds
from edgeopt.backends.strictness import fallback
from edgeopt.bundle.processing.data import taken_by
from edgeopt.bundle.request import RunRequest
from edgeopt.bundle.runtime.session import Session, load
from edgeopt.data.read import load_data
from edgeopt.data.samples import Samples, write_archive
from edgeopt.errors import UsageError, writing_to
from edgeopt.events import Emit, Log, Progress

FILE = "outputs.npz"


class Ran(msgspec.Struct, frozen=True):
    subject: str
    samples: int
    out: str
    outputs: dict[str, list[int]]
    """The shape of each array written, samples along the first axis."""


def run_offline(request: RunRequest, emit: Emit) -> Ran:
    """Writes `outputs.npz` into the folder asked for: one array for each output, samples along the first axis."""
    subject, data, out = request.subject, request.data, request.out
    if out.exists() and not out.is_dir():
        raise UsageError(f"'{out}' is a file; the outputs go into a folder.", "Choose another place for -o.")
    with load(subject, strict=request.strict, custom_ops=request.custom_ops) as session:
        said = fallback(session.placement)
        if said is not None:
            emit(Log("warning", f"{said}."))
        samples, answer = (
            _raw(data, session) if request.process else (load_data(data, session.inputs), session.run)
        )
        count = len(samples)
        runs = []
        for index in range(count):
            if index % max(count // 100, 1) == 0:
                emit(Progress("running", subject.name, index, count))
            runs.append(answer(samples.feeds(index)))
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
            partial.replace(out / FILE)
    except BaseException:
        partial.unlink(missing_ok=True)
        if made:
            with contextlib.suppress(OSError):
                out.rmdir()
        raise
    return Ran(str(subject), count, str(out / FILE), {name: list(array.shape) for name, array in arrays.items()})


def _raw(path: Path, session: Session) -> tuple[Samples, Callable[[Feeds], dict[str, Array]]]:
    """The data as a bundle that processes takes it, and what makes final results of one sample."""
    told, processor = session.processing, session.processor
    if told is None or processor is None:
        raise UsageError("This does nothing before or after its model.", "Leave --process out.")
    if told.pre is not None and told.pre.pictures is None:
        return load_data(path, taken_by(told.pre, session.inputs), None), session.process
    pictures = told.pre.pictures if told.pre is not None else None
    return load_data(path, session.inputs, pictures), lambda feeds: processor.after(session.run(feeds))
