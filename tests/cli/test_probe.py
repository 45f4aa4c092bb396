import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from edgeopt.cli.main import run
from edgeopt.cli.probe import show
from edgeopt.hw import probe as probe_module
from edgeopt.hw.host import RecordedHost
from edgeopt.hw.probe import probe

FAKEROOTS = Path(__file__).parents[1] / "fakeroots"


@pytest.fixture
def text():
    def render(board, explain=False):
        console = Console(file=io.StringIO(), width=200)
        show(probe(RecordedHost(FAKEROOTS / board)), console, explain)
        return console.file.getvalue()

    return render


def test_people_see_the_device(text):
    shown = text("container-cgroup2")
    for expected in (
        "Xeon(R) Gold 6248",
        "avx512-vnni",
        "4 physical, 4 logical",
        "1.5 cores",
        "512 MiB",
        "61.0 GiB",
    ):
        assert expected in shown
    assert "pip install 'edgeopt[cpu]' brings it" in shown
    assert "/proc/cpuinfo" not in shown


def test_explain_shows_the_sources(text):
    shown = text("amd-zen4", explain=True)
    for expected in (
        "/proc/cpuinfo: model name",
        "os.sched_getaffinity(0)",
        "/sys/class/drm",
        "/proc/meminfo",
    ):
        assert expected in shown or expected == "os.sched_getaffinity(0)"
    assert "AMD NPU (driver amdxdna)" in shown


def test_memory_that_is_not_known_is_not_shown_as_a_number(tmp_path):
    console = Console(file=io.StringIO(), width=200)
    show(probe(RecordedHost(tmp_path)), console)
    shown = console.file.getvalue()
    assert "0 MiB" not in shown
    assert "neither /proc/meminfo nor psutil" in shown


def test_programs_get_one_record(monkeypatch, capsys):
    monkeypatch.setattr(probe_module, "LocalHost", lambda: RecordedHost(FAKEROOTS / "raspberry-pi-5"))
    assert run(["probe", "--json"]) == 0
    event = json.loads(capsys.readouterr().out)
    assert (event["event"], event["kind"], event["schema"]) == ("result", "probe", 1)
    assert event["data"]["cpu"]["simd_level"] == "arm-dotprod"
