"""Which requests are traced, and the buffer of their spans."""

import asyncio
import logging

import pytest

from edgeopt_agent.telemetry import otlp_traces
from edgeopt_agent.telemetry.tracing import (
    MOST_SENT_AT_ONCE,
    MOST_WAITING,
    SERVER,
    Parent,
    Span,
    Tracer,
    parse_traceparent,
)
from tests.agent.telemetry.collector import collecting

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GOOD = f"00-{TRACE}-{PARENT}-01"


def span(number):
    return Span(TRACE, f"{number:016x}", "test", SERVER, number, number + 1)


@pytest.mark.parametrize(
    ("text", "sampled"),
    [
        (GOOD, True),
        (f"00-{TRACE}-{PARENT}-00", False),
        (f"00-{TRACE}-{PARENT}-02", False),
        (f"00-{TRACE}-{PARENT}-ff", True),
        (f"01-{TRACE}-{PARENT}-01", True),
        (f"cc-{TRACE}-{PARENT}-01-what-the-future-brings", True),
    ],
)
def test_traceparent_carries_the_callers_span(text, sampled):
    assert parse_traceparent(text) == Parent(TRACE, PARENT, sampled)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01-more",
        f"00-{TRACE}-{PARENT}-01-",
        f"01-{TRACE}-{PARENT}-01.more",
        f"00-{TRACE.upper()}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-0x",
        f"00-{TRACE}-{PARENT}-1",
        f"0-{TRACE}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01\n",
        f"00_{TRACE}_{PARENT}_01",
    ],
)
def test_malformed_traceparent_is_ignored(text):
    assert parse_traceparent(text) is None


def test_two_traceparents_are_ignored():
    assert Tracer(0.0).begin("test", [GOOD, GOOD]) is None
    assert Tracer(0.0).begin("test", [GOOD]) is not None


def test_ratio_decides_where_the_caller_does_not():
    assert Tracer(0.0).begin("test", []) is None
    assert Tracer(1.0).begin("test", []) is not None
    assert Tracer(1.0).begin("test", [GOOD[:-1] + "0"]) is None
    tracer = Tracer(0.25)
    traced = sum(tracer.begin("test", []) is not None for _ in range(4000))
    assert 700 < traced < 1300


def test_full_buffer_drops_the_oldest_and_counts_them():
    tracer = Tracer(1.0)
    for number in range(MOST_WAITING + 3):
        tracer.add(span(number))
    assert tracer.dropped == 3
    assert tracer.take()[0] == span(3)


def test_batch_that_was_not_sent_goes_back_before_newer_spans():
    tracer = Tracer(1.0)
    for number in range(MOST_WAITING):
        tracer.add(span(number))
    batch = tracer.take()
    assert len(batch) == MOST_SENT_AT_ONCE
    for number in range(10):
        tracer.add(span(MOST_WAITING + number))
    tracer.put_back(batch)
    assert tracer.dropped == 10
    assert tracer.take()[0] == span(10)


def test_collector_that_fails_is_logged_once(caplog):
    async def export(url):
        tracer = Tracer(1.0)
        tracer.add(span(1))
        exporting = asyncio.create_task(otlp_traces.export(url, 0.01, tracer))
        while len(caplog.records) < 2:
            await asyncio.sleep(0.01)
        exporting.cancel()
        await asyncio.gather(exporting, return_exceptions=True)

    with caplog.at_level(logging.INFO), collecting(statuses=[503, 503, 503]) as (received, url):
        asyncio.run(export(url))
        assert [received.get()[0] for _ in range(4)] == [503, 503, 503, 200]
    failed, worked = [record.message for record in caplog.records]
    assert failed.startswith(f"The collector at {url} gets no traces: HTTP Error 503")
    assert worked == f"The collector at {url} gets traces again."
