"""The kinds of contenders that a trial opens: a model, a bundle, a user's program, a served model."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from edgeopt.backends import backend_named
from edgeopt.backends.base import Array, TensorInfo

# Every trial imports the module for bundles, which takes 5 MiB; otherwise only trials of bundles would start
# larger.
from edgeopt.bundle.runtime.locate import locate
from edgeopt.bundle.runtime.session import Session, load
from edgeopt.data.samples import open_samples
from edgeopt.errors import UsageError
from edgeopt.measure.memory import Sizes, exact_sizes, sizes_of_others
from edgeopt.measure.messages import Describe, Described, Load, Placed, Places, Staged, StageTimes, TimeStages
from edgeopt.platform.processes import own_group

# Rotation has at least two batches, because the samples of one might fit in a cache.
_FEWEST = 2
_WARM_UP_RUNS = 3
_FEWEST_RUNS, _MAX_RUNS = 5, 2000
COMMAND, URL, BUNDLE = "command", "url", "bundle"


def in_batches(samples: Sequence[dict[str, Array]], batch: int) -> list[dict[str, Array]]:
    """Returns the samples in rotation as batches; an incomplete last batch continues with the first samples."""
    if batch == 1:
        return list(samples)
    count = max(_FEWEST, len(samples) // batch)
    return [stacked([samples[(k * batch + j) % len(samples)] for j in range(batch)]) for k in range(count)]


def stacked(samples: Sequence[dict[str, Array]]) -> dict[str, Array]:
    return {name: np.concatenate([each[name] for each in samples]) for name in samples[0]}


def answers(
    run: Callable[[dict[str, Array]], dict[str, Array]], samples: Sequence[dict[str, Array]], batch: int
) -> list[dict[str, Array]]:
    """Runs samples in batches and returns each answer; raises UsageError if outputs lack a row per sample."""
    if batch == 1:
        return [run(feeds) for feeds in samples]
    found: list[dict[str, Array]] = []
    for begin in range(0, len(samples), batch):
        some = [samples[(begin + j) % len(samples)] for j in range(batch)]
        found += _rows(run(stacked(some)), batch)
    return found[: len(samples)]


def _rows(outputs: dict[str, Array], batch: int) -> list[dict[str, Array]]:
    odd = next((name for name, array in outputs.items() if array.shape[:1] != (batch,)), None)
    if odd is not None:
        shape = list(outputs[odd].shape)
        raise UsageError(
            f"The output '{odd}' of {batch} samples together has the shape {shape}, not one row per sample.",
            "Run this model one sample at a time.",
        )
    return [{name: array[k : k + 1] for name, array in outputs.items()} for k in range(batch)]


def time_stages(request: TimeStages) -> Staged:
    """Times the stages of a bundle on its golden samples for this long; raises UsageError without processing."""
    from edgeopt.bundle.golden import RAW

    path, seconds = Path(request.bundle_path), request.seconds
    bundle = locate(path).bundle
    processing = bundle.deployment.processing if bundle is not None else None
    if bundle is None or processing is None:
        raise UsageError(f"'{path.name}' has no pre- or postprocessing.", "There is nothing to time.")
    feeds = bundle.golden("inputs")
    raw = bundle.golden(RAW) if processing.pre is not None and bundle.has_golden(RAW) else None
    laps: list[tuple[float, float, float]] = []
    with load(path) as session:
        for position in range(_WARM_UP_RUNS):
            _lap(session, raw, feeds, position)
        until = time.perf_counter() + seconds
        while len(laps) < _MAX_RUNS and (len(laps) < _FEWEST_RUNS or time.perf_counter() < until):
            laps.append(_lap(session, raw, feeds, len(laps)))
    pre, inference, post = (float(value) for value in np.median(np.asarray(laps), axis=0) * 1e3)
    times = StageTimes(
        inference_ms=inference,
        runs=len(laps),
        pre_ms=pre if raw is not None else None,
        post_ms=post if processing.post is not None else None,
    )
    return Staged(times)


def _lap(
    session: Session, raw: list[dict[str, Array]] | None, feeds: list[dict[str, Array]], position: int
) -> tuple[float, float, float]:
    """Times the stages once; inference runs golden inputs, not preprocessed samples that may be made up."""
    processor, inputs = session.processor, feeds[position % len(feeds)]
    assert processor is not None  # noqa: S101 - the bundle processes
    begin = time.perf_counter()
    if raw is not None:
        processor.pre(raw[position % len(raw)])
    prepared = time.perf_counter()
    outputs = session.run(inputs)
    answered = time.perf_counter()
    processor.after(outputs)
    return prepared - begin, answered - prepared, time.perf_counter() - answered


class Loads(Protocol):
    """A loaded contender, which may also have a `placement`."""

    @property
    def inputs(self) -> tuple[TensorInfo, ...]: ...
    @property
    def outputs(self) -> tuple[TensorInfo, ...]: ...
    @property
    def run(self) -> Callable[..., Any]: ...


@dataclass(frozen=True, slots=True)
class Opener:
    """A contender that `open` loads after `package` was imported, so that the loading time excludes the import."""

    open: Callable[[], Loads]
    backend: str
    """The backend that runs the model; for a bundle, the bundle's own."""
    turns: Sequence[Any]
    """Arguments of `run` in rotation: feeds, or the lines to send to a program."""
    sizes: Callable[[], Sizes] = exact_sizes
    """Returns the sizes of the memory that counts for the contender."""
    warnings: Callable[[Loads], tuple[str, ...]] = lambda _: ()
    """Returns warnings after the contender has run."""
    no_outputs: str = ""
    """The reason if its outputs cannot be read; empty if they can."""
    no_threads: str = ""
    """The reason if it cannot run several samples at once; empty if it can."""
    package: str | None = None
    """The Python package of the runtime."""
    held: object = None
    """An object to keep alive until loading: the bundle that was unpacked from a file."""


