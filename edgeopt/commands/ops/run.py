"""Measurement of cases on backends, each in a separate process, interleaved case by case."""

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec

from edgeopt.backends import backend_named
from edgeopt.commands.ops.case import SIZES, MeasuredOperator, OperatorCase, Precision, Status
from edgeopt.commands.ops.compare import compare
from edgeopt.commands.ops.prepare import PreparedCase, prepare
from edgeopt.commands.ops.tasks import Opened, OpenOperator, Timed, TimeOperator
from edgeopt.events import Emit, Progress
from edgeopt.hw.device import Device
from edgeopt.measure.rounds import take_turns
from edgeopt.measure.schedules import OPERATORS
from edgeopt.workers.arrays import read_arrays, write_arrays
from edgeopt.workers.client import WorkerClient
from edgeopt.workers.host import LocalHost, TrialHost
from edgeopt.workers.protocol import Failed, raise_machine_failure
from edgeopt.workspace import temporary_folder

_MAX_STARTS = 25
_OPEN_LIMIT_S = 30.0
_SLICE_LIMIT_S = 15.0
SLICE_MS = 4.0
_WEIGHTS = {"small": 1.0, "medium": 1.3, "large": 3.0}
"""The relative time of a case by its size, which the estimate of the remaining time uses."""

CaseBackends = tuple[OperatorCase, tuple[str, ...]]
"""A case, and the backends that it is tried on."""
Keep = Callable[[str, OperatorCase, MeasuredOperator], None]


_Answer = TypeVar("_Answer")


class BackendWorker:
    """The worker of one backend; several can load before any answer is awaited."""

    def __init__(self, backend: str, host: TrialHost, folder: Path) -> None:
        self.backend = backend
        self.outputs_path = folder / f"{backend}.outputs"
        self._host = host
        self.client = WorkerClient(host, _MAX_STARTS)

    def open(self, model: Path, feeds: Path, options: dict[str, str | int]) -> None:
        """Begins to load a model and run it once; `answer` waits for it."""
        self.outputs_path.unlink(missing_ok=True)
        put = self._host.put
        self.client.send(OpenOperator(self.backend, options, put(model), put(feeds), str(self.outputs_path)))

    def time(self, slice_ms: float) -> Timed | Failed:
        self.client.send(TimeOperator(slice_ms))
        return self.answer(Timed, _SLICE_LIMIT_S)

    def answer(self, kind: type[_Answer], limit_s: float = _OPEN_LIMIT_S) -> _Answer | Failed:
        found = self.client.answer(kind, limit_s)
        raise_machine_failure(found)
        return found


@dataclass(slots=True)
class _Try:
    worker: BackendWorker
    found: MeasuredOperator
    failure: str | None = None
    """Reason why the case is not timed any more."""
    runs_us: list[float] = field(default_factory=list)


@dataclass(slots=True)
class _Clock:
    """Progress of the cases, and the estimated time for the rest."""

    total: float
    done: float = 0.0
    begin: float = field(default_factory=time.monotonic)

    def left_s(self) -> float | None:
        spent = time.monotonic() - self.begin
        return spent * (self.total - self.done) / self.done if self.done else None


def measure(cases: Sequence[CaseBackends], device: Device, emit: Emit, keep: Keep) -> None:
    """Measures each case on the backends that are named with it, and hands over each result as it comes."""
    ordered = sorted(cases, key=lambda item: SIZES.index(item[0].size))
    names = dict.fromkeys(name for _, backends in ordered for name in backends)
    clock = _Clock(sum(_WEIGHTS[case.size] for case, _ in ordered))
    with temporary_folder("ops") as temporary, ExitStack() as stack:
        folder = Path(temporary)
        host = LocalHost(folder)
        workers = {name: BackendWorker(name, host, folder) for name in names}
        for worker in workers.values():
            stack.callback(worker.client.close)
        following = prepare(ordered[0][0]) if ordered else None
        for position, (case, backends) in enumerate(ordered):
            left_s = clock.left_s()
            emit(Progress("measuring operators", case.name, position, len(ordered), time_left_s=left_s))
            prepared = following
            assert prepared is not None  # noqa: S101 - the round before made it
            own = [workers[name] for name in backends]
            model, feeds = folder / "case.onnx", folder / "feeds"
            model.write_bytes(prepared.model)
            write_arrays(feeds, prepared.feeds)
            for worker in own:
                worker.open(model, feeds, options_for(worker.backend, device, case.precision))
            # Meanwhile: nothing is timed yet.
            following = prepare(ordered[position + 1][0]) if position + 1 < len(ordered) else None
            for name, measured in _results(prepared, own).items():
                keep(name, case, measured)
            clock.done += _WEIGHTS[case.size]


def options_for(backend: str, device: Device, precision: Precision) -> dict[str, str | int]:
    """Returns options for a backend that has them: all cores, and no shorter floats than the case has.

    OpenVINO, left alone or asked for f16 on a CPU without it, computes float16 models in bfloat16.
    """
    known = backend_named(backend).options.__struct_fields__
    options: dict[str, str | int] = {}
    if "threads" in known:
        options["threads"] = device.limits.usable_cores
    if "precision" in known:
        runtime, _, place = backend.partition("-")
        capabilities = next((each.capabilities for each in device.runtimes if each.name == runtime), {})
        in_half = precision == "fp16" and "FP16" in capabilities.get(place.upper(), ())
        options["precision"] = "f16" if in_half else "f32"
    return options


def _results(prepared: PreparedCase, workers: list[BackendWorker]) -> dict[str, MeasuredOperator]:
    """Measures a case on each backend; a backend with wrong results is not timed."""
    tries = [_Try(worker, _opened(prepared, worker)) for worker in workers]

    def run_us(each: _Try) -> float | None:
        answer = each.worker.time(SLICE_MS)
        if isinstance(answer, Timed):
            return answer.run_us
        each.failure = _sentence(answer.message)
        each.found = _result(prepared, "failed", each.failure)
        return None

    right = [each for each in tries if each.found.status in {"conforms", "deviates"}]
    for turns in take_turns(right, OPERATORS, run_us):
        for each, taken in turns.taken:
            each.runs_us.append(taken)
    return {each.worker.backend: _timed(each.found, each.runs_us) for each in tries}


def _opened(prepared: PreparedCase, worker: BackendWorker) -> MeasuredOperator:
    answer = worker.answer(Opened)
    if isinstance(answer, Failed):
        return _result(prepared, "failed", _sentence(answer.message))
    if answer.refusal:
        return _result(prepared, "not supported", answer.refusal)
    verdict = compare(prepared, read_arrays(worker.outputs_path))
    return MeasuredOperator(
        "conforms" if verdict.conforms else "deviates",
        prepared.operations,
        prepared.moved_bytes,
        verdict.message,
        verdict.error_share,
        verdict.accuracy_db,
        answer.load_ms,
    )


def _result(prepared: PreparedCase, status: Status, message: str) -> MeasuredOperator:
    return MeasuredOperator(status, prepared.operations, prepared.moved_bytes, message)


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:].rstrip(".") + "."


def _timed(measured: MeasuredOperator, runs: list[float]) -> MeasuredOperator:
    if not runs:
        return measured
    return msgspec.structs.replace(
        measured, time_us=statistics.median(runs), time_low_us=min(runs), time_high_us=max(runs)
    )
