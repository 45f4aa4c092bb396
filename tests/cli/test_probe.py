import json
import signal
from pathlib import Path

import pytest

from edgeopt.cli.main import run
from edgeopt.hw import probe as probe_module
from edgeopt.hw.device import Peaks, RunOverhead, Unavailable
from edgeopt.hw.host import LocalHost, RecordedHost
from edgeopt.hw.probe_cache import CachedFacts

FAKEROOTS = Path(__file__).parents[1] / "fakeroots"


@pytest.fixture
def events(capsys):
    """Runs a command and gives its exit code and the events that it tells."""

    def call(*arguments):
        code = run(["probe", *map(str, arguments), "--json"])
        return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return call


@pytest.fixture
def here(monkeypatch):
    """This machine without asking runtimes in child processes, which takes its time."""

    class Alone(LocalHost):
        def call_in_child(self, library, function, timeout_s=30.0):  # noqa: ARG002 - contract
            return Unavailable("not asked in this test")

    monkeypatch.setattr(probe_module, "LocalHost", lambda: Alone(cache_folder=None))
    monkeypatch.setattr("edgeopt.hw.host.LocalHost", Alone)


def test_programs_get_one_record(monkeypatch, events):
    monkeypatch.setattr(probe_module, "LocalHost", lambda: RecordedHost(FAKEROOTS / "raspberry-pi-5"))
    code, (event,) = events()
    assert (code, event["event"], event["kind"], event["schema"]) == (0, "result", "probe", 1)
    assert event["data"]["cpu"]["simd_level"] == "arm-dotprod"


def test_a_recorded_machine_is_read(events):
    code, (event,) = events("--root", FAKEROOTS / "windows-11")
    assert code == 0
    assert (event["data"]["host"]["os"], event["data"]["host"]["architecture"]) == ("Windows", "x86_64")


def test_a_stored_record_is_read_as_it_was(events, tmp_path):
    _, (event,) = events("--root", FAKEROOTS / "raspberry-pi-4")
    (tmp_path / "device.json").write_text(json.dumps(event))
    assert events("--device", tmp_path / "device.json") == (0, [event])


def test_this_machine_is_recorded_and_read_again(here, events, tmp_path):
    code, (log, event) = events("--record", tmp_path / "machine")
    assert code == 0
    assert f"--root {tmp_path / 'machine'}" in log["message"]
    assert events("--root", tmp_path / "machine") == (0, [event])


def test_an_identity_only_where_it_is_asked_for(here, events):
    import platform

    _, (event,) = events()
    assert event["data"]["identity"] is None
    assert "identity" not in str(event["data"]["sources"])
    _, (event,) = events("--identify")
    assert event["data"]["identity"]["host_name"] == (platform.node() or None)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--root", "a", "--device", "b"), 2, "--root and --device exclude each other"),
        (("--record", "a", "--root", "b"), 2, "--record and --root exclude each other"),
        (("--root", "a", "--identify"), 2, "has no identity"),
        (("--root", "no-such-folder"), 3, "There is no folder 'no-such-folder'"),
        (("--device", "no-such-file.json"), 3, "cannot be read"),
        (("--deep", "--root", "a"), 2, "--deep and --root exclude each other"),
        (("--deep", "--device", "a"), 2, "--deep and --device exclude each other"),
        (("--again",), 2, "--again"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(events, arguments, code, words):
    got, (event,) = events(*arguments)
    assert (got, event["event"]) == (code, "error")
    assert words in event["message"]


def test_a_recording_never_replaces_something_else(events, tmp_path):
    (tmp_path / "file").touch()
    code, (event,) = events("--record", tmp_path)
    assert (code, event["event"]) == (2, "error")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_recording_is_not_written_into_a_bundle(events, conv_bundle):
    before = sorted(conv_bundle.rglob("*"))
    code, (event,) = events("--record", conv_bundle / "machine")
    assert (code, event["event"]) == (2, "error")
    assert "inside the bundle" in event["message"]
    assert sorted(conv_bundle.rglob("*")) == before


def test_people_get_a_table(capsys):
    assert run(["probe", "--root", str(FAKEROOTS / "raspberry-pi-4")]) == 0
    shown = capsys.readouterr().out
    assert "Cortex-A72 · neon · 4 usable cores" in shown
    assert "Source" not in shown
    assert run(["probe", "--explain", "--root", str(FAKEROOTS / "raspberry-pi-4")]) == 0
    assert "Source" in capsys.readouterr().out


@pytest.fixture
def counted(monkeypatch, tmp_path):
    """Peaks are not measured but counted, and kept in a folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kept_here = RecordedHost(FAKEROOTS / "amd-zen4", tmp_path / "edgeopt")
    monkeypatch.setattr(probe_module, "LocalHost", lambda: kept_here)
    calls = []

    def measure(device, emit):
        calls.append(device)
        measured_at = f"2026-05-04T10:00:0{len(calls)}+00:00"
        return CachedFacts(
            Peaks(measured_at, 8.5, overheads=(RunOverhead("onnxruntime", 4.0),)), {"peaks.x": "gone"}
        )

    monkeypatch.setattr("edgeopt.measure.peaks.measure.measure", measure)
    return calls


def test_peaks_are_measured_once_and_shown_by_every_probe(events, counted):
    assert events()[1][-1]["data"]["peaks"] is None
    first = events("--deep")[1][-1]["data"]
    assert first["peaks"]["overheads"] == [{"runtime": "onnxruntime", "overhead_us": 4.0}]
    assert first["unavailable"]["peaks.x"] == "gone"
    assert events("--deep")[1][-1]["data"]["peaks"] == first["peaks"]
    assert events()[1][-1]["data"]["peaks"] == first["peaks"]
    assert len(counted) == 1


def test_peaks_are_measured_anew_when_that_is_asked_for(events, counted, capsys):
    before = events("--deep")[1][-1]["data"]["peaks"]
    again = events("--deep", "--again")[1][-1]["data"]["peaks"]
    assert before["measured_at"] != again["measured_at"]
    assert events()[1][-1]["data"]["peaks"] == again
    assert len(counted) == 2
    assert run(["probe"]) == 0
    assert "onnxruntime 4.0 µs" in capsys.readouterr().out


def test_peaks_that_cannot_be_kept_are_shown_with_a_warning(events, counted, tmp_path):
    (tmp_path / "edgeopt").touch()
    _, told = events("--deep")
    assert any("not cached" in event.get("message", "") for event in told)
    assert told[-1]["data"]["peaks"]["overheads"]
    assert len(counted) == 1


def test_cancelling_the_measurement_leaves_nothing(start, tmp_path):
    running = start("probe", "--deep", XDG_CACHE_HOME=str(tmp_path / "cache"))
    next(line for line in running.process.stderr if "measuring" in line)
    running.process.send_signal(signal.SIGINT)
    code, _, err = running.finish()
    assert code == 130
    assert "Cancelled" in err
    # ONNX Runtime itself leaves a file of that name when the probe asks it, in a process of its own.
    assert [each.name for each in running.temporary.iterdir() if each.name != ".ses"] == []
    assert list((tmp_path / "cache").rglob("peaks-*")) == []
