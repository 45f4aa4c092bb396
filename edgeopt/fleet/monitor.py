"""Watching an agent for a while, with requests of one's own on the side."""

import http.client
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

import msgspec

from edgeopt.errors import EdgeoptError, InputError
from edgeopt.events import Emit, Event, Metric
from edgeopt.fleet import transport
from edgeopt.fleet.address import Address
from edgeopt.fleet.client import Agent
from edgeopt.fleet.pairing import address_of
from edgeopt.fleet.request import FleetWatchRequest
from edgeopt.fleet.telemetry import watch
from edgeopt.fleet.tensors import TensorMetadata, TensorRequest, requests
from edgeopt.fleet.transport import ask, refusal_in, understood

_TIMEOUT_S = 30.0
# Servers close connections that rest; a request that meets that moment would look like a failure.
_IDLE_S = 2.0
_LEAVE_WITHIN_S = 2.0
_PAUSE_AFTER_FAILURE_S = 0.05
_LOOK_AGAIN_EVERY_S = 1.0
_KEPT_LATENCIES = 4096
_TELL_EVERY_S = 1.0


class TrafficCounts(msgspec.Struct, frozen=True):
    """Counts and latencies of the requests that were sent so far."""

    requests: int
    failures: int
    first_failure: str = ""
    latency_p50_ms: float | None = None
    """Median latency of the latest requests, as a client sees it."""
    latency_p99_ms: float | None = None


