"""The choice of the worker that answers a request, and of what happens if that worker fails."""

import asyncio
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from edgeopt_agent.drift.watch import DriftWatch
from edgeopt_agent.settings import Settings
from edgeopt_agent.v2.errors import RequestError
from edgeopt_agent.workers.ending_requests import EndingRequests, FailingClients
from edgeopt_agent.workers.frames import PROTOBUF, RAW
from edgeopt_agent.workers.names import ServedModel, Vacancy, served_models
from edgeopt_agent.workers.outcomes import Answer, RequestTooLarge, WorkerDied, WorkerError, refusal
from edgeopt_agent.workers.process import Worker
from edgeopt_agent.workers.requests import Request
from edgeopt_agent.workers.shadow import Shadow
from edgeopt_agent.workers.totals import Totals

Watcher = Callable[[str, bool, float, str, int], None]
"""(release id, whether it went well, the model's own time in ms, why it did not go well, a digest of the failed
request), once a request."""

# Bodies wait in memory until their turn comes; this many of the largest may.
_LARGEST_WAITING = 4
_RELEASES_COUNTED = 8
# One for the batch in which the worker ended, one for the request of it that then ends the worker alone.
_RERUNS = 2


def _digest(parts: Sequence[bytes]) -> int:
    found = 0
    for part in parts:
        found = zlib.crc32(part, found)
    return found


class Attempt(NamedTuple):
    """The outcome of a request at one worker."""

    answer: Answer | None
    fault: str
    """Sentence that says what went wrong with the model; empty if nothing did."""
    begun: bool = True
    """Whether the worker had begun the request."""
    admitted: bool = True
    """Whether any worker was asked."""


class BusyError(RequestError):
    """An error while nothing can answer; the client should try again soon."""


class QueueFullError(BusyError):
    """An error while too much is waiting already."""


