import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

import psutil
import pytest
from rich.console import Console

from edgeopt.cli.watch import LiveTable, PlainLines, plain_line, sparkline
from edgeopt.data import demo as samples
from edgeopt.events import Log, Metric, Progress, ignore
from tests.processes import wait_ended

pytestmark = pytest.mark.processes


@pytest.fixture
def edgeopt(edgeopt_here):
    return edgeopt_here


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def test_metrics_and_a_result_as_json(edgeopt, null_model, null_data):
    code, out, err = edgeopt("watch", null_model(latency_ms=10), "--data", null_data, "--seconds", 1, "--json")
    assert (code, err) == (0, "")
    records = lines(out)
    names = {r["name"] for r in records if r["event"] == "metric"}
    assert {"latency_ms", "latency_p99_ms", "throughput_per_s", "load_percent", "process_memory_bytes"} <= names
    assert records[-1]["kind"] == "watch"
    # Percentiles come from bins a fifth of a percent wide.
    assert records[-1]["data"]["p50_ms"] >= 9.99
    assert records[-1]["data"]["runs"] > 30


def test_a_model_without_data_runs_on_generated_inputs(edgeopt):
    code, out, _ = edgeopt("watch", samples.MODEL, "--seconds", 0.5, "--rate", 40, "--json")
    assert code == 0
    assert lines(out)[-1]["data"]["runs"] > 5


def test_a_bundle_runs_on_its_golden_inputs(edgeopt, conv_bundle):
    code, out, _ = edgeopt("watch", conv_bundle, "--seconds", 0.5, "--json")
    assert code == 0
    assert lines(out)[-1]["data"]["subject"] == "conv.edgeopt"


def test_plain_lines_where_there_is_no_terminal(edgeopt, null_model, null_data):
    code, out, err = edgeopt("watch", null_model(latency_ms=10), "--data", null_data, "--seconds", 1.6)
    assert code == 0
    assert "] running" in err
    told = [line for line in out.splitlines() if line.startswith("latency ") and "throughput" in line]
    assert 1 <= len(told) <= 3
    assert all("MiB" in line and "p99" in line for line in told)
    assert re.search(r"model.null.json: [\d,]+ runs in 1\.\d s", out)


def test_a_table_in_place_on_a_terminal(null_model, null_data, tmp_path):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "edgeopt", "watch", null_model(latency_ms=10), "--data", null_data]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "TERM": "xterm"}
    process = subprocess.Popen(
        [*map(str, command), "--seconds", "1.5"],
        stdout=theirs,
        stderr=theirs,
        env={**environment, "COLUMNS": "100", "TMPDIR": str(tmp_path)},
    )
    os.close(theirs)
    with process:
        seen = _read_all(ours)
        assert process.wait(60) == 0, seen
    assert "p99" in seen
    assert "throughput" in seen
    assert "▁" in seen or "█" in seen
    assert "Ctrl-C ends" in seen
    assert seen.rstrip().endswith(" MiB)")


def _read_all(terminal, within_s=60):
    deadline, seen = time.monotonic() + within_s, b""
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                chunk = os.read(terminal, 1 << 16)
            except OSError:  # nobody writes any more
                break
            seen += chunk
    os.close(terminal)
    return seen.decode(errors="replace")


@pytest.mark.cold
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_stopped_it_ends_its_trial_at_once_and_tells_the_result(start, null_model, null_data, number):
    run = start("watch", null_model(latency_ms=10), "--data", null_data, "--json")
    run.first_line_with('"latency_p99_ms"')
    children = psutil.Process(run.process.pid).children(recursive=True)
    assert children
    begin = time.monotonic()
    run.process.send_signal(number)
    found, out, err = run.finish()
    assert time.monotonic() - begin < 60
    assert (found, err) == (0, "")
    last = lines(out)[-1]
    assert last["kind"] == "watch"
    assert last["data"]["runs"] > 0
    assert last["data"]["p50_ms"] >= 9.99
    wait_ended(children)
    assert list(run.temporary.iterdir()) == []


@pytest.mark.cold
def test_killed_it_takes_its_trial_along(start, null_model, null_data):
    run = start("watch", null_model(latency_ms=10), "--data", null_data, "--json")
    run.first_line_with('"latency_p99_ms"')
    children = psutil.Process(run.process.pid).children(recursive=True)
    run.process.kill()
    run.finish()
    wait_ended(children)


