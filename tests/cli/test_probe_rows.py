from pathlib import Path

import msgspec
import pytest

from edgeopt.cli.probe_rows import headline, rows
from edgeopt.hw.device import Accelerator, Cache, Clock, Cluster, Identity, NumaNode, Runtime
from edgeopt.hw.host import RecordedHost
from edgeopt.hw.probe import probe

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
