import msgspec
import pytest

from edgeopt.commands.ops.case import Report
from edgeopt.commands.predict.record import on_device, read_record, stand_in
from edgeopt.errors import InputError
from edgeopt.events import Progress, Result
from edgeopt.hw.probe import probe
from edgeopt.hw.recording import open_recording
from edgeopt.profiles.targets import profile_for
from tests.commands.predict.conftest import FAKEROOTS, ORIN

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


def found(board, target=None):
    device = probe(open_recording(FAKEROOTS / board))
    return on_device(profile_for(device, target), device)


def test_a_record_without_runtimes_is_planned_for_one_to_install():
    there = found("raspberry-pi-5")
    assert (there.order, there.assumed) == (("onnxruntime-cpu",), True)


def test_what_the_record_has_is_taken_in_the_order_of_the_profile():
    there = found("jetson-orin")
    assert there.order == ("onnxruntime-tensorrt", "onnxruntime-cuda", "onnxruntime-cpu")
    assert not there.assumed


@pytest.mark.parametrize(
    ("target", "missing"), [("gpu-directml", "DmlExecutionProvider"), ("cpu-avx2", "openvino")]
)
def test_what_it_has_not_is_left_out_with_the_reason(target, missing):
    there = found("jetson-orin", target)
    assert there.order == ("onnxruntime-cpu",)
    assert any(missing in reason for reason in there.absent.values())


def test_an_accelerator_is_judged_on_the_processor():
    assert stand_in("onnxruntime-tensorrt") == "onnxruntime-cpu"
    assert stand_in("onnxruntime-cpu") == "onnxruntime-cpu"
