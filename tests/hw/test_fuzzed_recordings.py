"""A share of what benchmarks/fuzz_probe.py tries, and what a recording in memory cannot hold."""

import importlib.util
import sys
from pathlib import Path

import msgspec
import pytest

from edgeopt.hw.device import Device
from edgeopt.hw.host import RecordedHost
from edgeopt.hw.probe import probe

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "fuzz_probe.py"


@pytest.fixture(scope="module")
def fuzz():
    spec = importlib.util.spec_from_file_location("fuzz_probe", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["fuzz_probe"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["fuzz_probe"]


def test_damaged_recordings_never_raise_and_invent_nothing(fuzz):
    wrong = [line for number in range(500) for line in fuzz.try_one(seed=7, number=number)[1]]
    assert not wrong, "\n".join(wrong[:5])


def test_every_board_is_sound_as_it_is(fuzz):
    boards = fuzz.boards()
    assert {"intel-hybrid", "xeon-amx", "arm-sve2", "riscv-rvv", "container-cgroup1"} <= set(boards)
    wrong = {name: fuzz.faults(probe(RecordedHost(fuzz.FAKEROOTS / name))) for name in boards}
    assert {name: found for name, found in wrong.items() if found} == {}


def test_the_number_of_a_recording_makes_it_anew(fuzz):
    first, again = (fuzz.damaged(3, 14) for _ in range(2))
    assert (first[0], first[1].files, first[2]) == (again[0], again[1].files, again[2])


def test_a_fault_is_seen(fuzz):
    good = probe(RecordedHost(fuzz.FAKEROOTS / "intel-hybrid"))
    assert fuzz.faults(good) == []
    for section, name, value in (
        ("cpu", "physical_cores", 0),
        ("cpu", "model", None),
        ("cpu", "model", "\x00"),
        ("clock", "max_hz", -1),
        ("limits", "usable_cores", 99),
    ):
        torn = msgspec.structs.replace(getattr(good, section), **{name: value})
        assert fuzz.faults(msgspec.structs.replace(good, **{section: torn}))


def test_loops_of_links_and_folders_in_the_place_of_files(tmp_path):
    cpus = tmp_path / "sys/devices/system/cpu"
    (cpus / "cpu0/topology").mkdir(parents=True)
    (cpus / "cpu0/cache").symlink_to(cpus / "cpu0/cache")
    (cpus / "cpu1").symlink_to(cpus)
    (cpus / "online").mkdir()
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").symlink_to(tmp_path / "proc/cpuinfo")
    (tmp_path / "proc/meminfo").symlink_to("/proc/meminfo")
    device = probe(RecordedHost(tmp_path))
    assert isinstance(device, Device)
    assert device.cpu.model is None
    assert "memory" in device.unavailable
