"""What is exported is all of it, and whole or not there."""

import csv

import numpy as np
import pytest

from edgeopt.events import Metric
from edgeopt.measure import files
from edgeopt_gui.pages.live.files import replace_with, write_csv
from edgeopt_gui.pages.live.history import History, Snapshot
from edgeopt_gui.plots.spec import Marker

NOW_S = 1_790_000_000.25


@pytest.fixture
def history():
    made = History()
    for place in range(5000):
        now = NOW_S + place / 10
        made.take(Metric("latency_ms", place / 8, time_s=now), now)
        if place % 2 == 0:
            made.take(Metric("process_memory_bytes", 123_456_789.0, time_s=now + 0.01), now)
    made.mark('deployment 1: "good"', NOW_S + 1.005)
    return made


def read(path):
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_every_sample_is_in_the_file_with_its_time(history, tmp_path):
    path = tmp_path / "live.csv"
    assert write_csv(history.snapshot(), path) == 7501
    rows = read(path)
    assert len(rows) == 7501
    latencies = [(float(r["time_s"]), float(r["latency_ms"])) for r in rows if r["latency_ms"]]
    assert np.allclose(latencies, [(NOW_S + k / 10, k / 8) for k in range(5000)], atol=1e-4)
    assert rows[0]["time_utc"] == "2026-09-21T14:13:20.250Z"
    assert rows[1]["process_memory_bytes"] == "123456789"
    assert rows[1]["latency_ms"] == ""
    assert [r["event"] for r in rows if r["event"]] == ['deployment 1: "good"']


def test_times_go_on(history, tmp_path):
    write_csv(history.snapshot(), tmp_path / "live.csv")
    times = [float(row["time_s"]) for row in read(tmp_path / "live.csv")]
    assert times == sorted(times)


def test_no_samples_give_a_file_with_a_heading(tmp_path):
    path = tmp_path / "live.csv"
    assert write_csv(Snapshot({}, (Marker(NOW_S, "started"),)), path) == 1
    assert path.read_text().splitlines()[0] == "time_utc,time_s,event"


def test_a_failure_leaves_the_old_file_and_nothing_else(history, tmp_path, monkeypatch):
    path = tmp_path / "live.csv"
    path.write_text("old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_csv(history.snapshot(), path)
    with pytest.raises(OSError, match="No space"):
        replace_with(path, b"new")
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("live.csv", "old")]


def test_what_is_there_is_replaced(tmp_path):
    path = tmp_path / "picture.png"
    path.write_bytes(b"old")
    replace_with(path, b"new")
    assert path.read_bytes() == b"new"
