"""Construction of variants, several at a time, each in a child process that may crash; and their list."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from edgeopt.backends.base import TensorInfo
from edgeopt.bundle.deployment import Step
from edgeopt.errors import EdgeoptError, MissingExtraError, ModelError
from edgeopt.graph.ledger import Ledger, LedgerEntry
from edgeopt.pipeline.builders.messages import CLEANED, Inspect, Inspected, Made, Make
from edgeopt.pipeline.outcome import Candidate, VariantReport
from edgeopt.platform.pipes import wait_for_any
from edgeopt.quant.write import Recorded
from edgeopt.workers.client import WorkerClient
from edgeopt.workers.host import TrialHost
from edgeopt.workers.protocol import FAILED, NO_MEMORY, NO_PACKAGE, Failed, raise_machine_failure

_ANSWER_READY_S = 5.0
_LOOK_EVERY_S = 0.2
LATE = "late"
_LATE = Failed("not ready within the time limit; a longer one allows it", code=LATE)
_STOPPED = Failed("not ready when the search was stopped", code="stopped")


class BuildWorker:
    """Worker that makes one variant at a time; starts at once, because it imports for a second."""

    def __init__(self, host: TrialHost) -> None:
        self.busy: Make | None = None
        self.client = WorkerClient(host)
        self.client.begin("make")

    def start(self, request: Make) -> None:
        self.busy = request
        self.client.send(request)

    def finish(self) -> Made | Failed:
        """Returns the answer that is ready; after a crash, the failure with its reason."""
        self.busy = None
        answer = self.client.answer(Made, _ANSWER_READY_S)
        raise_machine_failure(answer)
        return answer


def inspect(
    client: WorkerClient,
    model: Path,
    samples: Path,
    count: int,
    timeout_s: float = 600.0,
    narrowed: tuple[TensorInfo, ...] = (),
    *,
    allow_random: bool = True,
) -> Inspected:
    """Returns the facts of a model; raises an error that says what is wrong with it."""
    answer = client.ask(Inspect(str(model), str(samples), count, narrowed, allow_random), Inspected, timeout_s)
    if isinstance(answer, Failed):
        raise _as_error(answer, model)
    return answer


class KnownVariants(Protocol):
    """Cache of variants from earlier searches; new ones are added."""

    def find(self, job: Make) -> Made | None: ...
    def store_variant(self, job: Make, made: Made) -> None: ...


def make_all(
    workers: list[BuildWorker],
    jobs: list[Make],
    deadline: float,
    memory: KnownVariants | None = None,
    stop: threading.Event | None = None,
) -> Iterator[tuple[Make, Made | Failed]]:
    """Makes the requested variants, one per worker at a time; yields each when it is ready.

    A variant that is not ready by the deadline, or at a stop request, is dropped with that reason.
    """

    def is_stopped() -> bool:
        return stop is not None and stop.is_set()

    if is_stopped():
        yield from _give_up([], jobs, _STOPPED)
        return
    known = [(job, made) for job in jobs if memory is not None and (made := memory.find(job)) is not None]
    waiting = [job for job in jobs if not any(job is one for one, _ in known)]
    while True:
        for worker in workers:
            if worker.busy is None and waiting and time.monotonic() < deadline and not is_stopped():
                worker.start(waiting.pop(0))
        # Other variants are made while the caller handles these.
        while known:
            yield known.pop(0)
        busy = [m for m in workers if m.busy is not None]
        if not busy:
            yield from _give_up([], waiting, _STOPPED if is_stopped() else _LATE)
            return
        ready: list[BuildWorker] = []
        left = _LOOK_EVERY_S
        while not ready and left > 0:
            left = 0.0 if is_stopped() else max(0.0, deadline - time.monotonic())
            ready = _ready(busy, min(left, _LOOK_EVERY_S))
        for worker in ready:
            job = worker.busy
            assert job is not None  # noqa: S101 - it was busy
            answer = worker.finish()
            if memory is not None and isinstance(answer, Made):
                memory.store_variant(job, answer)
            yield job, answer
        if not ready:
            yield from _give_up(busy, waiting, _STOPPED if is_stopped() else _LATE)
            return


def _ready(busy: list[BuildWorker], timeout_s: float) -> list[BuildWorker]:
    """Waits until workers have answered or ended, and returns these."""
    waiting = {child: worker for worker in busy if (child := worker.client.child) is not None}
    if len(waiting) < len(busy):  # a process that could not be started counts as an answer
        return [worker for worker in busy if worker.client.child is None]
    return [waiting[child] for child in wait_for_any([*waiting], timeout_s)]


def _give_up(busy: list[BuildWorker], waiting: list[Make], why: Failed) -> Iterator[tuple[Make, Failed]]:
    for worker in busy:
        job, worker.busy = worker.busy, None
        worker.client.close()
        if job is not None:
            yield job, why
    for job in waiting:
        yield job, why


def _as_error(failed: Failed, model: Path) -> EdgeoptError:
    raise_machine_failure(failed)
    if failed.ending:
        return ModelError(f"Reading '{model.name}' {failed.message}.", "The file may be damaged; export it again.")
    if failed.code in {MissingExtraError.code, NO_PACKAGE}:
        return MissingExtraError("optimize", "Reading and rewriting models")
    if failed.code in {ModelError.code, FAILED, NO_MEMORY}:
        return ModelError(failed.message, failed.hint)
    return EdgeoptError(failed.message, failed.hint)


class Variants:
    """Variants of a search, added one after the other while the earlier ones already race."""

    def __init__(self) -> None:
        self.reports: list[VariantReport] = []
        self._paths: dict[tuple[str, str], Path] = {}
        """Files by variant and backend; the backend is empty for a variant that serves all."""
        self._steps: dict[tuple[str, str], Step] = {}
        self._recorded: dict[tuple[str, str], Recorded | None] = {}

    def report_failure(self, report: VariantReport) -> None:
        self.reports.append(report)

    def enter(
        self, report: VariantReport, path: Path, step: Step | None = None, recorded: Recorded | None = None
    ) -> None:
        """Registers a variant; `step` is None for the source model, `recorded` has the results of calibration."""
        self.reports.append(report)
        for backend in report.backends or ("",):
            self._paths[report.name, backend] = path
            self._recorded[report.name, backend] = recorded
            if step is not None:
                self._steps[report.name, backend] = step

    def has(self, variant: str, backend: str = "") -> bool:
        """Whether there is such a variant that this backend reads."""
        return (variant, backend) in self._paths or (variant, "") in self._paths

    def path(self, variant: str, backend: str = "") -> Path:
        """Returns the file that a candidate with this backend runs."""
        return self._paths.get((variant, backend)) or self._paths[variant, ""]

    def size_bytes(self, candidate: Candidate) -> int | None:
        mine = [one for one in self.reports if one.name == candidate.variant and one.size_bytes is not None]
        return next(
            (one.size_bytes for one in mine if not one.backends or candidate.backend in one.backends), None
        )

    def steps(self, candidate: Candidate) -> list[Step]:
        """Returns the steps that make the candidate's variant of the source model, cleaning first.

        Of a decoder, libraries quantize the source itself, before the cleaned model is made.
        """
        variant, backend = candidate.variant, candidate.backend
        for (name, where), step in self._steps.items():
            if name == variant and where in {"", backend}:
                return [step]
            if name == CLEANED and where in {"", backend}:
                own = self._steps.get((variant, backend)) or self._steps.get((variant, ""))
                return [step, own] if own is not None else []
        return []

    def recorded(self, candidate: Candidate) -> Recorded | None:
        """Returns the results of calibration; None if nothing was quantized."""
        return self._recorded.get((candidate.variant, candidate.backend))

    def ledger(self, candidate: Candidate) -> Ledger:
        """Returns the passes behind a candidate: those of the cleaned model it starts from, then its own."""
        found: list[LedgerEntry] = []
        for one in self.reports:
            if one.is_of(candidate):
                found += one.ledger
                if one.name == candidate.variant:
                    break
        return tuple(found)
