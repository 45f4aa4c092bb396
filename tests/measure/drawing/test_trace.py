import gzip
import json
import os
from itertools import pairwise

import msgspec
import pytest

from edgeopt.measure.drawing.trace import write_trace
from edgeopt.measure.report import Comparison, ContestReport, RoundState, SideReport, Slice
from edgeopt.measure.stats import Interval

BEGIN_S = 98_765.123_456_789


def runs(number, begin_s, count=4, latency_ms=10.0, **more):
    starts = tuple(k * latency_ms for k in range(count))
    return Slice(number, begin_s, count * latency_ms / 1e3, (latency_ms,) * count, starts, **more)


def report(**more):
    slices = [
        [runs(k, BEGIN_S + 0.1 * k + 0.05 * side, memory_bytes=(30 + k) * 2**20) for k in range(3)]
        for side in range(2)
    ]
    states = [RoundState(k, BEGIN_S + 0.1 * k, 0.095, 2.4e9, 51.0 + k, 2.0, 0.0) for k in range(3)]
    states[1] = msgspec.structs.replace(states[1], bad=("Other processes took 35 % of the cores.",), repeated=True)
    sides = (
        SideReport("model.onnx", "model.onnx", "model", "onnxruntime-cpu", slices=tuple(slices[0])),
        SideReport("openvino-cpu", "model.onnx", "model", "openvino-cpu", slices=tuple(slices[1])),
    )
    compared = Comparison("model.onnx", "openvino-cpu", Interval(1.4, 1.3, 1.5, 3), "faster")
    known = {"sides": sides, "states": tuple(states), "comparisons": (compared,), "versions": {"edgeopt": "1.2"}}
    return ContestReport(**(known | more))


@pytest.fixture
def written(tmp_path):
    """Writes a report and reads the file as Perfetto would: JSON, or JSON in gzip."""

    def write(found, name="trace.json"):
        path = tmp_path / name
        write_trace(found, path)
        assert [file.name for file in tmp_path.iterdir()] == [name]
        return json.loads(gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes())

    return write


def rows(trace):
    """The slices of each row, in the order of the file."""
    found = {}
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            found.setdefault((event["pid"], event["tid"]), []).append(event)
    return found


def names(trace, kind):
    return {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in trace["traceEvents"]
        if event["ph"] == "M" and event["name"] == kind
    }


def check(trace):
    """What the format asks for: known phases with their fields, in order of time, no overlap within a row."""
    needed = {"X": {"dur", "tid"}, "C": {"args"}, "i": {"s", "tid"}, "M": {"args"}}
    for event in trace["traceEvents"]:
        assert {"name", "pid", "ts"} | needed[event["ph"]] <= event.keys()
        assert event["ts"] >= 0
        assert event.get("dur", 0) >= 0
    times = [event["ts"] for event in trace["traceEvents"]]
    assert times == sorted(times)
    for events in rows(trace).values():
        for one, following in pairwise(events):
            # In whole nanoseconds, as Perfetto keeps them.
            assert round(one["ts"] * 1e3) + round(one["dur"] * 1e3) <= round(following["ts"] * 1e3)


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_each_side_is_a_process_with_its_slices_and_runs(written, name):
    trace = written(report(), name)
    check(trace)
    assert list(names(trace, "process_name").values()) == [
        "device",
        "model.onnx (onnxruntime-cpu)",
        "openvino-cpu",
    ]
    assert list(names(trace, "thread_name").values()) == ["rounds", "slices", "runs", "slices", "runs"]
    found = rows(trace)
    assert [event["name"] for event in found[2, 1]] == ["round 0", "round 1", "round 2"]
    assert found[2, 1][0]["args"] == {"runs": 4, "p50_ms": 10.0}
    assert len(found[2, 2]) == len(found[3, 2]) == 12
    # In microseconds since the begin.
    assert [(event["ts"], event["dur"]) for event in found[2, 2]][:2] == [(0.0, 10_000.0), (10_000.0, 10_000.0)]
    assert found[3, 2][0]["ts"] == pytest.approx(50_000.0, abs=0.01)


