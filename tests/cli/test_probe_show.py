import io
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from edgeopt.cli.probe_rows import show
from edgeopt.commands.documents.terminal import write
from edgeopt.hw.host import RecordedHost
from edgeopt.hw.probe import probe

FAKEROOTS = Path(__file__).parents[1] / "fakeroots"
BOARDS = sorted(folder.name for folder in FAKEROOTS.iterdir())


def rendered(device, explain=False, width=200):
    console = Console(file=io.StringIO(), width=width)
    write(show(device, explain), console)
    return console.file.getvalue()


@pytest.fixture
def text():
    return lambda board, explain=False: rendered(probe(RecordedHost(FAKEROOTS / board)), explain)


def test_people_see_the_device(text):
    shown = text("container-cgroup2")
    for expected in (
        "Xeon(R) Gold 6248",
        "avx512-vnni",
        "4 physical, 4 logical",
        "1.5 cores",
        "512 MiB",
        "61.0 GiB",
        "a container (docker)",
    ):
        assert expected in shown
    assert "pip install onnxruntime" in shown
    assert "/proc/cpuinfo" not in shown


def test_explain_shows_the_sources(text):
    shown = text("amd-zen4", explain=True)
    for expected in (
        "/proc/cpuinfo: model name",
        "os.sched_getaffinity(0)",
        "/proc/meminfo",
        "/sys/class/power_supply",
    ):
        assert expected in shown
    # Each single fact that is not known is for those who ask for explanations.
    assert "host.virtual_machine" in shown
    assert "host.virtual_machine" not in text("amd-zen4")


def test_the_verdict_with_its_reasons(text):
    shown = text("raspberry-pi-4")
    assert "is not ready for measurements now" in shown
    assert "• Throttled: the supply voltage is too low." in shown
    assert "is ready for measurements." in text("macos-m2")
    assert "worth measuring" not in text("intel-avx2")


def test_what_is_absent_for_one_reason_stands_on_one_line(text):
    lines = text("raspberry-pi-5").splitlines()
    assert any(line.startswith("onnx, onnxscript") for line in lines)


def test_memory_that_is_not_known_is_not_shown_as_a_number(tmp_path):
    shown = rendered(probe(RecordedHost(tmp_path)))
    assert "0 KiB" not in shown
    assert "0 MiB" not in shown
    assert "neither /proc/meminfo nor psutil" in shown


@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("explain", [False, True])
def test_every_board_can_be_shown_on_a_narrow_terminal(board, explain):
    shown = rendered(probe(RecordedHost(FAKEROOTS / board)), explain, width=80)
    assert max(len(line) for line in shown.splitlines()) <= 80
    assert "None" not in shown


def test_brackets_in_names_are_no_markup(tmp_path):
    device = probe(RecordedHost(tmp_path))
    odd = msgspec.structs.replace(device, cpu=msgspec.structs.replace(device.cpu, model="[bold]X[/nothing]"))
    assert "[bold]X[/nothing]" in rendered(odd)
