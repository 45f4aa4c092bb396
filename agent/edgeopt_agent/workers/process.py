"""One release, loaded in a process of its own."""

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from edgeopt.bundle.deployment import FILE as DEPLOYMENT
from edgeopt.bundle.deployment import read_deployment
from edgeopt.errors import EdgeoptError, signal_name
from edgeopt.hw.load import process_cpu_s
from edgeopt.platform.user_folders import user_cache_folder
from edgeopt.workers.protocol import Failed
from edgeopt_agent.settings import MIB, Settings
from edgeopt_agent.workers.channel import ChannelClosedError, Received
from edgeopt_agent.workers.confinement import Confinement, WorkerLimit
from edgeopt_agent.workers.frames import (
    Answered,
    Begin,
    Compare,
    Compared,
    EndGeneration,
    FromWorker,
    Generate,
    Golden,
    Infer,
    Load,
    Loaded,
    NextPiece,
    Signature,
    Transcribe,
    TryGolden,
)
from edgeopt_agent.workers.launch import Launched, launch
from edgeopt_agent.workers.memory import memory_limit_bytes
from edgeopt_agent.workers.outcomes import Answer, RequestTooLarge, WorkerDied, WorkerError, WorkerTimeout
from edgeopt_agent.workers.requests import Request
from edgeopt_agent.workers.run_limit import Alarm, RunLimit, smallest_bytes

# One that runs and one that is there already when it is done.
_AT_ONCE = 2
_LAST_WORDS_S = 2.0
# How the last words of a process begin or end that was given no more memory.
_NO_MEMORY = ("MemoryError", "bad_alloc", "Cannot allocate memory")
_NO_MEMORY_CODES = (1, -signal.SIGABRT)
_DRIVEN = frozenset({"onnxruntime-cuda", "onnxruntime-tensorrt"})
_KEEPS_ENGINES = "onnxruntime-tensorrt"
"""Rebuilding its engines takes minutes at each start."""
TEXT_ROUTES = ("/v1/completions",)
CHAT_ROUTES = ("/v1/chat/completions",)
SPEECH_ROUTES = ("/v1/audio/transcriptions",)
log = logging.getLogger(__name__)


