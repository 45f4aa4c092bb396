import json
import math
import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeopt import events

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
MAYBE = st.none() | FINITE
STATUS = st.sampled_from(["racing", "winner", "lost", "below the floor", "failed", "not tried"])
COUNT = st.none() | st.integers(0, sys.maxsize)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-sys.maxsize, sys.maxsize) | FINITE | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
EVENTS = (
    st.builds(events.Progress, TEXT, TEXT, COUNT, COUNT, st.none() | TEXT, MAYBE, TEXT, MAYBE)
    | st.builds(events.Metric, TEXT, FINITE, TEXT, MAYBE)
    | st.builds(events.Standing, TEXT, STATUS, TEXT, MAYBE, MAYBE, MAYBE, MAYBE, MAYBE)
    | st.builds(events.Log, st.sampled_from(["info", "warning"]), TEXT)
    | st.builds(events.Result, TEXT, st.dictionaries(TEXT, PLAIN, max_size=3))
    | st.builds(events.Error, TEXT, TEXT, TEXT)
)


@given(EVENTS)
def test_what_is_written_is_what_is_read(event):
    assert events.decode(events.encode(event)) == event


@given(EVENTS)
def test_an_event_is_one_line_of_json(event):
    line = events.encode(event)
    assert "\n" not in line
    assert "\r" not in line
    record = json.loads(line)
    assert record["event"] == type(event).__name__.lower()
    assert record["schema"] == events.SCHEMA


@given(EVENTS, st.dictionaries(TEXT.filter(lambda key: key), PLAIN, min_size=1, max_size=3))
def test_a_reader_ignores_what_a_later_version_adds(event, added):
    record = json.loads(events.encode(event))
    news = {f"new {key}": value for key, value in added.items()}
    assert events.decode(json.dumps(record | news)) == event


@pytest.mark.parametrize(
    "line",
    [
        '{"event": "telemetry", "schema": 1}',
        '{"name": "latency_ms", "value": 1.0}',
        '{"event": "metric", "name": "latency_ms"}',
        '{"event": "metric", "name": "latency_ms", "value": null}',
        '{"event": "metric", "name": "latency_ms", "value": "1"}',
        '{"event": "log", "level": "debug", "message": ""}',
        '{"event": "standing", "candidate": "a", "status": "asleep"}',
        '{"event": "standing", "status": "racing"}',
        "[]",
    ],
)
def test_what_is_no_event_is_refused(line):
    with pytest.raises(msgspec.ValidationError):
        events.decode(line)


@pytest.mark.parametrize("line", ["", "{", "Loading model...", '{"event": "metric", "name": "x", "value": NaN}'])
def test_what_is_no_json_is_refused(line):
    with pytest.raises(msgspec.DecodeError):
        events.decode(line)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_metric_that_is_no_number_cannot_be_told(value):
    with pytest.raises(ValueError, match="latency_ms"):
        events.Metric("latency_ms", value)


def test_a_result_tells_a_number_that_is_not_finite_as_null():
    read = events.decode(events.encode(events.Result("x", {"accuracy_db": -math.inf})))
    assert isinstance(read, events.Result)
    assert read.data == {"accuracy_db": None}


def test_nobody_has_to_listen():
    assert events.ignore(events.Log("info", "unheard")) is None
