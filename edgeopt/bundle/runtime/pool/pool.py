"""`edgeopt.Pool`: requests for one model, shared out over several sessions."""

import asyncio
import itertools
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from edgeopt.backends.base import Array, Feeds, Options
from edgeopt.bundle.runtime.batch_trial import made_up
from edgeopt.bundle.runtime.forked import watch_forks
from edgeopt.bundle.runtime.isolated.session import Isolation
from edgeopt.bundle.runtime.pool.members import Member, MemberStatistics, PoolRequest, Strategy, choose
from edgeopt.bundle.runtime.session import Session
from edgeopt.errors import DeadlineError, EdgeoptError, OverloadError, UsageError, WorkerError

_MAX_TRIES = 2
"""A request that ends two workers would end the others too."""
_CHECK_AGAIN_S = (0.1, 0.5, 2.0, 10.0)
"""Waiting times between checks of a member whose worker does not come back; the last one repeats."""


@dataclass(frozen=True, slots=True)
class PoolStatistics:
    waiting: int
    members: dict[str, MemberStatistics]


class Pool:
    """Shares requests out over sessions of one model: groups of cores, devices, worker processes.

    Each member runs one request at a time and has its own queue. Closing the pool closes its sessions.
    """

    def __init__(
        self,
        members: Mapping[str, Session] | Sequence[Session],
        *,
        strategy: Strategy = "cost",
        queue_size: int = 64,
        sample: Feeds | None = None,
    ) -> None:
        """`sample`: feeds that measure and check members; by default a golden sample of the bundle, or made up."""
        named = dict(members) if isinstance(members, Mapping) else {str(k): each for k, each in enumerate(members)}
        if not named or queue_size < 1 or strategy not in get_args(Strategy):
            raise UsageError(
                f"A pool of {len(named)} members with the strategy '{strategy}' and a queue of {queue_size} "
                "cannot be made.",
                f"Give at least one session, a queue of at least 1, and one of: {', '.join(get_args(Strategy))}.",
            )
        self._strategy = strategy
        self._queue_size = queue_size
        self._lock = threading.Condition()
        """Guards all that is below, and the members."""
        self._closed = False
        self._numbers = itertools.count()
        self._members = tuple(
            Member(name, session, sample if sample is not None else _sample(session))
            for name, session in named.items()
        )
        for member in self._members:
            member.measure()
        self._threads = self._started()
        watch_forks(self)

    @classmethod
    def spread(
        cls,
        path: str | Path,
        backend: str | None = None,
        options: Options | None = None,
        *,
        parts: int | None = None,
        isolation: Isolation | None = None,
        strategy: Strategy = "cost",
        queue_size: int = 64,
    ) -> "Pool":
        """A pool over this machine, with a worker process for each NUMA node, or for each GPU with CUDA.

        `parts` divides the cores among that many workers instead, or uses that many of the GPUs. Each worker is
        bound to its cores and has no more threads than these. A bundle must reproduce its golden outputs on each.
        """
        from edgeopt.bundle.runtime.pool.spread import spread

        sessions = spread(Path(path), backend, options, parts, isolation or Isolation())
        try:
            return cls(sessions, strategy=strategy, queue_size=queue_size)
        except BaseException:
            for session in sessions.values():
                session.close()
            raise

    def run(self, feeds: Feeds | Array, *, priority: int = 0, deadline_s: float | None = None) -> dict[str, Array]:
        """Waits for the outputs. Raises an OverloadError where the queue is full, and a DeadlineError."""
        future = self.submit(feeds, priority=priority, deadline_s=deadline_s)
        try:
            return future.result(deadline_s)
        except TimeoutError:
            if future.done():
                raise
            raise _late() from None
        finally:
            # Late, or interrupted: it gives up its place.
            future.cancel()

    async def run_async(
        self, feeds: Feeds | Array, *, priority: int = 0, deadline_s: float | None = None
    ) -> dict[str, Array]:
        """`run` for asyncio. A cancelled caller gives up its place in the queue; a run under way ends."""
        waiting = asyncio.wrap_future(self.submit(feeds, priority=priority, deadline_s=deadline_s))
        try:
            return await asyncio.wait_for(waiting, deadline_s)
        except TimeoutError:
            raise _late() from None

    def submit(
        self, feeds: Feeds | Array, *, priority: int = 0, deadline_s: float | None = None
    ) -> "Future[dict[str, Array]]":
        """A future of the outputs; higher priorities run first. `cancel()` gives up its place in the queue.

        A request whose deadline passes in the queue fails when its turn comes; `run` and `run_async` fail in time.
        """
        now = time.perf_counter()
        deadline = None if deadline_s is None else time.monotonic() + deadline_s
        request = PoolRequest(feeds, priority, next(self._numbers), deadline, now, size_bytes=_size_bytes(feeds))
        with self._lock:
            if self._closed:
                raise _closed()
            if not self._threads:
                self._threads = self._started()
            late = self._drop_late() if self._waiting() >= self._queue_size else []
            full = self._waiting() >= self._queue_size
            if not full:
                self._assign(request, self._members)
        _fail(late, _late())
        if full:
            raise OverloadError(
                f"The queue of the pool is full: {self._queue_size} requests wait.",
                "Send fewer requests at the same time, add members, or raise queue_size.",
            )
        # By its number: a future that held its request would keep its result until garbage is collected.
        future, number = request.future, request.number
        future.add_done_callback(lambda done: self._drop(number) if done.cancelled() else None)
        return future

    def statistics(self) -> PoolStatistics:
        with self._lock:
            return PoolStatistics(self._waiting(), {each.name: each.statistics() for each in self._members})

    def close(self) -> None:
        """Waits for the requests under way and closes the sessions; requests in the queue fail."""
        with self._lock:
            self._closed = True
            waiting = [request for member in self._members for request in member.drop_all()]
            self._lock.notify_all()
        _fail(waiting, _closed())
        for thread in self._threads:
            thread.join()
        for member in self._members:
            member.session.close()

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def before_fork(self) -> None:
        """Does nothing: the pool shares nothing with a fork."""

    def after_fork(self) -> None:
        """Fails earlier requests, which the parent's threads answer; the next request starts new threads."""
        self._lock = threading.Condition()
        self._threads = []
        for member in self._members:
            _fail(member.restart(), _forked_error())

    def _started(self) -> list[threading.Thread]:
        threads = [
            threading.Thread(target=self._work, args=(member,), name=f"edgeopt-pool-{member.name}", daemon=True)
            for member in self._members
        ]
        for thread in threads:
            thread.start()
        return threads

    def _waiting(self) -> int:
        return sum(len(member.waiting) for member in self._members)

    def _assign(self, request: PoolRequest, members: Sequence[Member]) -> None:
        choose(members, self._strategy, request.number).add(request)
        self._lock.notify_all()

    def _drop(self, number: int) -> None:
        with self._lock:
            for member in self._members:
                for request in [each for each in member.waiting if each.number == number]:
                    member.drop(request)

    def _drop_late(self) -> list[PoolRequest]:
        late = [request for member in self._members for request in member.waiting if request.is_late()]
        for request in late:
            any(member.drop(request) for member in self._members)
        return late

    def _work(self, member: Member) -> None:
        """The thread of one member."""
        while self._answer_next(member):
            pass

    def _answer_next(self, member: Member) -> bool:
        """Keeps nothing of a request: results may be large."""
        request = self._next(member)
        if request is None:
            return False
        if request.is_late():
            self._set_idle(member)
            _fail([request], _late())
            return True
        start = time.perf_counter()
        try:
            outputs = member.session.run(request.feeds)
        except WorkerError as error:
            self._retry(member, request, error)
            self._bring_back(member)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer to this request
            self._set_idle(member, failed=True)
            request.future.set_exception(error)
        else:
            with self._lock:
                member.answered(request, start, time.perf_counter())
                member.running = None
            request.future.set_result(outputs)
        return True

    def _next(self, member: Member) -> PoolRequest | None:
        with self._lock:
            while True:
                self._lock.wait_for(lambda: self._closed or member.waiting or self._take_over(member))
                if self._closed:
                    return None
                request = member.take()
                if request.started or request.future.set_running_or_notify_cancel():
                    request.started, member.running = True, request
                    return request

    def _take_over(self, member: Member) -> bool:
        """Whether it got a request of another member that it will answer sooner: estimates may have been wrong."""
        if self._strategy != "cost":
            return False
        slowest = max(self._members, key=lambda each: each.load * each.latency_s)
        if not slowest.waiting or slowest.load * slowest.latency_s <= member.latency_s:
            return False
        last = max(slowest.waiting)
        if member.name in last.tried:
            return False
        slowest.drop(last)
        member.add(last)
        return True

    def _set_idle(self, member: Member, failed: bool = False) -> None:
        with self._lock:
            member.running = None
            if failed:
                member.failed()

    def _retry(self, member: Member, request: PoolRequest, error: WorkerError) -> None:
        """Another member runs it, and what waits for this one."""
        request.tried.add(member.name)
        with self._lock:
            member.healthy, member.running = False, None
            member.failed()
            others = [each for each in self._members if each.healthy and each.name not in request.tried]
            again = bool(others) and len(request.tried) < _MAX_TRIES and not self._closed
            if again:
                self._assign(request, others)
            if any(each.healthy for each in self._members):
                for waiting in member.drop_all():
                    self._assign(waiting, self._members)
        if not again:
            request.future.set_exception(error)

    def _bring_back(self, member: Member) -> None:
        """Gives it requests again once its worker answers; those that wait meanwhile go elsewhere, or fail."""
        for tries in itertools.count():
            try:
                member.check()
            except WorkerError as error:
                self._give_up_waiting(member, error)
                with self._lock:
                    pause_s = _CHECK_AGAIN_S[min(tries, len(_CHECK_AGAIN_S) - 1)]
                    if self._lock.wait_for(lambda: self._closed, pause_s):
                        return
            except EdgeoptError:
                break  # an error of the sample, but the worker answers
            else:
                break
        with self._lock:
            member.healthy = True

    def _give_up_waiting(self, member: Member, error: WorkerError) -> None:
        with self._lock:
            waiting = member.drop_all()
            elsewhere = any(each.healthy for each in self._members)
            for request in waiting if elsewhere else ():
                self._assign(request, self._members)
        if not elsewhere:
            _fail(waiting, error)


def _sample(session: Session) -> Feeds:
    golden = session.golden()
    return golden[0] if golden else made_up(session.inputs, 1)[0]


def _size_bytes(feeds: Feeds | Array) -> int:
    arrays = feeds.values() if isinstance(feeds, Mapping) else (feeds,)
    return sum(getattr(array, "nbytes", 0) for array in arrays)


def _fail(requests: Sequence[PoolRequest], error: EdgeoptError) -> None:
    """Call it without the pool's lock, because futures run their callbacks."""
    for request in requests:
        if request.started or request.future.set_running_or_notify_cancel():
            request.future.set_exception(error)


def _late() -> DeadlineError:
    return DeadlineError(
        "The request was not answered within its deadline.",
        "Send fewer requests at the same time, add members, or allow more time.",
    )


def _forked_error() -> UsageError:
    return UsageError(
        "The request was made before this process was forked; the process that made it has the answer.",
        "Send it again.",
    )


def _closed() -> UsageError:
    return UsageError("This pool is closed.", "Make a new edgeopt.Pool of new sessions.")