def test_the_device_tells_its_state_and_marks_bad_rounds(written):
    trace = written(report())
    counters = {}
    for event in trace["traceEvents"]:
        if event["ph"] == "C":
            [(unit, value)] = event["args"].items()
            counters.setdefault((event["pid"], event["name"], unit), []).append(value)
    assert counters[1, "clock", "GHz"] == [2.4, 2.4, 2.4]
    assert counters[1, "temperature", "°C"] == [51.0, 52.0, 53.0]
    assert counters[1, "load of others", "%"] == [2.0, 2.0, 2.0]
    assert counters[2, "memory", "MiB"] == [30.0, 31.0, 32.0]
    [mark] = [event for event in trace["traceEvents"] if event["ph"] == "i"]
    assert (mark["pid"], mark["name"]) == (1, "Other processes took 35 % of the cores.")
    assert [event["name"] for event in rows(trace)[1, 1]] == ["round 0", "round 1 (repeated)", "round 2"]


def test_what_the_file_says_of_itself(written):
    about = written(report(measured_while="Measured while the device was quiet."))["otherData"]
    assert about["title"] == "edgeopt bench: model.onnx against openvino-cpu"
    assert about["model.onnx against openvino-cpu"] == "faster, 1.40x [1.30 1.50]"
    assert about["state of the device"] == "Measured while the device was quiet."
    assert about["version of edgeopt"] == "1.2"
    assert "thinned" not in about


def test_runs_at_the_same_time_get_rows_of_their_own(written):
    overlapping = Slice(0, BEGIN_S, 0.03, (10.0, 10.0, 10.0, 10.0), (0.0, 2.0, 4.0, 12.0))
    trace = written(report(sides=(SideReport("a", "a", "model", slices=(overlapping,)),)))
    check(trace)
    assert [len(rows(trace)[2, row]) for row in (2, 3, 4)] == [2, 1, 1]
    assert names(trace, "thread_name")[2, 3] == "runs (2 concurrent)"


def test_runs_that_follow_each_other_at_once_stay_in_one_row(written):
    """Trials tell begins in whole microseconds, and latencies to the nanosecond."""
    latencies = tuple(0.011_003 + 0.000_007 * (k % 13) for k in range(2000))
    starts = tuple(round(sum(latencies[:k]), 3) for k in range(2000))
    slices = tuple(Slice(k, BEGIN_S + k * 0.03, 0.03, latencies, starts) for k in range(3))
    trace = written(report(sides=(SideReport("a", "a", "model", slices=slices),)))
    check(trace)
    assert (2, 3) not in rows(trace)


def test_a_long_contest_is_thinned_and_says_so(written, monkeypatch):
    monkeypatch.setattr("edgeopt.measure.drawing.trace.MOST_RUNS", 2_000)
    slices = tuple(runs(k, BEGIN_S + k, 500, 0.01) for k in range(9))
    trace = written(report(sides=(SideReport("a", "a", "model", slices=slices),)))
    check(trace)
    assert len(rows(trace)[2, 2]) == 1_500
    assert trace["otherData"]["thinned"] == "1 of 3 runs is drawn, at most 2000 per file"


def test_slices_without_the_begins_of_their_runs_are_still_drawn(written):
    slices = (Slice(0, BEGIN_S, 0.04, (10.0,) * 4, energy_j=1.5, counters={"cycles": 7}),)
    trace = written(report(sides=(SideReport("a", "a", "model", slices=slices),)))
    assert (2, 2) not in rows(trace)
    assert rows(trace)[2, 1][0]["args"] == {"runs": 4, "p50_ms": 10.0, "energy_j": 1.5, "cycles": 7}


def test_an_empty_contest_is_a_file_that_opens(written):
    check(written(ContestReport(())))


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path):
    (tmp_path / "trace.json").write_text("old")
    (tmp_path / f".trace.json.{os.getpid()}.part").mkdir()
    with pytest.raises(OSError, match=r"trace\.json\.\d+\.part"):
        write_trace(report(), tmp_path / "trace.json")
    assert (tmp_path / "trace.json").read_text() == "old"


def test_a_slice_of_which_only_some_runs_were_kept_says_so(written):
    whole, part = runs(0, BEGIN_S), runs(1, BEGIN_S + 0.1, runs=5000)
    found = written(report(sides=(SideReport("a", "a", "model", slices=(whole, part)),)))
    assert (
        found["otherData"]["thinned before"] == "the report keeps 8 of 5004 runs, evenly chosen within each slice"
    )
    slices = [e["args"] for e in found["traceEvents"] if e.get("cat") == "slices"]
    assert [(each["runs"], each.get("drawn")) for each in slices] == [(4, None), (5000, "at most 4 of them")]


def test_of_whole_slices_nothing_is_said_of_thinning(written):
    assert not [key for key in written(report())["otherData"] if key.startswith("thinned")]