class Router:
    """Sends requests to the release that serves, and to the standby, if one is kept, when that one fails."""

    def __init__(self, settings: Settings) -> None:
        self.serving: Worker | None = None
        self.standby: Worker | None = None
        self.watchers: list[Watcher] = []
        self.totals: dict[str, Totals] = {}
        self.why_nothing: Callable[[], str] = lambda: ""
        """Reason why nothing serves although something should and soon will; empty otherwise."""
        self.starting = False
        """Whether the agent has just started, and what served before will soon serve again."""
        self.restarting = False
        """Whether the worker that served has ended and will soon be started again."""
        self.vacancy: Callable[[], Vacancy | None] = lambda: None
        """Reason why nothing serves if a deployment left no release and nothing will change that."""
        self.expected_name: Callable[[], str] = lambda: ""
        """Name of the model that serves, or soon will; empty if none should."""
        self.old_name = ""
        """Name of the model before the soaking release; a request with it counts as a failure of the release."""
        self.shadow: Shadow | None = None
        """Comparison of a soaking release's answers with those of the standby; None without a soak."""
        self.drift: DriftWatch | None = None
        """Comparison of requests and answers with the first ones; None if it is turned off."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when another worker serves, or the one that serves has ended."""
        self._settings = settings
        self._ending_requests = EndingRequests()
        self._failing_clients = FailingClients(settings.crash_window_s)
        self._changed = asyncio.Event()
        """Set, and replaced, when another worker serves."""
        self._waiting = 0
        self._large = 0
        """Number of large requests among them."""
        self._large_bytes = 0
        self.waiting_for_text = 0
        """Requests for text that wait until the worker generates nothing else."""

    @property
    def waiting(self) -> int:
        """Requests that are not answered yet."""
        return self._waiting

    def switch(self, new: Worker | None, keep_old: bool) -> Worker | None:
        """Sends requests to the new worker from now on; returns the old one, which may still be answering some."""
        old, self.serving = self.serving, new
        self.standby = old if keep_old else None
        self.starting = self.restarting = False
        if new is not None:
            self._watch(new)
        self._signal_change()
        return old

    def end_start(self) -> None:
        """Ends the wait for a start, whether or not the release that served before serves again."""
        if self.starting or self.restarting:
            self.starting = self.restarting = False
            self._signal_change()

    def restart(self, new: Worker) -> None:
        """Sends requests to the same release in a new process; the standby stays."""
        self.serving = new
        self._watch(new)
        self._signal_change()

    def back(self) -> Worker | None:
        """Makes the standby serve again; returns the worker that it replaces."""
        old, self.serving, self.standby = self.serving, self.standby, None
        self._signal_change()
        return old

    def _signal_change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
        self.on_change()

    def _watch(self, new: Worker) -> None:
        self.totals_of_worker(new)  # counters start at zero, not at the first request
        new.when_ended.append(partial(self._count_end, new))

    def _count_end(self, worker: Worker) -> None:
        totals = self.totals_of_worker(worker)
        if worker.hung_s:
            totals.hangs += 1
        elif worker.ended_for_memory():
            totals.memory_restarts += 1
        elif not worker.stopping:
            totals.crashes += 1
        if worker.ended_by_request() and (requests := worker.ended_with()):
            worker.counts = self._ending_requests.note(worker.release_id, [each.parts for each in requests])
            # In a soak, the release before answers such requests: the new one is worse, even for a single client.
            settled = self.standby is None
            clients = [each.client for each in requests]
            worker.counts &= self._failing_clients.counts(worker.release_id, clients) or not settled
            if worker.ended_for_memory():  # what is larger than anything it answered is the client's fault
                worker.counts &= any(each.size_bytes <= totals.largest_bytes for each in requests)
        self.on_change()

    async def infer(self, request: Request) -> Answer:
        """Returns the answer to a request; raises RequestError if no model answered."""
        large_bytes = request.size_bytes if request.is_large else 0
        if self._is_full(large_bytes):
            if self.serving is not None and request.model in {each.name for each in served_models(self.serving)}:
                self.totals_of_worker(self.serving).fail("REJECTED", 0.0, time.time())
            raise QueueFullError(503, f"{self._waiting} requests are waiting already; try again in a moment.")
        self._waiting += 1
        self._large += bool(large_bytes)
        self._large_bytes += large_bytes
        try:
            return await self._answered(request)
        finally:
            self._waiting -= 1
            self._large -= bool(large_bytes)
            self._large_bytes -= large_bytes

    def _is_full(self, large_bytes: int) -> bool:
        """Whether a request must go; large ones leave half of the queue, and all their bytes, to small ones."""
        length = self._settings.queue_length
        max_bytes = _LARGEST_WAITING * self._settings.max_body_bytes
        too_large = self._large and self._large_bytes + large_bytes > max_bytes
        return self._waiting >= length or bool(large_bytes and (too_large or self._large >= (length + 1) // 2))

    def named(self, model_name: str, version: str | None) -> ServedModel:
        """Returns the model that serves by this name; raises RequestError with the status of the protocol."""
        worker = self.serving
        if worker is None:
            if why := self.why_nothing():
                raise BusyError(503, f"No model serves at the moment. {why}")
            vacancy = self.vacancy()
            if vacancy is not None and model_name in {vacancy.name, vacancy.name + RAW}:
                raise RequestError(503, f"No release of the model '{vacancy.name}' serves. {vacancy.why}")
            no_release = "no release is deployed on this device."
            why = no_release if vacancy is None else f"no release serves. {vacancy.why}"
            raise RequestError(404, f"There is no model '{model_name[:80]}': {why}")
        found = next((each for each in served_models(worker) if each.name == model_name), None)
        if found is None:
            if model_name == worker.name + RAW:
                raise RequestError(
                    404,
                    f"There is no model '{model_name[:80]}': '{worker.name}' has no processing and is the plain "
                    "model itself.",
                )
            if model_name == self.old_name:
                for watcher in self.watchers:
                    reason = f"There is no model '{model_name[:80]}' any more."
                    watcher(worker.release_id, False, 0.0, reason, time.monotonic_ns())
            raise RequestError(
                404, f"There is no model '{model_name[:80]}'; the one deployed here is '{worker.name}'."
            )
        if version is not None and version != worker.release_id:
            raise RequestError(
                404,
                f"There is no version '{version[:80]}' of '{worker.name}'; "
                f"the one that serves is '{worker.release_id}'.",
            )
        return found

    async def check_ready(self, name: str | None = None, version: str | None = None) -> None:
        """Raises RequestError unless a worker, or the one of this model, answers at once."""
        worker = self.serving if name is None else self.named(name, version).worker
        if worker is None:
            if why := self.why_nothing():
                raise RequestError(503, f"No model serves at the moment. {why}")
            vacancy = self.vacancy()
            no_release = "No release is deployed on this device."
            raise RequestError(503, no_release if vacancy is None else f"No release serves. {vacancy.why}")
        if not worker.alive:
            raise BusyError(503, f"The worker of '{worker.name}' {worker.how_it_ended() or 'is stopping'}.")
        if not await worker.answers(self._settings.ready_timeout_s):
            raise BusyError(
                503, f"The worker of '{worker.name}' does not answer; it is started again if that goes on."
            )

    def totals_of(self, name: str, version: str | None) -> list[Totals]:
        """Returns the counts of a model; raises RequestError if no model has this name."""
        if all(each.name != name for each in self.totals.values()):
            name = self.named(name, version).worker.name
        found = [each for each in self.totals.values() if each.name == name and version in {None, each.release_id}]
        if not found:
            self.named(name, version)
        return found

    async def text_turn(self, request: Request, is_speech: bool = False) -> Worker:
        """Returns the worker once it generates no other text; the caller releases its lock `generating`."""
        await self._start_over()
        worker = self._text_worker(request, is_speech)
        settings = self._settings
        if worker.generating.locked() and self.waiting_for_text >= settings.generation_queue_length:
            self.totals_of_worker(worker).fail("REJECTED", 0.0, time.time())
            raise QueueFullError(429, f"{self.waiting_for_text} requests for text are waiting already.")
        self.waiting_for_text += 1
        try:
            async with asyncio.timeout(settings.generation_timeout_s):
                while True:
                    await worker.generating.acquire()
                    if worker is self.serving and worker.alive:
                        return worker
                    worker.generating.release()
                    await self._successor(worker)
                    worker = self._text_worker(request, is_speech)
        except TimeoutError:
            self.totals_of_worker(worker).fail("REJECTED", settings.generation_timeout_s, time.time())
            limit_s = settings.generation_timeout_s
            raise QueueFullError(429, f"The request waited {limit_s:g} s for its turn.") from None
        finally:
            self.waiting_for_text -= 1

    def _text_worker(self, request: Request, is_speech: bool) -> Worker:
        worker = self.named(request.model, None).worker
        if reason := worker.why_no_speech if is_speech else worker.why_no_text:
            raise RequestError(400, reason)
        if self._ending_requests.times(worker.release_id, request.parts) >= self._settings.request_ends_allowed:
            raise RequestError(422, self._refused(worker).fault)
        return worker

    def text_generated(self, worker: Worker, request: Request, total_s: float, compute_s: float) -> None:
        """Counts a text that was generated to its end.

        The watchers of a soak see failures only: they compare latencies with those of single runs.
        """
        self._ending_requests.answered(worker.release_id, request.parts)
        self._failing_clients.answered(worker.release_id, request.client)
        totals = self.totals_of_worker(worker)
        totals.largest_bytes = max(totals.largest_bytes, request.size_bytes)
        totals.succeed(total_s, compute_s, 1, 1, time.time())

    def text_failed(self, worker: Worker, request: Request, started: float, fault: str, begun: bool) -> None:
        """Counts a text at which the model or its worker failed."""
        client = self._failing_clients.alone(worker.release_id, request.client)
        self._count_failure(worker, started, Attempt(None, fault, begun), request, client)

    async def _answered(self, request: Request) -> Answer:
        started = time.perf_counter()
        await self._start_over()
        model, first = await self._first(request)
        for _ in range(_RERUNS):
            if first.begun or self._other(model, request.version) is not None:
                break
            # Another request ended the worker: this one goes to the next worker, if one comes in time.
            if not await self._successor(model.worker):
                break
            model, first = await self._first(request)
        worker = model.worker
        if first.answer is not None and not first.fault:
            self._count_answer(worker, started, first.answer)
            if self.shadow is not None and first.answer.status == 200 and worker is self.serving:
                self.shadow.maybe_compare(self._alike(self.standby, model), request, model.processed, first.answer)
            return first.answer
        other = self._other(model, request.version)
        if other is not None:
            try:
                await self._turn(other, request.is_large)
            except BusyError:
                self._count_failure(worker, started, first, request)
                raise
            second = await self._ask(other, request, model.processed)
            if second.answer is not None and not second.fault:
                self._count_failure(worker, started, first, request)
                self._count_answer(other, started, second.answer)
                return second.answer
            if first.answer is not None and second.answer is not None:
                # Both releases fail at it: the request is at fault, and the new one no worse than the old.
                return first.answer
        client = self._failing_clients.alone(worker.release_id, request.client)
        self._count_failure(worker, started, first, request, client)
        if first.answer is not None:
            return first.answer
        raise BusyError(503, f"The model '{worker.name}' did not answer. {first.fault} Try again in a moment.")

    async def _first(self, request: Request) -> tuple[ServedModel, Attempt]:
        model = await self._slot(request)
        return model, await self._ask(model.worker, request, model.processed)

    async def _start_over(self) -> None:
        """Waits while the agent or the worker starts again, which delays requests and does not fail them."""
        if not (self.starting or self.restarting):
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.request_timeout_s):
                while self.starting or self.restarting:
                    await self._changed.wait()

    async def _successor(self, worker: Worker) -> bool:
        """Waits until another worker serves, if one soon will; False if none came in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.request_timeout_s):
                while self.serving is worker or (self.serving is None and self.why_nothing()):
                    await self._changed.wait()
        return self.serving is not worker

    async def _slot(self, request: Request) -> ServedModel:
        """Returns the model that serves when the request's turn has come; takes a slot of its worker."""
        while True:
            model = self.named(request.model, request.version)
            await self._turn(model.worker, request.is_large)
            if model.worker is self.serving:
                return model
            model.worker.slots(request.is_large).release()
            if self.serving is None:
                await self._successor(model.worker)

    async def _turn(self, worker: Worker, large: bool) -> None:
        slots = worker.slots(large)
        if not slots.locked():
            await slots.acquire()
            return
        limit_s = self._settings.request_timeout_s
        try:
            await asyncio.wait_for(slots.acquire(), limit_s)
        except TimeoutError:
            self.totals_of_worker(worker).fail("REJECTED", limit_s, time.time())
            raise QueueFullError(503, f"The request waited {limit_s:g} s for its turn; try again later.") from None

    async def _ask(self, worker: Worker, request: Request, processed: bool) -> Attempt:
        """Asks one worker and gives its slot back."""
        parts, release, totals = request.parts, worker.release_id, self.totals_of_worker(worker)
        try:
            if self._ending_requests.times(release, parts) >= self._settings.request_ends_allowed:
                return self._refused(worker)
            answer = await worker.infer(request, processed, self._ending_requests.suspected(release, parts))
        except RequestTooLarge as error:
            answer = refusal(507, error.reason)
        except WorkerError as error:
            return Attempt(None, error.reason, not isinstance(error, WorkerDied) or error.begun)
        finally:
            worker.slots(request.is_large).release()
        fault = answer.run.fault
        if answer.status == 200:
            self._ending_requests.answered(release, parts)
            self._failing_clients.answered(release, request.client)
            worker.refused_for_memory = 0
            if answer.run.looked and self.drift is not None:
                self.drift.note(release, answer.run.looked)
            if request.encoding in {"", PROTOBUF}:  # of a compressed one the size says nothing
                totals.largest_bytes = max(totals.largest_bytes, request.size_bytes)
        elif answer.status == 507 and request.size_bytes <= totals.largest_bytes:
            # It has answered requests of this size: it is not this one that needs too much.
            fault = True
            worker.refused_for_memory += 1
            if worker.refused_for_memory >= self._settings.judged_failures and worker.alive:
                worker.end_exhausted()
        return Attempt(answer, answer.reason() if fault else "")

    def _refused(self, worker: Worker) -> Attempt:
        """Returns the answer to a request that ended the worker too often."""
        sentence = (
            f"This request ended the worker of the release {worker.release_id} "
            f"{self._settings.request_ends_allowed} times and is not run again. Change the request, or deploy "
            "another release."
        )
        return Attempt(refusal(422, sentence), sentence, admitted=False)

    def _other(self, failed: ServedModel, version: str | None) -> Worker | None:
        """Returns another worker that can answer a request which this one could not; None if there is none."""
        for worker in (self.serving, self.standby):
            if worker is not None and worker is not failed.worker and worker.alive:
                same = worker.name == failed.worker.name and version in {None, worker.release_id}
                if same and self._alike(worker, failed) is not None:
                    return worker
        return None

    @staticmethod
    def _alike(worker: Worker | None, model: ServedModel) -> Worker | None:
        """Returns the worker if a request to this model means the same to it; otherwise None."""
        signature = worker.signature(model.processed) if worker is not None else None
        fits = signature is not None and signature.fits(model.signature)
        return worker if fits else None

    def _count_answer(self, worker: Worker, started: float, answer: Answer) -> None:
        """Counts a request that the model answered, and tells the watchers."""
        took_s, totals, run = time.perf_counter() - started, self.totals_of_worker(worker), answer.run
        ok = answer.status < 400
        totals.answers += ok or run.not_finite != ""
        totals.nan += run.not_finite == "nan"
        totals.infinite += run.not_finite == "infinity"
        if not ok:
            totals.fail("OTHER", took_s, time.time())
            return  # what was wrong with the request says nothing about the release
        own_s, processing_s = run.compute_ms / 1e3, run.processing_ms / 1e3
        totals.succeed(took_s, own_s, run.rows, run.executions, time.time(), processing_s)
        for watcher in self.watchers:
            # Of a batch its share, which is what a soak compares with the latency of the release before.
            watcher(worker.release_id, True, run.compute_ms / run.batched, "", _digest(()))

    def _count_failure(
        self, worker: Worker, started: float, attempt: Attempt, request: Request, client: str = ""
    ) -> None:
        """Counts a request that the model failed at, and tells the watchers.

        All failures of `client` count as one: no other release was asked, and other clients are answered.
        """
        took_s = time.perf_counter() - started
        self.totals_of_worker(worker).fail("BACKEND" if attempt.admitted else "REJECTED", took_s, time.time())
        if not attempt.begun:
            return  # another request's fault
        digest = _digest([client.encode()] if client else request.parts)
        for watcher in self.watchers:
            watcher(worker.release_id, False, took_s * 1e3, attempt.fault, digest)

    def totals_of_worker(self, worker: Worker) -> Totals:
        totals = self.totals.get(worker.release_id)
        if totals is None:
            totals = self.totals[worker.release_id] = Totals(worker.name, worker.release_id)
            if len(self.totals) > _RELEASES_COUNTED:
                used = {each.release_id for each in (worker, self.serving, self.standby) if each is not None}
                del self.totals[next(release for release in self.totals if release not in used)]
        return totals