class Worker:
    def __init__(self, release_id: str, settings: Settings, launched: Launched, memory_bytes: int) -> None:
        self.release_id = release_id
        self._slots = [asyncio.Semaphore(_AT_ONCE) for _ in ("small", "large")]
        self.generating = asyncio.Lock()
        """Held by the request whose text the worker generates."""
        self.ended = asyncio.Event()
        self.stopping = False
        self.loaded_s = 0.0
        """Time at which the worker was ready to serve, by the monotonic clock."""
        self.hung_s = 0.0
        """Seconds that the worker hung before it was killed for that; 0 if it was not."""
        self.when_ended: list[Callable[[], None]] = []
        self._run_limit = RunLimit(settings, launched.lanes)
        self._settings = settings
        self._process = launched.process
        self._lanes = launched.lanes
        self._heartbeat = launched.heartbeat
        self._cores = launched.cores
        self._log = launched.log
        self._lifeline = launched.lifeline
        self._group = launched.group
        self._memory_bytes = memory_bytes
        self._killed_because = ""
        self._how = ""
        self._took_memory = False
        self._exhausted = False
        self.refused_for_memory = 0
        """Requests in a row that it had no memory for although it answered such before."""
        self.counts = True
        """Whether its end counts against its release; the router decides for an end by a client's request."""
        self._watching = asyncio.create_task(self._watch(), name=f"worker {release_id}")
        self._guarding: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, folder: Path, release_id: str, settings: Settings) -> "Worker":
        """Loads a bundle; raises WorkerError when that crashes, takes longer than a probe may, or fails."""
        log_file = settings.data_dir / "logs" / f"worker-{release_id}.log"
        try:
            confinement = await asyncio.to_thread(_confinement, settings, folder)
            worker = cls(release_id, settings, await launch(log_file, confinement), confinement.memory_bytes)
        except OSError as error:
            raise WorkerError(f"The worker could not be started: {error.strerror}.") from None
        try:
            await worker._load(folder)
        except BaseException:
            worker.kill("told to stop while it was loading")
            await asyncio.shield(worker._watching)  # a second cancellation must not leave a part of it behind
            raise
        return worker

    async def _load(self, folder: Path) -> None:
        limits = self._settings
        load = Load(
            *(
                str(folder.resolve()),
                self.release_id,
                limits.max_body_bytes,
                limits.max_tensor_elements,
                self._memory_bytes,
            ),
            *(limits.batch_max_size, limits.batch_max_delay_us, limits.max_sequences, limits.sequence_idle_s),
            None if limits.drift is None else limits.drift.every_s,
        )
        received = await self._reply_to(self._lanes.ask(load), limits.probe_timeout_s, "while loading")
        if isinstance(received.message, Failed):
            raise WorkerError(received.message.message)
        assert isinstance(received.message, Loaded)  # noqa: S101 - what the question is answered with
        self.name = received.message.name
        self.backend = received.message.backend
        self.plain = Signature(received.message.inputs, received.message.outputs)
        self._run_limit.smallest_bytes = smallest_bytes(self.plain.inputs)
        self.processed = received.message.processed
        self.states = received.message.states
        self.why_no_text = received.message.why_no_text
        self.why_no_speech = received.message.why_no_speech
        self.takes_messages = received.message.takes_messages
        self.sequence_idle_s = limits.sequence_idle_s
        self.limits = self._all_limits(received.message.limits)
        self.batching = received.message.batching
        if self.batching is not None and self.batching.used:
            self._lanes.allow_batches(self.batching.max_size)
            # One batch that runs and one that is there already when it is done.
            self._slots = [asyncio.Semaphore(_AT_ONCE * self.batching.max_size) for _ in self._slots]
        elif self.batching is not None:
            log.warning("'%s' runs each request alone: %s", self.name, self.batching.reason)
        self.loaded_s = time.monotonic()
        self._guarding = asyncio.create_task(self._guard(), name=f"heartbeat of {self.release_id}")

    def _all_limits(self, limits: tuple[WorkerLimit, ...]) -> tuple[WorkerLimit, ...]:
        if self._group is not None:
            how = f"control group of {self._memory_bytes // MIB} MiB"
            limits = (WorkerLimit("memory", True, how), *limits)
        elif all(limit.name != "memory" for limit in limits):
            limits = (WorkerLimit("memory", False, "its control group could not take it"), *limits)
        for limit in limits:
            if not limit.applied:
                log.warning("A worker's %s could not be limited: %s.", limit.name, limit.how)
        return limits

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def generates_text(self) -> bool:
        """Whether it continues prompts or transcribes speech."""
        return not (self.why_no_text and self.why_no_speech)

    @property
    def text_routes(self) -> tuple[str, ...]:
        """Returns the routes of OpenAI's protocol that it answers."""
        text = () if self.why_no_text else TEXT_ROUTES
        chat = CHAT_ROUTES if self.takes_messages else ()
        return (*text, *chat, *(() if self.why_no_speech else SPEECH_ROUTES))

    @property
    def alive(self) -> bool:
        """Whether it takes requests."""
        return not (self.stopping or self._lanes.closed or self.ended.is_set())

    def slots(self, large: bool) -> asyncio.Semaphore:
        """Returns the slots for requests to the worker; large ones cannot take those of small ones."""
        return self._slots[large]

    async def answers(self, limit_s: float) -> bool:
        """Whether its process answers at once and its oldest run takes no longer than runs of this release do."""
        busy_s = 0.0 if self.generating.locked() else self._lanes.busy_s  # a prompt has a time limit of its own
        late = busy_s > limit_s and busy_s > self._run_limit.seconds(limit_s)
        return not late and await self.heartbeat_answers(limit_s)

    async def heartbeat_answers(self, limit_s: float) -> bool:
        """Whether its process answers at once, whatever it computes."""
        return self.alive and await self._heartbeat.answers(limit_s)

    def signature(self, processed: bool) -> Signature | None:
        """Returns the signature of the model with its processing (None if it has none) or of the plain model."""
        return self.processed if processed else self.plain

    async def golden(self, timeout_s: float, quick: bool = False) -> Golden:
        """Runs the golden inputs of the worker's bundle; raises WorkerError if they are not answered."""
        future = self._lanes.ask(TryGolden(timeout_s, quick))
        when = "while answering its golden samples"
        limit = self._run_limit.of_golden if quick else None
        received = await self._reply_to(future, timeout_s, when, limit)
        if isinstance(received.message, Failed):
            raise WorkerError(received.message.message)
        assert isinstance(received.message, Golden)  # noqa: S101 - what the question is answered with
        self._run_limit.golden = received.message
        return received.message

    async def infer(self, request: Request, processed: bool = False, alone: bool = False) -> Answer:
        """Returns the answer to a request; raises WorkerDied or WorkerTimeout, after which the worker is gone."""
        message = Infer(request.encoding, request.header_length, processed, alone)
        received = await self._run_reply(self._lanes.run(message, request))
        run = received.message
        assert isinstance(run, Answered)  # noqa: S101 - what the question is answered with
        return Answer(run, received.body, received.text_bytes if run.binary else None, self.release_id)

    async def compare(self, request: Request, processed: bool, other: Answer) -> Compared:
        """Compares the answer of another release to a request with its own; raises WorkerError without either."""
        infer = Infer(request.encoding, request.header_length, processed)
        message = Compare(infer, request.size_bytes, other.header_length)
        future = self._lanes.ask(message, request.text_bytes, [*request.parts, other.body])
        received = await self._run_reply(future)
        if isinstance(received.message, Failed):
            raise WorkerError(received.message.message)
        assert isinstance(received.message, Compared)  # noqa: S101 - what the question is answered with
        return received.message

    async def generate(
        self, message: Begin | NextPiece | EndGeneration, request: Request, limit_s: float
    ) -> FromWorker:
        """Returns the answer to a step of a generation; raises WorkerDied or WorkerTimeout."""
        body = request.parts if isinstance(message, Generate | Transcribe) else ()
        future = self._lanes.ask(message, request.size_bytes if body else 0, body, request)
        return (await self._reply_to(future, limit_s, "")).message

    async def _run_reply(self, future: asyncio.Future[Received]) -> Received:
        return await self._reply_to(future, self._settings.request_timeout_s, "", self._run_limit.of_request)

    async def _reply_to(
        self,
        future: asyncio.Future[Received],
        timeout_s: float,
        when: str,
        limit_s: Callable[[], float] | None = None,
    ) -> Received:
        pause_s = timeout_s if limit_s is None else min(timeout_s, self._settings.hang_timeout_s)
        limit_s = limit_s or (lambda: timeout_s)
        channel = self._lanes.channel_of(future)
        limit = Alarm(channel, future, pause_s, limit_s, lambda passed_s: self._hung(passed_s, when))
        try:
            return await future
        except ChannelClosedError as error:
            await self._gone()
            begun = error.begun and channel is self._lanes.at_work
            if begun and self.ended_for_memory():
                message = f"The request needs too much memory: the worker {self._how}."
                raise RequestTooLarge(f"{message} Send fewer values in one request.", begun) from None
            kind = WorkerTimeout if self.hung_s else WorkerDied
            message = f"The worker {self._how}{f' {when}' if when and kind is WorkerDied else ''}."
            raise kind(message, begun) from None
        finally:
            limit.cancel()

    def _hung(self, timeout_s: float, when: str) -> None:
        self.hung_s = timeout_s
        self.kill(f"hung{f' {when}' if when else ''}: no answer within {timeout_s:g} s; it was killed")

    def kill(self, because: str) -> None:
        """Ends the process and all that it started, at once."""
        self._killed_because = self._killed_because or because
        self._lanes.close()
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def stop(self, grace_s: float = 5.0) -> None:
        """Lets what is in flight finish, then ends the process; after the grace it is killed."""
        self.stopping = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s), self.generating:
                self._lanes.say_goodbye()
                await self.ended.wait()
        if not self.ended.is_set():
            self.kill("stopped")
        await asyncio.shield(self._watching)

    def how_it_ended(self) -> str:
        """Describes the end, such as `crashed: SIGSEGV`, `hung: …` or `stopped`; empty while the worker lives."""
        return self._how

    def ended_by_request(self) -> bool:
        """Whether it crashed, hung or took too much memory while it ran a client's request, not by itself."""
        # Before the end is judged, `counts` and the mark of the lane may still change.
        return bool(self._how) and not self.stopping and (self._exhausted or bool(self.ended_with()))

    def ended_for_memory(self) -> bool:
        """Whether clients' requests made it take too much memory."""
        return self._took_memory and self.ended_by_request()

    def ended_with(self) -> tuple[Request, ...]:
        """Returns the clients' requests that it was running when it ended: one, or those of a batch."""
        return tuple(each.request for each in self._lanes.in_work if each.request is not None)

    def end_exhausted(self) -> None:
        """Ends it because it has no memory left for requests of a size that it answered before."""
        self._took_memory = self._exhausted = True
        self.kill(f"took more than {self._memory_bytes // MIB} MiB of memory for requests like those it answered")

    async def _gone(self) -> None:
        """Waits for the end of a process that closed its socket, and kills it if it lives on: it serves nobody."""
        try:
            await asyncio.wait_for(self.ended.wait(), _LAST_WORDS_S)
        except TimeoutError:
            self.kill("closed its socket, and was killed")
            await self.ended.wait()

    async def _guard(self) -> None:
        """Kills the process when it shows no sign of life."""
        limit_s = self._settings.hang_timeout_s
        while not self._heartbeat.closed:
            before_s = process_cpu_s(self.pid)
            # Twice half the limit: after both were paused, the time is over before the answer is read.
            if await self._heartbeat.answers(limit_s / 2) or await self._heartbeat.answers(limit_s / 2):
                await asyncio.sleep(self._settings.heartbeat_s)
            elif self._lanes.waiting and before_s is not None and process_cpu_s(self.pid) != before_s:
                # It works on a request, which has a time limit of its own.
                continue
            elif not self._heartbeat.closed:
                self.hung_s = limit_s
                self.kill(f"hung: no sign of life within {limit_s:g} s; it was killed")
                return

    async def _watch(self) -> None:
        code = await self._process.wait()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)  # what it started, and what holds its pipes open
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._log.complete.wait(), _LAST_WORDS_S)
        # What it has sent is read first; a process that it left may hold the socket open.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._lanes.lost(), _LAST_WORDS_S)
        self._lanes.close()
        await self._lanes.lost()
        self._lanes.close_mark()
        self._how = self._killed_because or ("stopped" if self.stopping and code == 0 else self._ending(code))
        self._heartbeat.close()
        self._cores.close()
        if self._guarding is not None:
            self._guarding.cancel()
        os.close(self._lifeline)
        if self._group is not None:
            self._group.remove()
        for callback in self.when_ended:
            callback()
        self.ended.set()

    def _ending(self, code: int) -> str:
        line = self._log.last_line()
        suffix = f" ({line})" if line else ""
        ran_out = self._group is not None and self._group.ran_out()
        # Not any signal: the line may be an old one, of a request that was answered with an error.
        if ran_out or (code in _NO_MEMORY_CODES and any(words in line for words in _NO_MEMORY)):
            self._took_memory = True
            return f"took more than {self._memory_bytes // MIB} MiB of memory"
        if code == -signal.SIGKILL:
            return f"was killed (SIGKILL), most likely because memory ran out{suffix}"
        if code < 0:
            return f"crashed: {signal_name(-code)}{suffix}"
        return f"ended with exit code {code}{suffix}"


def _confinement(settings: Settings, folder: Path) -> Confinement:
    """Returns the limits of a worker for this bundle; a damaged bundle, which will not load, gets the defaults."""
    memory_bytes = memory_limit_bytes(settings, folder)
    backend = ""
    with contextlib.suppress(EdgeoptError):
        backend = read_deployment(folder / DEPLOYMENT).run.backend
    cache = user_cache_folder() if backend == _KEEPS_ENGINES else None
    return Confinement(
        str(folder.resolve()), memory_bytes, backend in _DRIVEN, "" if cache is None else str(cache)
    )
