import subprocess
import sys

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgeopt.hw.device import Device
from edgeopt.hw.host import LocalHost
from edgeopt.hw.probe import probe

BOARDS = (
    # board, model, level, physical, logical, usable
    ("amd-zen4", "AMD Ryzen 5 7640HS w/ Radeon 760M Graphics", "avx512-vnni", 6, 12, 12),
    ("intel-avx2", "Intel(R) Core(TM) i5-4590 CPU @ 3.30GHz", "avx2", 4, 4, 4),
    ("raspberry-pi-4", "Cortex-A72", "neon", 4, 4, 4),
    ("raspberry-pi-5", "Cortex-A76", "arm-dotprod", 4, 4, 4),
    ("container-cgroup2", "Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz", "avx512-vnni", 4, 4, 1),
)


@pytest.mark.parametrize(("name", "model", "level", "physical", "logical", "usable"), BOARDS)
def test_recorded_boards(board, name, model, level, physical, logical, usable):
    device = probe(board(name))
    assert (device.cpu.model, device.cpu.simd_level) == (model, level)
    assert (device.cpu.physical_cores, device.cpu.logical_cores) == (physical, logical)
    assert device.limits.usable_cores == usable


@pytest.mark.parametrize("name", [row[0] for row in BOARDS])
def test_every_fact_has_a_source_and_every_absence_a_reason(board, name):
    device = probe(board(name))
    for section in ("host", "cpu", "limits", "memory"):
        facts = msgspec.to_builtins(getattr(device, section))
        known = [fact for fact, value in facts.items() if value is not None]
        assert [fact for fact in known if not device.sources.get(f"{section}.{fact}")] == []
    for runtime in device.runtimes:
        assert f"runtimes.{runtime.name}" in device.sources
    kinds = {accelerator.kind for accelerator in device.accelerators}
    for kind in ("gpu", "npu"):
        assert (kind in kinds) != (kind in device.unavailable)
    assert all(device.unavailable.values())


def test_the_record_survives_the_wire(board):
    device = probe(board("amd-zen4"))
    assert msgspec.json.decode(msgspec.json.encode(device), type=Device) == device


def test_a_machine_that_tells_nothing_invents_nothing(machine):
    device = probe(machine())
    assert device.cpu.model is None
    assert device.cpu.physical_cores is None
    assert device.limits.usable_cores == 1
    assert "memory" in device.unavailable
    assert "memory.total_bytes" not in device.sources
    assert "onnxruntime" in device.unavailable


PATHS = (
    "proc/cpuinfo",
    "proc/meminfo",
    "proc/self/cgroup",
    "proc/self/mountinfo",
    "proc/driver/nvidia/version",
    "sys/devices/system/cpu/online",
    "sys/fs/cgroup/cpu.max",
    "sys/fs/cgroup/memory.max",
    "sys/class/drm/renderD128/device/uevent",
    "calls.json",
)
NUMBERS = ("0x41", "0xd08", "0-3", "-1", "max", "9" * 30)
WORDS = (
    "processor",
    "flags",
    "isa",
    "rv",
    "CPU part",
    "CPU implementer",
    "MemTotal",
    "kB",
    "cgroup2 cgroup2 rw",
)
MARKS = (":", "\n", "\n\n", " ", "0::/", " - ", "..", "{", "}", '"calls"')
PIECES = st.sampled_from((*NUMBERS, *WORDS, *MARKS))
GARBAGE = st.one_of(st.binary(max_size=200), st.lists(PIECES, max_size=30).map(lambda p: "".join(p).encode()))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(contents=st.dictionaries(st.sampled_from(PATHS), GARBAGE))
def test_garbage_never_raises(contents, machine):
    host = machine(dict.fromkeys(PATHS, ""))
    for path in PATHS:
        (host.root / path).write_bytes(contents.get(path, b""))
    device = probe(host)
    assert device.limits.usable_cores >= 1
    assert device.memory.usable_bytes <= device.memory.total_bytes
    msgspec.json.encode(device)


def test_this_machine_is_probed_without_importing_a_runtime(tmp_path):
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from edgeopt.hw.host import LocalHost\n"
        "from edgeopt.hw.probe import probe\n"
        "class Alone(LocalHost):\n"
        "    def call_in_child(self, library, function, timeout_s=30.0):\n"
        "        return ['X']\n"
        f"device = probe(Alone(Path({str(tmp_path)!r})))\n"
        "assert device.cpu.logical_cores >= 1 and device.host.architecture != 'unknown'\n"
        "heavy = ('onnxruntime', 'openvino', 'onnx', 'numpy', 'cpuinfo', 'importlib.metadata')\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_this_machine_agrees_with_the_operating_system():
    import os

    class Alone(LocalHost):
        def call_in_child(self, library, function, timeout_s=30.0):  # noqa: ARG002 - contract
            return ["X"]

    device = probe(Alone(cache_folder=None))
    assert device.cpu.logical_cores == os.cpu_count()
    assert device.memory.total_bytes > 0
