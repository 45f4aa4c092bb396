import msgspec
import pytest

from edgeopt.errors import MissingError, UsageError
from edgeopt.hw.probe import probe
from edgeopt.profiles.targets import profile_for
from edgeopt.quant.measured.timing.courses import Course, backends_for, courses_for, exact, is_inexact


@pytest.fixture(scope="module")
def device():
    return probe()


def with_simd(device, *names):
    return msgspec.structs.replace(device, cpu=msgspec.structs.replace(device.cpu, simd=names))


def test_openvino_computes_floats_in_both_precisions_where_the_processor_has_both(device):
    found = courses_for(("onnxruntime-cpu", "openvino-cpu"), {}, with_simd(device, "avx512-bf16"))

    assert [course.name for course in found] == [
        "onnxruntime-cpu",
        "openvino-cpu (precision=f32)",
        "openvino-cpu (precision=bf16)",
    ]
    assert [is_inexact(course) for course in found] == [False, False, True]


def test_elsewhere_in_floats_alone(device):
    found = courses_for(("openvino-cpu",), {}, with_simd(device, "avx2"))

    assert [course.options for course in found] == [{"precision": "f32"}]


def test_a_precision_that_was_given_is_the_only_one(device):
    found = courses_for(("openvino-cpu",), {"precision": "bf16"}, with_simd(device, "avx512-bf16"))

    assert found == (Course("openvino-cpu", {"precision": "bf16"}),)


def test_what_the_runtime_chooses_by_itself_may_be_fewer_bits(device):
    (course,) = courses_for(("openvino-cpu",), {"precision": ""}, with_simd(device, "avx512-bf16"))

    assert is_inexact(course)
    assert exact(course).options == {"precision": "f32"}


def test_options_must_be_the_backends_own(device):
    with pytest.raises(UsageError, match="no option 'speed'"):
        courses_for(("onnxruntime-cpu",), {"speed": "high"}, device)


def test_the_backend_that_is_named_must_be_here(device):
    profile = profile_for(device)
    assert backends_for("onnxruntime-cpu", profile) == ("onnxruntime-cpu",)
    with pytest.raises(MissingError, match="is not available"):
        backends_for("onnxruntime-tensorrt", profile)
    with pytest.raises(UsageError, match="no backend 'onnx'"):
        backends_for("onnx", profile)


def test_those_of_the_profile_that_are_here(device):
    found = backends_for("", profile_for(device))

    assert "onnxruntime-cpu" in found
    assert "onnxruntime-cuda" not in found