class Traffic:
    """Sends while it is entered; `sent` may be read at any time.

    With a rate, requests are due at even times whether the earlier ones were answered or not, as long as a client
    is free; late ones are sent at once.
    """

    def __init__(
        self,
        url: str | Address,
        data: Path | None = None,
        rate_per_s: float | None = None,
        clients: int = 2,
        token: str = "",
        model: str = "",
        pre: Path | None = None,
    ) -> None:
        self._agent = Agent(url, token=token, model=model)
        self._data, self._pre, self._rate = data, pre, rate_per_s
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._requests, self._failures, self._first_failure = 0, 0, ""
        self._latencies_ms: deque[float] = deque(maxlen=_KEPT_LATENCIES)
        self._due, self._began = 0, 0.0
        self._looked_at = 0.0
        self._plan: tuple[str, tuple[TensorRequest, ...]] = ("", ())
        self._threads = [
            threading.Thread(target=self._client, name=f"traffic-{k}", daemon=True) for k in range(clients)
        ]

    def __enter__(self) -> "Traffic":
        """Raises a sentence when the agent serves nothing, or the data does not fit what it serves."""
        self._look()
        self._began = time.monotonic()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(_LEAVE_WITHIN_S)  # one that waits for an agent that hangs is left behind

    def sent(self) -> TrafficCounts:
        with self._lock:
            latencies = sorted(self._latencies_ms)
            counted = (self._requests, self._failures, self._first_failure)
        if not latencies:
            return TrafficCounts(*counted)
        return TrafficCounts(*counted, latencies[len(latencies) // 2], latencies[len(latencies) * 99 // 100])

    def _look(self) -> None:
        """Reads which model the agent serves now, and makes the requests that fit it."""
        address = self._agent.address
        serving = self._agent.status().serving
        if serving is None:
            raise InputError(
                f"The agent at {address.url} serves nothing yet, so there is nothing to send.",
                "Deploy a bundle first: edgeopt fleet deploy BUNDLE",
            )
        place = f"/v2/models/{quote(serving.plain_name, safe='')}"
        metadata = understood(address, ask(address, "GET", place, _TIMEOUT_S), TensorMetadata)
        self._plan = (f"{place}/infer", requests(metadata, self._data, self._pre))

    def _client(self) -> None:
        address = self._agent.address
        connection = transport.connect(address, _TIMEOUT_S)
        used_at = time.monotonic()
        try:
            while (number := self._next()) is not None:
                if time.monotonic() - used_at > _IDLE_S:
                    connection.close()
                path, bodies = self._plan
                problem = _send(connection, address, path, bodies[number % len(bodies)], self._answered)
                used_at = time.monotonic()
                if problem:
                    self._failed(problem)
                    connection.close()
                    self._stop.wait(_PAUSE_AFTER_FAILURE_S)
                    self._look_again()
        finally:
            connection.close()

    def _next(self) -> int | None:
        """The number of the next request, once it is due; None when it is time to stop."""
        with self._lock:
            number = self._due
            self._due += 1
        if self._rate is not None:
            self._stop.wait(max(0.0, self._began + number / self._rate - time.monotonic()))
        return None if self._stop.is_set() else number

    def _answered(self, latency_ms: float) -> None:
        with self._lock:
            self._requests += 1
            self._latencies_ms.append(latency_ms)

    def _failed(self, problem: str) -> None:
        with self._lock:
            self._requests += 1
            self._failures += 1
            self._first_failure = self._first_failure or problem

    def _look_again(self) -> None:
        """Reads the served model, which may have changed, again after a failure, unless a client did so lately."""
        with self._lock:
            now = time.monotonic()
            if now - self._looked_at < _LOOK_AGAIN_EVERY_S:
                return
            self._looked_at = now
        try:
            self._look()
        except EdgeoptError as error:  # counted as failures as long as it lasts
            self._first_failure = self._first_failure or error.message


def _send(
    connection: http.client.HTTPConnection,
    address: Address,
    path: str,
    request: TensorRequest,
    answered: Callable[[float], None],
) -> str:
    """Returns the reason that the request failed; empty if it was answered."""
    headers = {
        **address.headers,
        "Content-Type": "application/octet-stream",
        "Inference-Header-Content-Length": str(request.header_length),
    }
    begin = time.perf_counter()
    try:
        connection.request("POST", path, body=request.body, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
    except EdgeoptError as error:  # the certificate is not the right one
        return error.message
    except (OSError, http.client.HTTPException) as error:
        return f"{type(error).__name__}: {error}"
    if answer.status != 200:
        refusal = refusal_in(body)
        return f"{answer.status} {refusal.message if refusal else answer.reason}"
    answered((time.perf_counter() - begin) * 1000)
    return ""


class WatchedAgent(msgspec.Struct, frozen=True):
    url: str
    seconds: float
    sent: TrafficCounts | None = None


def monitor(request: FleetWatchRequest, emit: Emit) -> WatchedAgent:
    """Passes on an agent's events for this time; a rate sends requests as well, 0 as fast as they are answered."""
    stop = threading.Event()
    begin = time.monotonic()
    seconds, rate = request.seconds, request.send
    address = address_of(request.url, request.token, request.fingerprint)
    traffic = (
        None
        if rate is None
        else Traffic(address, request.data, rate or None, request.clients, model=request.model, pre=request.pre)
    )
    with ExitStack() as stack:
        if seconds is not None:
            timer = threading.Timer(seconds, stop.set)
            timer.daemon = True
            timer.start()
            stack.callback(timer.cancel)
        if traffic is not None:
            stack.enter_context(traffic)
        # Ctrl-C is how a watch without an end is ended.
        with suppress(KeyboardInterrupt):
            watch(address, emit if traffic is None else _with_traffic(traffic, emit), stop, model=request.model)
    return WatchedAgent(address.url, time.monotonic() - begin, traffic.sent() if traffic else None)


def _with_traffic(traffic: Traffic, emit: Emit) -> Emit:
    """Adds about once a second how the requests of this side fare."""
    emitted_at, counted = time.monotonic(), 0

    def both(event: Event) -> None:
        nonlocal emitted_at, counted
        emit(event)
        now = time.monotonic()
        if now - emitted_at < _TELL_EVERY_S:
            return
        sent = traffic.sent()
        for name, value in (
            ("sent_per_s", (sent.requests - counted) / (now - emitted_at)),
            ("sent_requests", float(sent.requests)),
            ("failed_requests", float(sent.failures)),
        ):
            emit(Metric(name, value, time_s=time.time()))
        emitted_at, counted = now, sent.requests

    return both
