"""GPU and NPU with a fake core: what they need, what they are given, and where their nodes run."""

import re
from pathlib import Path

import numpy as np
import pytest

from edgeopt.backends import backend_named
from edgeopt.backends.base import Available
from edgeopt.backends.openvino import model
from edgeopt.backends.openvino.devices import GpuOptions, NpuOptions, gpu_aim, npu_aim
from edgeopt.errors import ModelError, UsageError
from edgeopt.hw.device import Unavailable

openvino = pytest.importorskip("openvino")
GPU, NPU = backend_named("openvino-gpu"), backend_named("openvino-npu")
NODES = {"GPU": "dri/renderD128", "NPU": "accel/accel0"}


@pytest.fixture
def dev(tmp_path, monkeypatch):
    monkeypatch.setattr(model, "DEV", tmp_path)
    monkeypatch.setattr(model.sys, "platform", "linux")
    return tmp_path


def add_node(dev, kind):
    node = dev / NODES[kind]
    node.parent.mkdir(parents=True)
    node.touch()


@pytest.mark.parametrize("kind", ["GPU", "NPU"])
def test_without_a_device_node_openvino_is_not_even_asked(dev, fake_openvino, kind):
    fake_openvino.available_devices = None
    state = model.device_available(kind)
    assert isinstance(state, Unavailable)
    assert kind in state.reason


@pytest.mark.parametrize("kind", ["GPU", "NPU"])
def test_a_device_of_another_maker_is_not_seen(dev, fake_openvino, kind):
    add_node(dev, kind)
    fake_openvino.available_devices = ["CPU"]
    state = model.device_available(kind)
    assert isinstance(state, Unavailable)
    assert f"OpenVINO sees no {kind}" in state.reason
    assert "Intel's" in state.reason


@pytest.mark.parametrize(("backend", "kind"), [(GPU, "GPU"), (NPU, "NPU")])
def test_what_openvino_lists_is_available(dev, fake_openvino, backend, kind):
    add_node(dev, kind)
    assert isinstance(backend.available(), Available)


def test_without_the_package_nothing_is_looked_for(dev, monkeypatch):
    monkeypatch.setattr(model, "package_available", lambda: Unavailable("not installed", "openvino"))
    assert GPU.available() == NPU.available() == Unavailable("not installed", "openvino")


def documented():
    """Every property in the headers that the package brings."""
    headers = (Path(openvino.__file__).parent / "include/openvino/runtime").rglob("properties.hpp")
    return {word for path in headers for word in re.findall(r'"([A-Z][A-Z_]+)"', path.read_text())}


def test_every_gpu_option_is_a_documented_property():
    options = GpuOptions(
        performance_hint="throughput", streams=2, precision="f16", dynamic_quantization_group_size=0,
        kv_cache_precision="u8", queue_priority="high", queue_throttle="low", host_task_priority="medium",
        loop_unrolling=False, winograd=False, sdpa=True, auto_batching=False, model_priority="low",
        compile_threads=2, cache_dir="kept", cache_mode="size", execution_mode="accuracy",
    )  # fmt: skip
    config = gpu_aim(options).config
    assert set(config) - documented() == set()
    assert len(config) == 17
    assert config["GPU_QUEUE_PRIORITY"] == "HIGH"
    assert config["GPU_DISABLE_WINOGRAD_CONVOLUTION"] is True
    assert gpu_aim(GpuOptions()).config == {"PERFORMANCE_HINT": "LATENCY"}


def test_every_npu_option_is_a_documented_property():
    options = NpuOptions(
        performance_hint="throughput", precision="f16", turbo=True, tiles=2, optimization_level=2,
        efficiency="latency", compiler="driver", qdq_optimization=True, dynamic_quantization=True,
        defer_weights_load=True, driver_cache=False, model_priority="low", workload="efficient", compile_threads=2,
    )  # fmt: skip
    config = npu_aim(options).config
    assert set(config) - documented() == set()
    assert len(config) == 13
    assert config["NPU_COMPILATION_MODE_PARAMS"] == "optimization-level=2 performance-hint-override=latency"
    assert config["WORKLOAD_TYPE"] == "efficient"  # the one word that OpenVINO spells small
    assert npu_aim(NpuOptions()).config == {"PERFORMANCE_HINT": "LATENCY"}


def test_one_of_several_gpus(onnx_file, fake_openvino):
    session = GPU.load(onnx_file("batch"), {"device": "GPU.1"})
    assert fake_openvino.compiled == [("GPU.1", {"PERFORMANCE_HINT": "LATENCY"})]
    assert session.placement.nodes == {"GPU.1": 1}
    with pytest.raises(UsageError, match="'device'"):
        GPU.load(onnx_file("batch"), {"device": "cuda:0"})


@pytest.mark.parametrize("backend", [GPU, NPU])
def test_shapes_are_fixed_for_it(onnx_file, fake_openvino, backend):
    session = backend.load(onnx_file("batch"), {"shapes": {"x": [2, 3]}})
    assert session.run({"x": np.ones((2, 3), np.float32)})["y"].tolist() == [[2] * 3] * 2
    assert len(fake_openvino.compiled) == 1


@pytest.mark.parametrize(("backend", "kind"), [(GPU, "GPU"), (NPU, "NPU")])
def test_nodes_that_it_cannot_run_fail_unless_the_processor_may_take_them(onnx_file, fake_openvino, backend, kind):
    fake_openvino.refused = {"Subtract"}
    path = onnx_file("two")
    assert backend.supports(path).unsupported == ("Subtract: m",)
    with pytest.raises(ModelError, match=f"for {kind}: .*not supported"):
        backend.load(path, {})
    session = backend.load(path, {"fallback": "cpu", "precision": "f16"})
    device, config = fake_openvino.compiled[-1]
    assert device == f"HETERO:{kind},CPU"
    own = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f16"}
    assert config == {"DEVICE_PROPERTIES": {kind: own}}
    placement = session.placement
    assert (placement.wanted, placement.nodes) == (kind, {kind: 2, "CPU": 1})
    assert placement.fallen == ("Subtract: m",)
    assert placement.boundaries == 1
    with pytest.raises(ModelError, match=rf": 1 of 3 nodes do not run on {kind} but on CPU: Subtract: m\."):
        backend.load(path, {"fallback": "cpu"}, strict=True)


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
