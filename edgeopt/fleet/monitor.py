"""Watching an agent for a while, with requests of one's own on the side."""

import threading
import time
from contextlib import ExitStack, suppress

import msgspec

from edgeopt.events import Emit, Event, Metric
from edgeopt.fleet.access import address_of
from edgeopt.fleet.request import WatchRequest
from edgeopt.fleet.telemetry import watch
from edgeopt.fleet.traffic import Sent, Traffic

_TELL_EVERY_S = 1.0


class Watched(msgspec.Struct, frozen=True):
    url: str
    seconds: float
    sent: Sent | None = None


def monitor(request: WatchRequest, emit: Emit) -> Watched:
    """Passes on an agent's events for this time; a rate sends requests as well, 0 as fast as they are answered."""
    stop = threading.Event()
    begin = time.monotonic()
    seconds, rate = request.seconds, request.send
    address = address_of(request.url, request.token, request.fingerprint)
    traffic = (
        None
        if rate is None
        else Traffic(address, request.data, rate or None, request.clients, model=request.model)
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
    return Watched(address.url, time.monotonic() - begin, traffic.sent() if traffic else None)


def _with_traffic(traffic: Traffic, emit: Emit) -> Emit:
    """Adds about once a second how the requests of this side fare."""
    told_at, told = time.monotonic(), 0

    def both(event: Event) -> None:
        nonlocal told_at, told
        emit(event)
        now = time.monotonic()
        if now - told_at < _TELL_EVERY_S:
            return
        sent = traffic.sent()
        for name, value in (
            ("sent_per_s", (sent.requests - told) / (now - told_at)),
            ("sent_requests", float(sent.requests)),
            ("failed_requests", float(sent.failures)),
        ):
            emit(Metric(name, value, time_s=time.time()))
        told_at, told = now, sent.requests

    return both
