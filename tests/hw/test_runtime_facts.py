import pytest

from edgeopt.hw.child import call_in_child


@pytest.mark.parametrize(
    ("library", "question", "expected"),
    [
        ("onnxruntime", "onnxruntime_providers", "CPUExecutionProvider"),
        ("openvino", "openvino_devices", "CPU: "),
    ],
)
def test_a_runtime_that_is_installed_answers(library, question, expected):
    pytest.importorskip(library)
    answer = call_in_child("edgeopt.hw.runtime_facts", question, 60)
    assert any(item.startswith(expected) for item in answer["providers"])


def test_openvino_tells_the_name_and_the_types_of_each_device():
    pytest.importorskip("openvino")
    answer = call_in_child("edgeopt.hw.runtime_facts", "openvino_devices", 60)
    assert answer["devices"]["CPU"]
    assert "FP32" in answer["capabilities"]["CPU"]
