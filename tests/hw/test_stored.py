import json

import msgspec
import pytest

from edgeopt.errors import InputError
from edgeopt.events import Result
from edgeopt.hw.probe import probe
from edgeopt.hw.recording import read_device


@pytest.fixture
def record(board):
    return msgspec.to_builtins(probe(board("raspberry-pi-5")))


@pytest.fixture
def stored(tmp_path):
    def write(data):
        file = tmp_path / "device.json"
        file.write_text(data if isinstance(data, str) else json.dumps(data))
        return file

    return write


def test_the_record_alone_and_the_line_that_the_command_prints(board, record, stored):
    device = probe(board("raspberry-pi-5"))
    assert read_device(stored(record)) == device
    line = msgspec.json.encode(Result("probe", record)).decode()
    assert read_device(stored(line)) == device


def test_unknown_keys_are_ignored_and_missing_sections_are_absent(record, stored):
    record["cpu"]["colour"] = "green"
    record["future"] = {"x": 1}
    del record["state"], record["clusters"], record["schema"]
    device = read_device(stored(record))
    assert device.cpu.model == "Cortex-A76"
    assert device.state is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a device record"),
        ("{", "not a device record"),
        ("[]", "not a device record"),
        ("{}", "missing required field"),
        ('{"schema": 99}', "schema 99"),
        ('{"event": "result", "kind": "targets", "data": {}}', "'targets'"),
        ('{"event": "result", "kind": "probe", "data": {"schema": 2}}', "schema 2"),
        ('{"event": "result", "kind": "probe"}', "not a device record"),
        ("[" * 100_000, "not a device record"),
    ],
)
def test_what_is_no_record_gets_a_sentence(stored, text, words):
    with pytest.raises(InputError, match=words) as caught:
        read_device(stored(text))
    assert caught.value.hint


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_device(tmp_path / "none.json")


def test_absurd_numbers_are_refused(record, stored):
    record["limits"]["usable_cores"] = 0
    with pytest.raises(InputError, match="no cores"):
        read_device(stored(record))
