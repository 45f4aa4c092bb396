import msgspec
import pytest

from edgeopt.commands.ops.case import Report
from edgeopt.commands.predict.record import read_record
from edgeopt.errors import InputError
from edgeopt.events import Progress, Result
from tests.commands.predict.conftest import ORIN

TABLE = Report((), (), threads=4, took_s=1.0, measured=0, counts={})


def lines(*events):
    return b"".join(msgspec.json.encode(event) + b"\n" for event in events)


@pytest.fixture
def result(pi_5):
    return Result("probe", msgspec.to_builtins(pi_5))


def test_the_record_alone_is_read(tmp_path, pi_5):
    file = tmp_path / "device.json"
    file.write_bytes(msgspec.json.encode(pi_5))
    assert read_record(file).device == pi_5


def test_what_probe_deep_prints_is_read_with_its_progress(tmp_path, result, pi_5):
    file = tmp_path / "device.json"
    file.write_bytes(lines(Progress("measuring"), result))
    found = read_record(file)
    assert (found.device, found.table) == (pi_5, None)


def test_the_operator_table_may_follow_in_the_same_file(tmp_path, result):
    file = tmp_path / "device.json"
    file.write_bytes(lines(result, Progress("measuring"), Result("ops", msgspec.to_builtins(TABLE))))
    assert read_record(file).table == TABLE


def test_a_table_that_is_none_is_named(tmp_path, result):
    file = tmp_path / "device.json"
    file.write_bytes(lines(result, Result("ops", {"threads": "many"})))
    with pytest.raises(InputError, match="operator table"):
        read_record(file)


def test_a_recorded_machine_is_read():
    assert read_record(ORIN).title.startswith("NVIDIA Jetson Orin")


def test_what_is_no_record_is_refused(tmp_path):
    file = tmp_path / "device.json"
    file.write_bytes(lines(Progress("measuring"), Result("bench", {})))
    with pytest.raises(InputError, match="device record"):
        read_record(file)
