from pathlib import Path

import msgspec
import pytest

from edgeopt.hw.device import Accelerator, Memory
from edgeopt.hw.host import RecordedHost
from edgeopt.hw.probe import probe
from edgeopt_gui.pages.device.facts import absent, groups, headline

FAKEROOTS = Path(__file__).parents[3] / "fakeroots"


@pytest.fixture
def board():
    return lambda name: probe(RecordedHost(FAKEROOTS / name))


def shown(device):
    return {(group.title, fact.name): fact for group in groups(device) for fact in group.facts}


def test_the_headline_says_what_the_device_can_do(board):
    device = board("raspberry-pi-5")
    name, abilities = headline(device)
    assert name == device.cpu.model
    assert abilities.startswith("Arm NEON with 8-bit dot products · 4 usable cores · ")
    assert abilities.endswith("GiB of memory")


@pytest.mark.parametrize(
    "name", ["amd-zen4", "container-cgroup2", "intel-avx2", "raspberry-pi-4", "raspberry-pi-5"]
)
def test_every_group_of_every_board_has_something_to_say(board, name):
    device = board(name)
    assert [group.title for group in groups(device)] == [
        "Operating system",
        "CPU",
        "Memory",
        "Limits",
        "Accelerators",
        "Runtimes",
    ]
    assert all(fact.value for group in groups(device) for fact in group.facts)


def test_facts_name_their_source(board):
    facts = shown(board("amd-zen4"))
    assert facts["CPU", "Model"].source == "/proc/cpuinfo: model name"
    assert facts["Memory", "Total"].source == "/proc/meminfo"


def test_the_limits_of_a_container(board):
    device = board("container-cgroup2")
    facts = shown(device)
    assert facts["Limits", "CPU quota"].value == f"{device.limits.cgroup_cores:g} cores"
    assert facts["Limits", "Memory limit"].value.endswith("iB")
    assert shown(board("amd-zen4"))["Limits", "CPU quota"].value == "none"


def test_accelerators_with_what_is_known_of_them(board):
    gpu = Accelerator("gpu", "Some GPU", memory_total_bytes=8 * 2**30, driver="550.1")
    device = msgspec.structs.replace(board("amd-zen4"), accelerators=(gpu,))
    assert shown(device)["Accelerators", "GPU"].value == "Some GPU, 8.0 GiB, driver 550.1"


def test_what_is_unknown_is_said_and_not_invented(board):
    device = board("amd-zen4")
    bare = msgspec.structs.replace(
        device,
        memory=Memory(0, 0, 0),
        cpu=msgspec.structs.replace(device.cpu, model=None, physical_cores=None),
        runtimes=(),
    )
    facts = shown(bare)
    assert facts["Memory", "Total"].value == "unknown"
    assert facts["CPU", "Cores"].value.startswith("unknown physical")
    assert "Not here" in facts["Runtimes", "None installed"].value
    assert headline(bare)[0] == "x86_64 CPU of an unknown model"
    assert "memory" not in headline(bare)[1]


def test_what_is_not_here_says_why_and_what_would_bring_it(board):
    device = msgspec.structs.replace(
        board("amd-zen4"),
        unavailable={
            "openvino": "not installed; pip install 'edgeopt[openvino]' brings it",
            "npu": "no compute accelerator",
        },
    )
    openvino, npu = absent(device).facts
    assert (openvino.name, openvino.copy) == ("OpenVINO", "pip install 'edgeopt[openvino]'")
    assert (npu.name, npu.value, npu.copy) == ("NPU", "No compute accelerator.", "")
