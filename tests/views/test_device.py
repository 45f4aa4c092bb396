import io
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from edgeopt.hw.device import (
    Accelerator,
    Cache,
    Clock,
    Cluster,
    ComputePeak,
    Identity,
    MemoryPeak,
    NumaNode,
    Peaks,
    RunOverhead,
    Runtime,
)
from edgeopt.hw.host import RecordedHost
from edgeopt.hw.probe import probe
from edgeopt.views.device import ago, headline, is_detail, peak_rows, rows, show
from edgeopt.views.terminal import write

FAKEROOTS = Path(__file__).parents[1] / "fakeroots"


@pytest.fixture
def device():
    return probe(RecordedHost(FAKEROOTS / "amd-zen4"))


@pytest.fixture
def values(device):
    def of(group, **changes):
        found = rows(msgspec.structs.replace(device, **changes))
        return {row.title.strip(): row.value for row in found if row.group == group}

    return of


@pytest.mark.parametrize(
    ("name", "detail"),
    [("numa.distances", True), ("gpu.0.clock_hz", True), ("gpu", False), ("peaks.memory.caches", False)],
)
def test_single_facts_of_known_parts_are_details(name, detail):
    assert is_detail(name) is detail


def test_the_headline_says_what_counts(device):
    assert headline(device) == (
        "AMD Ryzen 5 7640HS w/ Radeon 760M Graphics · avx512-vnni · 12 usable cores · 22.9 GiB of memory usable"
    )


def test_instruction_sets_by_family(values):
    found = values("CPU")
    assert "avx2" in found["basic sets"].split()
    assert {"f", "bw", "vl", "vnni"} <= set(found["AVX-512"].split())
    assert "AMX" not in found


def test_unlike_cores_caches_nodes_and_clocks(values):
    found = values(
        "CPU",
        clusters=(
            Cluster("performance", "0-3", 2, 4, "Big", clock_max_hz=4_900_000_000),
            Cluster("efficiency", "4", 1, 1),
        ),
        caches=(Cache(1, "data", 48 * 2**10, 6, 2), Cache(3, "unified", 24 * 2**20, 1, 12)),
        numa=(NumaNode(0, "0-3", 2**34), NumaNode(1, "4")),
        clock=Clock(400_000_000, 4_900_000_000, governor="powersave", driver="intel_pstate", turbo=True),
    )
    assert found["performance"] == "Big, 2 cores, 4 threads (0-3), up to 4.90 GHz"
    assert found["efficiency"] == "1 core, 1 thread (4)"
    assert found["caches"] == "L1d 6 x 48 KiB, L3 24 MiB"
    assert found["NUMA nodes"] == "0: 0-3 (16 GiB); 1: 4"
    assert found["clock"] == "400 MHz to 4.90 GHz, governor powersave (intel_pstate), turbo on"


def test_accelerators_with_what_drives_them_and_what_stands_in_the_way(values):
    gpu = Accelerator(
        "gpu",
        "RTX",
        memory_total_bytes=24 * 2**30,
        memory_free_bytes=20 * 2**30,
        driver="560",
        compute_capability="8.9",
        links=("NVLink to GPU 1",),
        runtime="onnxruntime-gpu",
        runtime_installed=False,
        note="You may not read /dev/nvidia0.",
    )
    found = values("GPU", accelerators=(gpu,))
    assert found["0"] == (
        "RTX, 24 GiB (20 GiB free), driver 560, compute capability 8.9, NVLink to GPU 1; "
        "onnxruntime-gpu drives it (not installed)"
    )
    assert found[""] == "You may not read /dev/nvidia0."


def test_runtimes_with_their_devices(values):
    runtimes = (
        Runtime("onnxruntime", "1.31", ("CUDAExecutionProvider", "CPUExecutionProvider")),
        Runtime("openvino", "2026", ("CPU: X",), {"CPU": "X"}, {"CPU": ("FP32", "INT8")}),
    )
    found = values("Runtimes", runtimes=runtimes)
    assert found == {"onnxruntime": "1.31: CUDA, CPU", "openvino": "2026", "CPU": "X (FP32, INT8)"}


def test_the_state_and_an_identity(values):
    assert values("State")["power"] == "battery, 72 % charged, 12.5 W"
    assert values("State")["temperature"] == "51 °C (k10temp Tctl)"
    assert "identity" not in values("System")
    assert values("System", identity=Identity("box", None))["identity"] == "box"


def test_each_row_with_facts_has_a_source(device):
    for row in rows(device):
        sourced = [
            fact for fact in row.facts if any(s == fact or s.startswith(f"{fact}.") for s in device.sources)
        ]
        assert sourced or not row.facts, row


def peaks(**values):
    measured = datetime.now(UTC) - timedelta(days=3, minutes=1)
    return Peaks(
        measured.isoformat(timespec="seconds"),
        8.5,
        (
            ComputePeak("onnxruntime", "fp32", 1, 118.4e9, "Conv 3x3 1x256x14"),
            ComputePeak("onnxruntime", "fp32", 4, 460e9, "MatMul 768x384"),
            ComputePeak("onnxruntime", "int8", 1, 4.25e9, "MatMul 192x384"),
        ),
        (MemoryPeak("L1", 1, 16384, 2.1e11, None), MemoryPeak("memory", 1, 2**28, 3.7e10, 0.9e9)),
        (RunOverhead("onnxruntime", 4.26), RunOverhead("openvino", 9.9)),
        **values,
    )


def test_peaks_as_rows():
    assert dict(peak_rows(peaks())) == {
        "measured": "3 days ago",
        "onnxruntime fp32": "118 GFLOP/s by one core, 460 by 4 cores",
        "onnxruntime int8": "4.2 GOP/s by one core",
        "L1": "read 210 GB/s by one core",
        "memory": "read 37.0 GB/s by one core; copy 0.90 GB/s by one core",
        "cost of a run": "onnxruntime 4.3 µs, openvino 9.9 µs",
    }


def test_that_it_was_disturbed_is_said():
    rows = dict(peak_rows(peaks(disturbed_by=("Other processes keep cores busy.",))))
    assert rows["measured"] == "3 days ago, while the device was busy or throttled"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (5, "just now"),
        (60, "1 minute ago"),
        (7300, "2 hours ago"),
        (86400, "1 day ago"),
        (400 * 86400, "400 days ago"),
        (-100, "at an unknown time (a clock was wrong)"),
    ],
)
def test_ages(seconds, words):
    assert ago(seconds) == words


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
