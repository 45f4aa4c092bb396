from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from edgeopt.backends import backend_named
from edgeopt.backends.openvino.options import OpenVinoOptions, compile_config
from edgeopt.backends.options import described, read_options
from edgeopt.errors import UsageError

openvino = pytest.importorskip("openvino")


def test_what_is_not_set_is_left_to_the_runtime():
    assert compile_config(OpenVinoOptions()) == {"PERFORMANCE_HINT": "LATENCY"}


def test_every_option_reaches_the_compiled_model(onnx_file):
    options = OpenVinoOptions(
        threads=1,
        performance_hint="throughput",
        streams=1,
        precision="f32",
        execution_mode="accuracy",
        dynamic_quantization_group_size=64,
        kv_cache_precision="f16",
        pinning=False,
        hyper_threading=True,
        core_type="performance",
        partitioner="auto",
        flush_denormals=True,
    )
    # In a thread of its own: without denormals, the thread that compiles computes so from then on.
    with ThreadPoolExecutor(1) as pool:
        given = onnx_file("batch"), "CPU", compile_config(options)
        model = pool.submit(openvino.Core().compile_model, *given).result()
    assert model.get_property("INFERENCE_NUM_THREADS") == 1
    assert model.get_property("PERFORMANCE_HINT") == "THROUGHPUT"
    assert model.get_property("NUM_STREAMS") == 1
    assert model.get_property("INFERENCE_PRECISION_HINT") == openvino.Type.f32
    assert model.get_property("EXECUTION_MODE_HINT").name == "ACCURACY"
    assert model.get_property("DYNAMIC_QUANTIZATION_GROUP_SIZE") == 64
    assert model.get_property("KV_CACHE_PRECISION") == openvino.Type.f16
    assert model.get_property("ENABLE_CPU_PINNING") is False
    # What it says afterwards depends on the processor: there may be one thread a core.
    assert compile_config(options)["ENABLE_HYPER_THREADING"] is True
    assert model.get_property("SCHEDULING_CORE_TYPE").name == "PCORE_ONLY"
    assert model.get_property("TBB_PARTITIONER").name == "AUTO"
    assert model.get_property("CPU_DENORMALS_OPTIMIZATION") is True


@pytest.mark.parametrize("name", ["openvino-cpu", "openvino-gpu", "openvino-npu", "openvino-auto"])
def test_a_search_may_try_only_what_the_option_takes(name):
    kind = backend_named(name).options
    for option in described(kind):
        for value in option.search:
            assert getattr(read_options(kind, {option.name: value}, name), option.name) == value


@pytest.mark.parametrize("mmap", [True, False])
def test_weights_mapped_or_read_give_the_same(onnx_file, tmp_path, mmap):
    path = tmp_path / "own.xml"
    openvino.save_model(openvino.Core().read_model(onnx_file("product")), path, compress_to_fp16=False)
    session = backend_named("openvino-cpu").load(path, {"mmap": mmap, "precision": "f32"})
    mapped = [line for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith("own.bin")]
    assert bool(mapped) is mmap
    assert session.run({"x": np.zeros((1, 256), np.float32)})["y"].tolist() == [[0.0] * 64]


def test_options_are_taken_when_loading(onnx_file):
    options = {"threads": 1, "performance_hint": "throughput", "pinning": False, "precision": "f32"}
    session = backend_named("openvino-cpu").load(onnx_file("batch"), options)
    assert session.run({"x": np.ones((1, 3), np.float32)})["y"].tolist() == [[2, 2, 2]]


@pytest.mark.parametrize(
    ("options", "nearest"), [({"performance_hint": "latencies"}, "'latency'"), ({"shape": {"x": [1]}}, "'shapes'")]
)
def test_what_is_not_known_names_the_nearest(onnx_file, options, nearest):
    with pytest.raises(UsageError) as raised:
        backend_named("openvino-cpu").load(onnx_file("batch"), options)
    assert nearest in raised.value.hint
