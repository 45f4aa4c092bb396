"""Times the kernels of several models on one backend, interleaved, in one process.

`analyzing.op_times` starts a process and copies the model each time that it is called.
"""

from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from edgeopt.backends import backend_named
from edgeopt.backends.base import Feeds
from edgeopt.data.samples import Samples, save_samples
from edgeopt.graph.analysis import Analysis, OpTimeRow
from edgeopt.graph.analysis.records import AnalysisOptions
from edgeopt.measure.kernel_times import OptionValue, TimeKernels
from edgeopt.measure.op_times import ask_for_times
from edgeopt.measure.op_times_rows import Prepared, prepared, rows_of
from edgeopt.workers.client import WorkerClient
from edgeopt.workers.host import LocalHost
from edgeopt.workspace import WORK, workspace

_ANSWER_LIMIT_S = 300.0


@dataclass(frozen=True, slots=True)
class Lap:
    """Kernels of one model in one process, with their times, or the reason that there are none."""

    rows: tuple[OpTimeRow, ...] = ()
    kernels_ms: float = 0.0
    plain_ms: float | None = None
    reason: str = ""


@dataclass(slots=True)
class Sources:
    """Copies of models for timing, with the analyses of their nodes, shared by all backends."""

    folder: Path
    _known: dict[Path, tuple[Prepared, Analysis]] = field(default_factory=dict)

    def of(self, path: Path, shapes: Mapping[str, tuple[int, ...]]) -> tuple[Prepared, Analysis]:
        from edgeopt.graph.analysis.onnx import analyze_onnx

        if path not in self._known:
            folder = self.folder / f"timed-{len(self._known)}"
            folder.mkdir()
            analysis = analyze_onnx(path, AnalysisOptions(shapes=dict(shapes)))
            self._known[path] = (prepared(path, folder), analysis)
        return self._known[path]


class KernelClock:
    """Times kernels in a worker process; a context manager that ends the process."""

    def __init__(
        self, backend: str, options: Mapping[str, OptionValue], feeds: Feeds, runs: int, limit_s: float
    ) -> None:
        known = backend_named(backend).options.__struct_fields__
        self._backend = backend
        self._options = {name: value for name, value in options.items() if name in known}
        self._feeds, self._runs, self._limit_s = feeds, runs, limit_s
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._folder = self._stack.enter_context(workspace(WORK))
        self._worker = self._stack.enter_context(closing(WorkerClient(LocalHost(self._folder))))
        arrays = {name: array[None] for name, array in self._feeds.items()}
        ranks = {name: array.ndim for name, array in self._feeds.items()}
        save_samples(Samples(arrays, ranks), self._folder / "samples")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def lap(self, source: Prepared, analysis: Analysis) -> Lap:
        """Times some runs of a model; a crash is returned as the reason, and the next lap has a new process."""
        request = TimeKernels(
            self._backend,
            str(source.path.absolute()),
            str(self._folder / "samples"),
            self._options,
            (),
            self._runs,
            self._limit_s,
        )
        answer = ask_for_times(self._worker, request, _ANSWER_LIMIT_S)
        if answer.kernels is None:
            return Lap(reason=answer.reason)
        outputs = frozenset(tensor.name for tensor in analysis.outputs)
        rows = rows_of(answer.kernels.kernels, source, analysis.nodes, outputs)
        return Lap(rows, sum(row.time_ms for row in rows), answer.kernels.plain_ms, answer.reason)
