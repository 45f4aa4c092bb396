"""Spans, sent in batches to a collector of OpenTelemetry: OTLP over HTTP with JSON.

The format is that of opentelemetry-proto's `ExportTraceServiceRequest`.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress

from edgeopt_agent.telemetry.otlp import Document, Failure, attributes, post, resource, scope
from edgeopt_agent.telemetry.tracing import Span, SpanEvent, Tracer
from edgeopt_agent.threads import in_thread

_PATH = "/v1/traces"
_ERROR = 2
_LAST_BATCH_S = 1.0
# Span.flags: the 8 bits of the traceparent, and whether the parent is of another process.
_SAMPLED, _REMOTE_IS_KNOWN, _IS_REMOTE = 0x1, 0x100, 0x200
log = logging.getLogger(__name__)


async def export(endpoint: str, interval_s: float, tracer: Tracer) -> None:
    """Sends the spans once an interval, and as soon as a batch is full; at the end, the last batch."""
    trouble: Failure | None = None
    try:
        while True:
            if trouble is not None:
                await asyncio.sleep(interval_s)
            else:
                with suppress(TimeoutError):
                    await asyncio.wait_for(tracer.enough.wait(), interval_s)
            trouble = await _send(endpoint, tracer, trouble)
    finally:
        if trouble is None:
            with suppress(TimeoutError):
                await asyncio.wait_for(_send(endpoint, tracer, None), _LAST_BATCH_S)


async def _send(endpoint: str, tracer: Tracer, before: Failure | None) -> Failure | None:
    """Why the collector did not take the oldest batch; `before` is why it did not take the one before."""
    batch = tracer.take()
    if not batch:
        return before
    # Encoded in the thread too: a batch takes longer than a request may wait for the event loop.
    failure = await in_thread(lambda: post(endpoint, _PATH, document(batch)))
    if failure is None:
        if before is not None:
            log.warning("The collector at %s gets traces again.", endpoint)
        return None
    if failure.retryable:
        tracer.put_back(batch)
    else:
        tracer.dropped += len(batch)
    if before is None:
        log.warning("The collector at %s gets no traces: %s", endpoint, failure.reason)
    return failure


def document(spans: Iterable[Span]) -> Document:
    found = [_span(each) for each in spans]
    return {"resourceSpans": [{"resource": resource(), "scopeSpans": [{"scope": scope(), "spans": found}]}]}


def _span(span: Span) -> Document:
    """Fields with the default of their type are left out, as protobuf does."""
    remote = _IS_REMOTE if span.parent_is_remote else 0
    found: Document = {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "flags": _SAMPLED | _REMOTE_IS_KNOWN | remote,
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.end_ns),
        "attributes": attributes(span.attributes),
    }
    if span.parent_id:
        found["parentSpanId"] = span.parent_id
    if span.events:
        found["events"] = _events(span.events)
    if span.error is not None:
        found["status"] = {"code": _ERROR, "message": span.error}
    return found


def _events(events: Sequence[SpanEvent]) -> list[Document]:
    return [
        {"name": each.name, "timeUnixNano": str(each.time_ns), "attributes": attributes(each.attributes)}
        for each in events
    ]
