import numpy as np
import pytest

from edgeopt.backends import backend_named
from edgeopt.backends.openvino.options import OpenVinoOptions, compile_config
from edgeopt.errors import UsageError

openvino = pytest.importorskip("openvino")


def test_what_is_not_set_is_left_to_the_runtime():
    assert compile_config(OpenVinoOptions()) == {"PERFORMANCE_HINT": "LATENCY"}


def test_every_option_reaches_the_compiled_model(onnx_file):
    options = OpenVinoOptions(
        threads=1,
        performance_hint="throughput",
        precision="f32",
        dynamic_quantization_group_size=64,
        pinning=False,
    )
    model = openvino.Core().compile_model(onnx_file("batch"), "CPU", compile_config(options))
    assert model.get_property("INFERENCE_NUM_THREADS") == 1
    assert model.get_property("PERFORMANCE_HINT") == "THROUGHPUT"
    assert model.get_property("INFERENCE_PRECISION_HINT") == openvino.Type.f32
    assert model.get_property("DYNAMIC_QUANTIZATION_GROUP_SIZE") == 64
    assert model.get_property("ENABLE_CPU_PINNING") is False


def test_options_are_taken_when_loading(onnx_file):
    options = {"threads": 1, "performance_hint": "throughput", "pinning": False, "precision": "f32"}
    session = backend_named("openvino-cpu").load(onnx_file("batch"), options)
    assert session.run({"x": np.ones((1, 3), np.float32)})["y"].tolist() == [[2, 2, 2]]


@pytest.mark.parametrize(
    ("options", "nearest"),
    [({"performance_hint": "latencies"}, "'latency'"), ({"shape": {"x": [1]}}, "'shapes'")],
)
def test_what_is_not_known_names_the_nearest(onnx_file, options, nearest):
    with pytest.raises(UsageError) as raised:
        backend_named("openvino-cpu").load(onnx_file("batch"), options)
    assert nearest in raised.value.hint
