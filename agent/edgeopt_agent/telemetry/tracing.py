"""Spans of requests and deployments: which ones are recorded, and the buffer where they wait for the collector."""

import asyncio
import os
import random
import re
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from edgeopt_agent.workers.outcomes import Answer

MOST_WAITING = 2048
MOST_SENT_AT_ONCE = 512
INTERNAL, SERVER = 1, 2
_MOST_CHARACTERS = 256
_SAMPLED = 1
_HEX = "[0-9a-f]"
# https://www.w3.org/TR/trace-context/#traceparent-header: only versions above 00 may carry more at the end.
_TRACEPARENT = re.compile(rf"({_HEX}{{2}})-({_HEX}{{32}})-({_HEX}{{16}})-({_HEX}{{2}})(-.*)?")
_INVALID_VERSION = "ff"
Value = str | int


@dataclass(frozen=True, slots=True)
class Parent:
    """The caller's span, from its traceparent."""

    trace_id: str
    span_id: str
    sampled: bool


@dataclass(frozen=True, slots=True)
class SpanEvent:
    name: str
    time_ns: int
    attributes: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Span:
    trace_id: str
    span_id: str
    name: str
    kind: int
    start_ns: int
    end_ns: int
    parent_id: str = ""
    parent_is_remote: bool = False
    attributes: Mapping[str, Value] = field(default_factory=dict)
    events: Sequence[SpanEvent] = ()
    error: str | None = None
    """Why it failed; None where it did not, or where only the caller was at fault."""


class Tracer:
    def __init__(self, ratio: float) -> None:
        """`ratio` is the share of the requests without a traceparent that is recorded."""
        self.ratio = ratio
        self.dropped = 0
        """Spans that the collector will never get: it was too slow, away, or refused them."""
        self.enough = asyncio.Event()
        """Set while a full batch waits."""
        self._waiting: deque[Span] = deque()

    def begin(self, name: str, traceparents: Sequence[str]) -> "RequestSpan | None":
        """The server span of a request; None where it is not recorded."""
        parent = parse_traceparent(traceparents[0]) if len(traceparents) == 1 else None
        if parent is None:
            # Not for cryptography: whether to record it is no secret.
            return RequestSpan(self, name, None) if random.random() < self.ratio else None  # noqa: S311
        return RequestSpan(self, name, parent) if parent.sampled else None

    def add(self, *spans: Span) -> None:
        self._waiting.extend(spans)
        while len(self._waiting) > MOST_WAITING:
            self._waiting.popleft()
            self.dropped += 1
        if len(self._waiting) >= MOST_SENT_AT_ONCE:
            self.enough.set()

    def take(self) -> list[Span]:
        """The oldest batch."""
        batch = [self._waiting.popleft() for _ in range(min(MOST_SENT_AT_ONCE, len(self._waiting)))]
        if len(self._waiting) < MOST_SENT_AT_ONCE:
            self.enough.clear()
        return batch

    def put_back(self, batch: Sequence[Span]) -> None:
        """A batch that could not be sent, as far as there is still room for it."""
        room = MOST_WAITING - len(self._waiting)
        kept = batch[max(0, len(batch) - room) :]
        self.dropped += len(batch) - len(kept)
        self._waiting.extendleft(reversed(kept))


class RequestSpan:
    """The server span of a request that is being answered."""

    def __init__(self, tracer: Tracer, name: str, parent: Parent | None) -> None:
        self.attributes: dict[str, Value] = {}
        self._tracer = tracer
        self._name = name
        self._parent = parent
        self._trace_id = new_id(16) if parent is None else parent.trace_id
        self._span_id = new_id(8)
        self._children: list[Span] = []
        self._error: str | None = None
        self._start_ns, self._began_ns = time.time_ns(), time.perf_counter_ns()
        self._asked_ns = self._start_ns

    def asked(self, model: str, version: str | None, size_bytes: int) -> None:
        """The request has arrived and goes to its model."""
        self._asked_ns = self._now_ns()
        self.attributes["edgeopt.model.name"] = model[:_MOST_CHARACTERS]
        if version:
            self.attributes["edgeopt.model.version"] = version[:_MOST_CHARACTERS]
        self.attributes["edgeopt.request.bytes"] = size_bytes

    def answered(self, answer: Answer) -> None:
        """As in the statistics, the queue is all the time that was not the model's own."""
        now_ns = self._now_ns()
        self.attributes["edgeopt.model.version"] = answer.release_id
        self.attributes["edgeopt.response.bytes"] = len(answer.body)
        if answer.compute_ms > 0.0:
            began_ns = max(self._asked_ns, now_ns - round(answer.compute_ms * 1e6))
            self._add_child("queue", self._asked_ns, began_ns)
            self._add_child("compute", began_ns, now_ns)

    def fail(self, sentence: str, *, of_server: bool) -> None:
        """A request that is wrong itself leaves the status unset, as the semantic conventions ask."""
        self.attributes["edgeopt.error"] = sentence[:_MOST_CHARACTERS]
        self._error = sentence[:_MOST_CHARACTERS] if of_server else None

    def end(self) -> None:
        span = Span(
            *(self._trace_id, self._span_id, self._name, SERVER, self._start_ns, self._now_ns()),
            parent_id="" if self._parent is None else self._parent.span_id,
            parent_is_remote=self._parent is not None,
            attributes=dict(self.attributes),  # the work of a client that is gone continues
            error=self._error,
        )
        self._tracer.add(span, *self._children)

    def _add_child(self, name: str, start_ns: int, end_ns: int) -> None:
        child = Span(self._trace_id, new_id(8), name, INTERNAL, start_ns, end_ns, self._span_id)
        self._children.append(child)

    def _now_ns(self) -> int:
        """By the monotonic clock: the other one may be set meanwhile."""
        return self._start_ns + time.perf_counter_ns() - self._began_ns


def parse_traceparent(text: str) -> Parent | None:
    """None for what is malformed: the specification wants it ignored."""
    found = _TRACEPARENT.fullmatch(text)
    if found is None or found[1] == _INVALID_VERSION or (found[1] == "00" and found[5]):
        return None
    trace_id, span_id = found[2], found[3]
    if not trace_id.strip("0") or not span_id.strip("0"):
        return None
    return Parent(trace_id, span_id, bool(int(found[4], 16) & _SAMPLED))


def new_id(size_bytes: int) -> str:
    return os.urandom(size_bytes).hex()