@pytest.mark.cold
def test_a_crash_is_one_sentence_and_an_exit_code(start, null_model, null_data):
    run = start("watch", null_model(latency_ms=10), "--data", null_data, "--json")
    run.first_line_with('"latency_p99_ms"')
    (trial,) = psutil.Process(run.process.pid).children()
    trial.send_signal(signal.SIGSEGV)
    code, out, err = run.finish()
    last = lines(out)[-1]
    assert (code, err, last["code"]) == (1, "", "trial-failed")
    assert "crashed: SIGSEGV, while it was watched" in last["message"]
    assert last["hint"]


@pytest.mark.parametrize(
    ("more", "code"),
    [(["--rate", "0"], 2), (["--seconds", "-1"], 2), (["--rate", "nan"], 2), (["--data", "no.npz"], 3)],
)
def test_wrong_usage_is_said(edgeopt, null_model, null_data, more, code):
    found, out, _ = edgeopt("watch", null_model(), "--data", null_data, *more, "--json")
    assert found == code
    assert lines(out)[-1]["event"] == "error"


@pytest.mark.parametrize(("strict", "code"), [([], 0), (["--strict"], 4)])
def test_a_side_is_named_as_in_bench_and_strict_refuses_fallback(edgeopt, null_model, null_data, strict, code):
    model = null_model(fallen=["Foo: foo"], nodes=5)
    subject = f"{model}@null,latency_ms=1"
    found, out, _ = edgeopt("watch", subject, "--data", null_data, "--seconds", 0.3, *strict, "--json")
    assert found == code
    last = lines(out)[-1]
    assert last["data"]["p50_ms"] >= 0.99 if code == 0 else "do not run on null" in last["message"]


def test_what_does_not_exist_is_bad_input(edgeopt):
    code, out, _ = edgeopt("watch", "nowhere.onnx", "--json")
    assert code == 3
    assert "nowhere.onnx" in lines(out)[-1]["message"]


@pytest.mark.parametrize(
    ("values", "from_zero", "wanted"),
    [
        ([], False, ""),
        ([1.0, 2.0, 3.0], False, "▁▅█"),
        ([7.0, 7.0], False, "▁▁"),
        ([0.0, 0.0], True, "▁▁"),
        ([50.0, 100.0], True, "▅█"),
        ([100.0, 100.4], False, "▁▁"),
    ],
)
def test_bars_go_from_the_lowest_to_the_highest(values, from_zero, wanted):
    assert sparkline(values, from_zero) == wanted


def test_a_line_names_what_is_known():
    line = plain_line({"latency_ms": 1.5, "clock_hz": 1.8e9, "process_memory_bytes": 64 * 2.0**20})
    assert line == "latency 1.500 ms, memory, process 64 MiB, clock 1,800 MHz"


@pytest.fixture
def screen():
    return Console(file=io.StringIO(), force_terminal=True, width=90, color_system=None)


def test_the_table_shows_what_came_and_stays_on_the_screen(screen):
    with LiveTable(screen) as table:
        table.update(Progress("running", "a model"), ignore)
        for value in (1.0, 2.0):
            table.update(Metric("latency_ms", value, "a [model]", 1.0), ignore)
        table.update(Metric("temperature_c", 61.25, "a [model]", 1.0), ignore)
    shown = screen.file.getvalue()
    assert "a [model]" in shown
    assert "2.000 ms" in shown
    assert "▁█" in shown
    assert "61.2 °C" in shown
    assert "clock" not in shown


def test_warnings_are_handed_on_and_what_the_device_lacks_is_not_repeated(screen):
    said = []
    with LiveTable(screen) as table:
        table.update(Log("info", "No clock_hz: no cpufreq."), said.append)
        table.update(Log("warning", "The model does not keep up."), said.append)
    assert [event.message for event in said] == ["The model does not keep up."]


def test_plain_lines_wait_for_the_end_of_a_tick(capsys, monkeypatch):
    monkeypatch.setattr("edgeopt.cli.watch._LINE_S", 0.0)
    said = []
    with PlainLines() as plain:
        plain.update(Progress("running", "m"), said.append)
        plain.update(Metric("latency_ms", 1.0), said.append)
        assert capsys.readouterr().out == ""
        plain.update(Metric("throughput_per_s", 1000.0), said.append)
    assert capsys.readouterr().out == "latency 1.000 ms, throughput 1,000.0 /s\n"
    assert len(said) == 1
