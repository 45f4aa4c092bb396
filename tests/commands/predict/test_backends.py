import pytest

from edgeopt.commands.predict.record import on_device, stand_in
from edgeopt.hw.probe import probe
from edgeopt.hw.recording import open_recording
from edgeopt.profiles.targets import profile_for
from tests.commands.predict.conftest import FAKEROOTS


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
