"""docs/device.md describes every key of the device record, and no key that there is not."""

import re
from pathlib import Path

import pytest

from edgeopt.hw import device
from edgeopt.hw.host import RecordedHost
from edgeopt.hw.probe import probe

PAGE = (Path(__file__).parents[1] / "docs" / "device.md").read_text()
STRUCTS = (
    device.Device,
    device.HostFacts,
    device.Cpu,
    device.Cluster,
    device.Cache,
    device.NumaNode,
    device.Clock,
    device.DeviceLimits,
    device.SystemMemory,
    device.Accelerator,
    device.Runtime,
    device.State,
    device.Identity,
    device.Peaks,
    device.ComputePeak,
    device.MemoryPeak,
    device.RunOverhead,
)


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_every_key_is_described(struct):
    described = set(re.findall(r"`([a-z0-9_]+)`", "\n".join(_first_cells())))
    assert set(struct.__struct_fields__) - described == set()


def test_no_key_is_described_that_there_is_not(tmp_path):
    known = {name for struct in STRUCTS for name in struct.__struct_fields__}
    described = set(re.findall(r"`([a-z0-9_]+)`", "\n".join(_first_cells())))
    assert described - known - set(device.fingerprint(probe(RecordedHost(tmp_path)))) == set()


def test_every_part_of_the_fingerprint_is_described(tmp_path):
    assert [
        part for part in device.fingerprint(probe(RecordedHost(tmp_path))) if f"\n| `{part}` |" not in PAGE
    ] == []


def _first_cells():
    return [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