def opener(request: Load, rotation: Sequence[dict[str, Array]]) -> Opener:
    """Returns the opener for a request; raises UsageError for settings that the contender does not support."""
    if request.backend == COMMAND:
        return _command(request, rotation)
    if request.backend == URL:
        from edgeopt.measure.trials.served import Served

        _refuse_settings(request, "A served model")
        # The model is in the server's memory, so the client's memory says nothing about it.
        return Opener(lambda: Served(request.model_path), URL, rotation, lambda: Sizes(None, None))
    if request.backend == BUNDLE:
        return _bundle(request, rotation)
    backend = backend_named(request.backend)
    return Opener(
        lambda: backend.load(
            Path(request.model_path), request.options, strict=request.strict, custom_ops=request.custom_ops
        ),
        backend.name,
        rotation,
        package=backend.package,
    )


def describe(request: Describe) -> Described:
    """Describes a contender without running it; a program is not even started, because it has no description."""
    if request.backend == COMMAND:
        return Described((), ())
    load = Load(request.backend, request.model_path, request.options, "", custom_ops=request.custom_ops)
    session = opener(load, ()).open()
    return Described(session.inputs, session.outputs)


def times_by_place(request: Places) -> Placed:
    """Returns the time of one run by provider or device; loads the model again, because profiling is slow."""
    load = request.load
    if load.backend == BUNDLE:
        place = locate(Path(load.model_path))
        backend, path, options = place.backend, place.model, place.options
    else:
        backend, path, options = backend_named(load.backend), Path(load.model_path), load.options
    if backend.times is None:
        return Placed({})
    return Placed(backend.times(path, options, open_samples(Path(load.samples_path)).feeds(0), load.custom_ops))


def _bundle(request: Load, rotation: Sequence[dict[str, Array]]) -> Opener:
    if request.options:
        raise UsageError(
            "A bundle runs only with the backend and options it was proved with.",
            "To try others, load the model file inside it.",
        )
    path = Path(request.model_path)
    place = locate(path)
    backend = place.backend
    return Opener(
        lambda: load(path, strict=request.strict, custom_ops=request.custom_ops),
        backend.name,
        rotation,
        package=backend.package,
        held=place.bundle,
    )


def _command(request: Load, rotation: Sequence[dict[str, Array]]) -> Opener:
    from edgeopt.measure.trials import command

    _refuse_settings(request, "A program")
    data = command.write_rotation(Path(request.samples_path), rotation) if rotation else None
    turns = command.lines(len(rotation))
    group = own_group()

    def warn(program: Loads) -> tuple[str, ...]:
        return command.warnings(program, turns) if isinstance(program, command.Program) else ()

    return Opener(
        lambda: command.Program(request.model_path, data, request.patience_s),
        COMMAND,
        turns,
        lambda: sizes_of_others(group),
        warn,
        no_outputs="A program returns no outputs, so they cannot be compared.",
        no_threads="A program runs one sample at a time; use --processes to run several.",
    )


def _refuse_settings(request: Load, what: str) -> None:
    if request.options or request.custom_ops or request.strict:
        raise UsageError(
            f"{what} takes no backend options, no custom operators and no --strict.",
            "Leave them out and set it up where you start it.",
        )
