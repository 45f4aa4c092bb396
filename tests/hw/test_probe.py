import subprocess
import sys

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgeopt.hw.device import Accelerator, Cpu, Device, DeviceLimits, HostFacts, Runtime, SystemMemory
from edgeopt.hw.host import LocalHost
from edgeopt.hw.probe import agree, identity, probe

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
WORDS = ("processor", "flags", "isa", "rv", "CPU part", "CPU implementer", "MemTotal", "kB", "cgroup2 cgroup2 rw")
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


@pytest.fixture
def device():
    """A device with these accelerators and runtimes."""

    def make(accelerators=(), runtimes=(), unavailable=None):
        return Device(
            HostFacts("Linux", "6.12", "x86_64", "3.12"),
            Cpu(None, None, "avx2", (), None, 1),
            DeviceLimits(1, None, None, 1),
            SystemMemory(2**30, 2**30, 2**30),
            accelerators=tuple(accelerators),
            runtimes=tuple(runtimes),
            unavailable=unavailable or {},
        )

    return make


def openvino(**devices):
    return Runtime("openvino", "2025.3.0", devices={"CPU": "Intel", **devices})


def test_an_npu_that_openvino_does_not_see(device):
    npu = Accelerator("npu", "Intel NPU (Lunar Lake)", vendor="Intel", runtime="openvino")
    (found,) = agree(device([npu], [openvino()])).accelerators
    assert found.note == (
        "OpenVINO 2025.3.0 does not see it: install Intel's user-space driver for the NPU (linux-npu-driver)."
    )
    assert agree(device([npu], [openvino(NPU="Intel(R) AI Boost")])).accelerators == (npu,)


def test_the_first_thing_in_the_way_is_enough(board):
    npu = probe(board("intel-core-ultra")).accelerators[1]
    assert "No permission to open" in npu.note
    assert "OpenVINO" not in npu.note


def test_openvino_names_what_the_kernel_does_not(device):
    gpu = Accelerator("gpu", "Intel GPU 0x56a0", vendor="Intel")
    agreed = agree(device([gpu], [openvino(GPU="Intel(R) Arc(TM) A770 Graphics (dGPU)")]))
    assert agreed.accelerators[0].name == "Intel(R) Arc(TM) A770 Graphics (dGPU)"
    assert "OpenVINO" in agreed.sources["accelerators.gpu.0.name"]


def test_an_npu_that_only_openvino_sees(device):
    agreed = agree(device([], [openvino(NPU="Intel(R) AI Boost")], {"npu": "none found", "gpu": "no driver"}))
    (npu,) = agreed.accelerators
    assert (npu.kind, npu.name, npu.runtime_installed) == ("npu", "Intel(R) AI Boost", True)
    assert agreed.unavailable == {"gpu": "no driver"}
    assert agreed.sources["accelerators.npu"]


def test_a_distribution_whose_files_another_one_overwrote(device):
    gpu = Accelerator("gpu", "NVIDIA L4", vendor="NVIDIA", runtime="onnxruntime-gpu", runtime_installed=True)
    broken = Runtime("onnxruntime-gpu", "1.22.0", ("CPUExecutionProvider",))
    whole = msgspec.structs.replace(broken, providers=("CUDAExecutionProvider", "CPUExecutionProvider"))
    assert "has no CUDAExecutionProvider" in agree(device([gpu], [broken])).accelerators[0].note
    assert agree(device([gpu], [whole])).accelerators == (gpu,)


def test_nothing_to_hold_against_each_other_changes_nothing(device):
    plain = device([Accelerator("gpu", "AMD GPU", vendor="AMD")])
    assert agree(plain) == plain


HEX = "0123456789abcdef0123456789abcdef"


def test_linux(machine):
    found, sources, unavailable = identity(
        machine({"/etc/machine-id": f"{HEX}\n"}, calls={"platform.node()": "box"})
    )
    assert (found.host_name, found.machine_id) == ("box", HEX)
    assert sources == {"identity.host_name": "platform.node()", "identity.machine_id": "/etc/machine-id"}
    assert unavailable == {}


def test_windows_and_macos(machine):
    guid = "0F1E2D3C-0000-4000-8000-0123456789AB"
    command = r"reg query HKLM\SOFTWARE\Microsoft\Cryptography /v MachineGuid"
    calls = {"platform.system()": "Windows"}
    assert identity(machine(calls=calls, run={command: f"MachineGuid  REG_SZ  {guid}"}))[0].machine_id == guid
    calls = {"platform.system()": "Darwin"}
    run = {"ioreg -rd1 -c IOPlatformExpertDevice": f'"IOPlatformUUID" = "{guid}"'}
    assert identity(machine(calls=calls, run=run))[0].machine_id == guid


def test_what_is_not_told_has_a_reason(machine):
    found, sources, unavailable = identity(machine({"/etc/machine-id": "uninitialized\n"}))
    assert (found.host_name, found.machine_id, sources) == (None, None, {})
    assert set(unavailable) == {"identity.host_name", "identity.machine_id"}
