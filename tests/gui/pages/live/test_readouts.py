"""The figures beside the charts."""

import pytest

from edgeopt.events import Metric
from edgeopt_gui.pages.live.history import History
from edgeopt_gui.pages.live.readouts import NOTHING, read


def row(history, name, missing=None):
    return next(each for each in read(history, missing or {}) if each.name == name)


@pytest.fixture
def history():
    made = History()
    for name, value in (
        ("latency_p50_ms", 0.26231),
        ("latency_p99_ms", 12.34),
        ("throughput_per_s", 3811.9),
        ("process_memory_bytes", 300 * 2**20),
        ("process_memory_bytes", 120 * 2**20),
        ("load_percent", 50.4),
        ("clock_hz", 2.4e9),
    ):
        made.take(Metric(name, float(value)), 1e9)
    return made


def test_values_have_units_and_the_digits_that_mean_something(history):
    assert (row(history, "p50").value, row(history, "p50").unit) == ("262", "µs")
    assert (row(history, "p99").value, row(history, "p99").unit) == ("12.3", "ms")
    assert (row(history, "Runs per second").value, row(history, "Runs per second").note) == ("3,812", "")
    history.take(Metric("runs", 54321.0), 1e9)
    assert row(history, "Runs per second").note == "54,321 runs so far"
    assert row(history, "Load").value == "50 %"
    assert row(history, "Clock").value == "2.40 GHz"
    memory = row(history, "Process memory")
    assert (memory.value, memory.note) == ("120 MiB", "peak 300 MiB")


def test_what_is_not_told_says_why(history):
    assert row(history, "p90").value == NOTHING
    temperature = row(history, "Temperature", {"temperature_c": "no sensor"})
    assert (temperature.value, temperature.note) == (NOTHING, "No sensor")


def test_requests_of_this_side_are_counted(history):
    assert all(each.name != "Test requests per second" for each in read(history, {}))
    history.take(Metric("sent_per_s", 20.0), 1e9)
    history.take(Metric("sent_requests", 1200.0), 1e9)
    history.take(Metric("failed_requests", 3.0), 1e9)
    requests = row(history, "Test requests per second")
    assert (requests.value, requests.note) == ("20.0", "1,200 sent, 3 failed")


def test_percentiles_say_over_how_many_runs_they_are_taken(history):
    assert row(history, "p99").note == ""
    history.take(Metric("percentile_runs", 12345.0), 1e9)
    assert row(history, "p99").note == "p50 to p99 of the last 12,345 runs"
    assert row(history, "p50").note == ""
