"""docs/device.md describes every key of the device record, and no key that there is not."""

import re
from pathlib import Path
from typing import get_args, get_type_hints

import msgspec
import pytest

from edgeopt.hw import device
from edgeopt.hw.host import RecordedHost
from edgeopt.hw.probe import probe

PAGE = (Path(__file__).parents[1] / "docs" / "device.md").read_text()


def structs_in(kind: type | object) -> set[type]:
    """The records of a type annotation, and those of their fields."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return {kind}.union(*map(structs_in, get_type_hints(kind).values()))
    return set().union(*map(structs_in, get_args(kind)))


STRUCTS = sorted(structs_in(device.Device), key=lambda struct: struct.__name__)


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
