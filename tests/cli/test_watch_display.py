import io

import pytest
from rich.console import Console

from edgeopt.cli.watch import LiveTable, PlainLines, plain_line, sparkline
from edgeopt.events import Log, Metric, Progress, ignore


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
        table.tell(Progress("running", "a model"), ignore)
        for value in (1.0, 2.0):
            table.tell(Metric("latency_ms", value, "a [model]", 1.0), ignore)
        table.tell(Metric("temperature_c", 61.25, "a [model]", 1.0), ignore)
    shown = screen.file.getvalue()
    assert "a [model]" in shown
    assert "2.000 ms" in shown
    assert "▁█" in shown
    assert "61.2 °C" in shown
    assert "clock" not in shown


def test_warnings_are_handed_on_and_what_the_device_lacks_is_not_repeated(screen):
    said = []
    with LiveTable(screen) as table:
        table.tell(Log("info", "No clock_hz: no cpufreq."), said.append)
        table.tell(Log("warning", "The model does not keep up."), said.append)
    assert [event.message for event in said] == ["The model does not keep up."]


def test_plain_lines_wait_for_the_end_of_a_tick(capsys, monkeypatch):
    monkeypatch.setattr("edgeopt.cli.watch._LINE_S", 0.0)
    said = []
    with PlainLines() as plain:
        plain.tell(Progress("running", "m"), said.append)
        plain.tell(Metric("latency_ms", 1.0), said.append)
        assert capsys.readouterr().out == ""
        plain.tell(Metric("throughput_per_s", 1000.0), said.append)
    assert capsys.readouterr().out == "latency 1.000 ms, throughput 1,000.0 /s\n"
    assert len(said) == 1
