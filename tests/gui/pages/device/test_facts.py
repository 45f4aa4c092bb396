import time
from pathlib import Path

import msgspec
import pytest

from edgeopt.hw.device import Accelerator, Memory, State
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


@pytest.mark.parametrize("name", sorted(path.name for path in FAKEROOTS.iterdir()))
def test_every_group_of_every_board_has_something_to_say(board, name):
    found = groups(board(name))
    titles = [group.title for group in found]
    assert titles[:2] == ["System", "CPU"]
    assert len(titles) == len(set(titles))
    assert all(group.facts for group in found)
    assert all(fact.value for group in found for fact in group.facts)


def test_facts_name_their_source(board):
    facts = shown(board("amd-zen4"))
    assert "/proc/cpuinfo: model name" in facts["CPU", "Model"].source
    assert "/proc/meminfo" in facts["Memory", "Total"].source


def test_the_instruction_sets_are_shown_by_what_they_are_for(board):
    facts = shown(board("amd-zen4"))
    assert "avx512-vnni" in facts["CPU", "8-bit integers"].words
    assert ("CPU", "AVX-512") not in facts


def test_the_limits_of_a_container(board):
    device = board("container-cgroup2")
    assert shown(device)["Limits", "CPU quota"].value == f"{device.limits.cgroup_cores:g} cores"
    assert ("Limits", "CPU quota") not in shown(board("amd-zen4"))


def test_accelerators_with_what_is_known_of_them(board):
    gpu = Accelerator("gpu", "Some GPU", memory_total_bytes=8 * 2**30, driver="550.1")
    device = msgspec.structs.replace(board("amd-zen4"), accelerators=(gpu,))
    assert shown(device)["GPU", "0"].value == "Some GPU, 8 GiB, driver 550.1"


def test_whether_it_is_worth_measuring_with_the_reason(board):
    device = board("amd-zen4")
    tired = State(worth_measuring=False, reasons=("It runs on its battery.",))
    facts = shown(msgspec.structs.replace(device, state=tired))
    assert facts["State", "Worth measuring"].value == "not now. It runs on its battery."
    assert ("State", "Worth measuring") not in shown(msgspec.structs.replace(device, state=None))


def test_what_is_unknown_is_said_and_not_invented(board):
    device = board("amd-zen4")
    bare = msgspec.structs.replace(
        device,
        memory=Memory(0, 0, 0),
        cpu=msgspec.structs.replace(device.cpu, model=None, physical_cores=None),
        runtimes=(),
    )
    facts = shown(bare)
    assert not [title for group, title in facts if group in {"Memory", "Runtimes"}]
    assert facts["CPU", "Cores"].value.startswith("unknown physical")
    assert headline(bare)[0] == "x86_64 CPU of an unknown model"
    assert "memory" not in headline(bare)[1]


def test_what_is_not_here_says_why_and_what_would_bring_it(board):
    device = msgspec.structs.replace(
        board("amd-zen4"),
        unavailable={
            "openvino": "not installed; pip install openvino",
            "npu": "no compute accelerator",
            "state.power_w": "no meter",
        },
    )
    openvino, npu = absent(device).facts
    assert (openvino.name, openvino.copy) == ("OpenVINO", "pip install openvino")
    assert (npu.name, npu.value, npu.copy) == ("NPU", "No compute accelerator.", "")


def test_load_and_memory_of_the_moment_are_told_once_and_the_rest_with_its_time(board):
    state = State(worth_measuring=True, load_1m=1.5, clock_hz=2e9, temperatures_c={"cpu": 50.0})
    device = msgspec.structs.replace(board("raspberry-pi-5"), state=state)
    at = time.mktime((2026, 11, 24, 14, 3, 25, 0, 0, -1))
    found = groups(device, at)
    facts = {(group.title, fact.name): fact.value for group in found for fact in group.facts}
    assert "available" not in facts["Memory", "Total"]
    assert ("Memory", "Usable") not in facts
    assert facts["State at 14:03:25", "Memory usable"]
    assert facts["State at 14:03:25", "Worth measuring"]
    assert not {name for title, name in facts if title.startswith("State")} & {"Load", "Clock", "Temperature"}
