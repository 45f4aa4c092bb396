"""Times of a model's nodes within a run, measured by the runtimes' own profilers."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from edgeopt.backends import BACKENDS, backend_named
from edgeopt.backends.base import Available, Backend, Feeds
from edgeopt.data.samples import Samples, save_samples
from edgeopt.errors import MissingError, UsageError
from edgeopt.events import Emit, Progress, ignore
from edgeopt.graph.analysis import Analysis, OpTimes
from edgeopt.hw.device import Device
from edgeopt.measure.kernel_times import KernelTimes, OptionValue, TimeKernels
from edgeopt.measure.op_times_rows import Prepared, prepared, rows_of, source_of_rows
from edgeopt.workers.client import WorkerClient
from edgeopt.workers.host import LocalHost
from edgeopt.workers.protocol import Failed
from edgeopt.workspace import WORK, workspace

_ANSWER_LIMIT_S = 600.0
"""Time limit for loading twice and a few runs; a runtime that takes longer has hung."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Settings of the runtimes while they are timed."""

    threads: int | None = None
    """Number of threads; None for the runtime's default."""
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    """Options of the backends; each backend ignores those that it does not have."""
    custom_ops: tuple[str, ...] = ()
    device: Device | None = None
    """Device whose peaks bound the possible times; None: no comparison with peaks."""
    runs: int = 100
    limit_s: float = 3.0


def timeable(path: Path) -> tuple[str, ...]:
    """Returns the installed backends that can time the kernels of this model."""
    return tuple(
        backend.name
        for backend in BACKENDS
        if backend.op_times is not None
        and path.suffix in backend.formats
        and isinstance(backend.available(), Available)
    )


def profile_ops(
    path: Path,
    analysis: Analysis,
    backends: Sequence[str],
    feeds: Feeds,
    timing: Timing = Timing(),
    emit: Emit = ignore,
) -> tuple[OpTimes, ...]:
    """Times the nodes with each backend; a failure or a crash of a runtime becomes its reason.

    Raises MissingError for a backend that is not installed, and UsageError for one that cannot time nodes.
    """
    chosen = [_checked(backend_named(name), path) for name in backends]
    with workspace(WORK) as folder:
        emit(Progress("preparing the model for timing", path.name))
        source = prepared(path, folder) if path.suffix == ".onnx" else source_of_rows(path, analysis.nodes)
        arrays = {name: array[None] for name, array in feeds.items()}
        save_samples(Samples(arrays, {name: array.ndim for name, array in feeds.items()}), folder / "samples")
        found = []
        for place, backend in enumerate(chosen):
            emit(Progress("timing the nodes", backend.title, place, len(chosen)))
            with closing(WorkerClient(LocalHost(folder))) as worker:
                answer = ask_for_times(worker, _request(backend, source, folder, timing))
            found.append(_op_times(backend, answer, source, analysis, timing))
        return tuple(found)


def _checked(backend: Backend, path: Path) -> Backend:
    state = backend.available()
    if not isinstance(state, Available):
        raise MissingError(
            f"The backend {backend.name} is not available: {state.reason}.",
            "List available ones: edgeopt backends",
        )
    if backend.op_times is None or path.suffix not in backend.formats:
        others = ", ".join(timeable(path)) or "none of those installed"
        reason = (
            "reports no times of single nodes" if backend.op_times is None else f"loads no {path.suffix} files"
        )
        raise UsageError(f"The backend {backend.name} {reason}.", f"Backends that do both: {others}.")
    return backend


def _request(backend: Backend, source: Prepared, folder: Path, timing: Timing) -> TimeKernels:
    known = backend.options.__struct_fields__
    options = {name: value for name, value in timing.options.items() if name in known}
    if timing.threads is not None and "threads" in known:
        options["threads"] = timing.threads
    return TimeKernels(
        backend.name,
        str(source.path.absolute()),
        str(folder / "samples"),
        options,
        timing.custom_ops,
        timing.runs,
        timing.limit_s,
    )


def ask_for_times(worker: WorkerClient, request: TimeKernels, limit_s: float = _ANSWER_LIMIT_S) -> KernelTimes:
    """Asks a worker for kernel times; a crash or a hang becomes the reason why there are none."""
    answer = worker.ask(request, KernelTimes, limit_s)
    return KernelTimes(reason=answer.reason) if isinstance(answer, Failed) else answer


def _op_times(
    backend: Backend, answer: KernelTimes, source: Prepared, analysis: Analysis, timing: Timing
) -> OpTimes:
    kernels = answer.kernels
    if kernels is None:
        return OpTimes(backend.name, answer.version, timing.threads, 0, 0.0, 0.0, 0.0, (), reason=answer.reason)
    outputs = frozenset(tensor.name for tensor in analysis.outputs)
    rows = rows_of(kernels.kernels, source, analysis.nodes, outputs, timing.device, timing.threads)
    total = sum(row.time_ms for row in rows)
    known = sum(row.time_ms for row in rows if row.members)
    return OpTimes(
        backend=backend.name,
        version=answer.version,
        threads=timing.threads,
        runs=kernels.runs,
        run_ms=kernels.run_ms,
        kernels_ms=total,
        attributed_share=known / total if total else 0.0,
        rows=rows,
        reason=answer.reason,
        plain_ms=kernels.plain_ms,
    )
