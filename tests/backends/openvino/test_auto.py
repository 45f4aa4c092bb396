"""AUTO for real, where it can choose the processor only, and with a fake GPU."""

import numpy as np
import pytest

from edgeopt.backends import backend_named
from edgeopt.errors import ModelError, UsageError

pytest.importorskip("openvino")
AUTO = backend_named("openvino-auto")
X = np.ones((2, 3), np.float32)


def test_it_says_what_it_chose(onnx_file):
    placement = AUTO.load(onnx_file("two"), {}).placement
    assert (placement.wanted, placement.fallen, placement.boundaries) == ("AUTO", (), 0)
    assert placement.nodes["CPU"] >= 3


@pytest.mark.parametrize("hint", ["latency", "throughput", "cumulative_throughput"])
def test_its_options_reach_the_device(onnx_file, hint):
    options = {"performance_hint": hint, "threads": 1, "devices": "CPU", "execution_mode": "accuracy"}
    session = AUTO.load(onnx_file("batch"), options)
    assert session.run({"x": X})["y"].tolist() == (2 * X).tolist()
    properties = session._programs[0].compiled.get_property("DEVICE_PROPERTIES")["CPU"]
    assert properties["INFERENCE_NUM_THREADS"] == 1
    assert properties["PERFORMANCE_HINT"] == ("LATENCY" if hint == "latency" else "THROUGHPUT")
    assert properties["EXECUTION_MODE_HINT"].name == "ACCURACY"


@pytest.mark.parametrize("devices", ["gpu", "CPU;GPU", "CPU, GPU", "TPU"])
def test_devices_that_are_none(onnx_file, devices):
    with pytest.raises(UsageError, match="'devices'"):
        AUTO.load(onnx_file("batch"), {"devices": devices})


def test_a_device_that_is_not_here_is_told_in_the_runtimes_words(onnx_file):
    with pytest.raises(ModelError, match="AUTO:GPU"):
        AUTO.load(onnx_file("batch"), {"devices": "GPU"})


def test_the_processor_in_place_of_the_gpu_is_told_and_refused_when_strict(onnx_file, fake_openvino):
    fake_openvino.runs_on["AUTO:GPU,CPU"] = ["CPU"]
    path, options = onnx_file("batch"), {"devices": "GPU,CPU"}
    placement = AUTO.load(path, options).placement
    assert (placement.wanted, placement.nodes, placement.fallen) == ("GPU", {"CPU": 1}, ("Add: y",))
    with pytest.raises(ModelError, match=r"1 of 1 nodes .* not run on GPU but on CPU: Add: y\."):
        AUTO.load(path, options, strict=True)


def test_the_processor_that_only_bridges_the_time_is_no_gpu(onnx_file, fake_openvino):
    fake_openvino.runs_on["AUTO:GPU,CPU"] = ["(CPU)"]
    assert AUTO.load(onnx_file("batch"), {"devices": "GPU,CPU"}).placement.fallen


def test_a_strict_load_shuts_the_ways_back(onnx_file, fake_openvino):
    fake_openvino.runs_on["AUTO:GPU,CPU"] = ["GPU.0"]
    session = AUTO.load(onnx_file("batch"), {"devices": "GPU,CPU"}, strict=True)
    assert session.placement.nodes == {"GPU.0": 1}
    [(device, config)] = fake_openvino.compiled
    assert device == "AUTO:GPU,CPU"
    assert config["ENABLE_STARTUP_FALLBACK"] is config["ENABLE_RUNTIME_FALLBACK"] is False
