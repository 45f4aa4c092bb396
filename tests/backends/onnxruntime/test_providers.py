"""What each provider is given, and how a session is opened; the runtime of the processor stands for the others."""

import ctypes
import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest

from edgeopt.backends import BACKENDS, backend_named
from edgeopt.backends.base import Available
from edgeopt.backends.onnxruntime import nvidia
from edgeopt.backends.onnxruntime.nvidia import CUDA_PROVIDER as CUDA
from edgeopt.backends.onnxruntime.nvidia import TENSORRT_PROVIDER as TENSORRT
from edgeopt.backends.onnxruntime.opening import open_with, session_options_for
from edgeopt.backends.onnxruntime.options import OrtOptions
from edgeopt.backends.onnxruntime.provider import CPU, Provider
from edgeopt.backends.onnxruntime.providers import COREML_PROVIDER as COREML
from edgeopt.backends.onnxruntime.providers import DIRECTML_PROVIDER as DIRECTML
from edgeopt.backends.onnxruntime.providers import OPENVINO_PROVIDER as OPENVINO
from edgeopt.backends.onnxruntime.providers import QNN_PROVIDER as QNN
from edgeopt.backends.onnxruntime.providers import XNNPACK_PROVIDER as XNNPACK
from edgeopt.backends.options import read_options
from edgeopt.errors import MissingError, UsageError

pytest.importorskip("onnxruntime")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def settings(onnx_file):
    """`settings(CUDA, use_tf32=False)` is what the runtime would be given."""
    model = onnx_file("batch")

    def read(provider, **options):
        return provider.settings(read_options(provider.options, options, provider.name), model)

    return read


def test_the_runtimes_own_choice_is_left_to_it(settings):
    assert settings(CUDA) == settings(DIRECTML) == settings(COREML) == settings(XNNPACK) == {}
    assert settings(QNN) == {"backend_type": "htp"}


@pytest.mark.parametrize(
    ("provider", "options", "given"),
    [
        (CUDA, {"device_id": 1, "use_tf32": False}, {"device_id": "1", "use_tf32": "0"}),
        (CUDA, {"enable_cuda_graph": True, "gpu_mem_limit": 2**30},
         {"enable_cuda_graph": "1", "gpu_mem_limit": "1073741824"}),
        (CUDA, {"cudnn_conv_algo_search": "HEURISTIC", "threads": 2}, {"cudnn_conv_algo_search": "HEURISTIC"}),
        (DIRECTML, {"disable_metacommands": True}, {"disable_metacommands": "true"}),
        (COREML, {"ModelFormat": "MLProgram", "RequireStaticInputShapes": True},
         {"ModelFormat": "MLProgram", "RequireStaticInputShapes": "1"}),
        (QNN, {"htp_performance_mode": "burst", "vtcm_mb": 8},
         {"backend_type": "htp", "htp_performance_mode": "burst", "vtcm_mb": "8"}),
        (XNNPACK, {"threads": 4}, {"intra_op_num_threads": "4"}),
        (XNNPACK, {"threads": 1, "intra_op_num_threads": 2}, {"intra_op_num_threads": "2"}),
    ],
)  # fmt: skip
def test_options_in_the_words_of_the_runtime(settings, provider, options, given):
    assert settings(provider, **options) == given


@pytest.mark.parametrize(
    ("provider", "options", "message", "hint"),
    [
        (CUDA, {"use_tf23": False}, "no option 'use_tf23'", "'use_tf32'"),
        (CUDA, {"cudnn_conv_algo_search": "EXHAUSTIV"}, "must be one of", "'EXHAUSTIVE'"),
        (CUDA, {"gpu_mem_limit": -1}, "must be int >= 0", ""),
        (TENSORRT, {"trt_builder_optimization_level": 9}, "must be int <= 5", ""),
        (DIRECTML, {"memory_pattern": True}, "must be false", "Leave it out"),
        (DIRECTML, {"execution_mode": "parallel"}, "must be one of sequential", ""),
        (COREML, {"MLComputeUnits": "CPUAndGpu"}, "must be one of", "'CPUAndGPU'"),
        (OPENVINO, {"device_type": "XYZ"}, "not an OpenVINO device: 'XYZ'", "AUTO:GPU,CPU"),
        (
            OPENVINO,
            {"device_type": "AUTO", "precision": "f32"},
            "'precision' .* AUTO without a list",
            "AUTO:GPU",
        ),
        (
            OPENVINO,
            {"device_type": "HETERO:GPU,CPU", "num_streams": 2},
            "cannot be set for HETERO:GPU,CPU",
            "",
        ),
        (
            OPENVINO,
            {"device_type": "NPU", "num_streams": 2},
            "'num_streams' .* cannot be set for NPU",
            "",
        ),
        (OPENVINO, {"load_config": "{"}, "not a JSON object of properties", "NUM_STREAMS"),
        (
            OPENVINO,
            {"load_config": '{"NUM_STREAMS": "2"}'},
            "not a JSON object of properties",
            "NUM_STREAMS",
        ),
        (QNN, {"htp_performance_mode": "bursts"}, "must be one of", "'burst'"),
    ],
)
def test_what_the_runtime_would_take_in_silence(settings, provider, options, message, hint):
    with pytest.raises(UsageError, match=message) as raised:
        settings(provider, **options)
    assert hint in raised.value.hint


def test_openvinos_properties_go_through_one_text(settings):
    given = settings(OPENVINO, threads=2, precision="f32", load_config='{"CPU": {"NUM_STREAMS": "3"}, "GPU": {}}')
    assert given["device_type"] == "CPU"
    assert json.loads(given["load_config"]) == {
        "CPU": {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": "2",
            "INFERENCE_PRECISION_HINT": "f32",
            "NUM_STREAMS": "3",
        },
        "GPU": {},
    }
    # Threads of the processor mean nothing to another device.
    gpu = settings(OPENVINO, threads=2, device_type="GPU.1")
    assert json.loads(gpu["load_config"]) == {"GPU.1": {"PERFORMANCE_HINT": "LATENCY"}}


@pytest.mark.parametrize(
    ("device_type", "devices", "mode"),
    [
        ("HETERO:GPU.1,CPU", ("GPU.1", "CPU"), {}),
        ("AUTO:GPU,CPU", ("GPU", "CPU"), {"AUTO": {"PERFORMANCE_HINT": "THROUGHPUT"}}),
        ("MULTI:NPU,GPU", ("NPU", "GPU"), {"MULTI": {"PERFORMANCE_HINT": "THROUGHPUT"}}),
    ],
)
def test_openvinos_properties_stand_under_each_device_of_a_list(settings, device_type, devices, mode):
    given = settings(
        OPENVINO,
        device_type=device_type,
        performance_hint="throughput",
        precision="f32",
        threads=3,
        load_config=json.dumps({devices[0]: {"PERF_COUNT": "YES"}}),
    )
    own = {"PERFORMANCE_HINT": "THROUGHPUT", "INFERENCE_PRECISION_HINT": "f32"}
    more = {devices[0]: {"PERF_COUNT": "YES"}, "CPU": {"INFERENCE_NUM_THREADS": "3"}}
    wanted = {device: own | more.get(device, {}) for device in devices}
    assert json.loads(given["load_config"]) == wanted | mode


def test_auto_without_a_list_is_given_no_properties(settings):
    assert settings(OPENVINO, device_type="AUTO") == {"device_type": "AUTO"}


def test_where_data_stands():
    assert nvidia.cuda_memory(nvidia.CudaOptions(device_id=1)) == ("cuda", 1)
    assert nvidia.cuda_memory(nvidia.CudaOptions(io_binding=False)) is None
    assert nvidia.cuda_memory(nvidia.CudaOptions(io_binding=False, enable_cuda_graph=True)) == ("cuda", 0)
    assert nvidia.tensorrt_memory(nvidia.TensorrtOptions()) == ("cuda", 0)


def test_a_backend_that_is_not_here_says_why(onnx_file):
    path = onnx_file("batch")
    missing = [
        b for b in BACKENDS if b.name.startswith("onnxruntime-") and not isinstance(b.available(), Available)
    ]
    assert missing
    for backend in missing:
        for call in (lambda b=backend: b.load(path, {}), lambda b=backend: b.supports(path)):
            with pytest.raises(MissingError, match=f"The backend {backend.name} cannot be used here: ") as raised:
                call()
            assert raised.value.hint


def other(**changes):
    """A provider that the installed runtime has under another name than the processor's."""
    return dataclasses.replace(
        Provider(
            name="onnxruntime-other", title="", key="AzureExecutionProvider", options=OrtOptions, distributions=()
        ),
        **changes,
    )


def test_fallbacks_stand_in_the_list_between_it_and_the_processor(onnx_file, monkeypatch):
    import onnxruntime

    listed = []

    def session(_path, _options, providers, **_more):
        listed.extend(providers)
        return SimpleNamespace(get_providers=lambda: [TENSORRT.key, nvidia.CUDA, CPU])

    monkeypatch.setattr(onnxruntime, "InferenceSession", session)
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [TENSORRT.key, nvidia.CUDA, CPU])
    provider = dataclasses.replace(TENSORRT, prepare=lambda: None)
    options = nvidia.TensorrtOptions(device_id=1, trt_fp16_enable=True)
    open_with(provider, onnx_file("batch"), options, session_options_for(options, "x"))
    (first, given), second, last = listed
    assert (first, second, last) == (TENSORRT.key, (nvidia.CUDA, {"device_id": "1"}), CPU)
    assert given["trt_fp16_enable"] == "1"


def test_a_provider_that_does_not_start_is_an_error_and_no_fallback(onnx_file, capfd):
    provider = other(key="CUDAExecutionProvider")
    options = OrtOptions()
    with (
        pytest.raises(MissingError, match="could not start"),
        pytest.warns(UserWarning, match="CUDAExecutionProvider"),
    ):
        open_with(provider, onnx_file("batch"), options, session_options_for(options, "x"))
    assert capfd.readouterr().out == ""


def test_what_the_files_of_an_engine_depend_on(settings, onnx_file, tmp_path):
    given = settings(TENSORRT)
    folder = given["trt_engine_cache_path"]
    assert folder.startswith(str(tmp_path / "cache" / "edgeopt" / "tensorrt"))
    assert given["trt_timing_cache_path"] == folder
    assert (given["trt_engine_cache_enable"], given["trt_timing_cache_enable"]) == ("1", "1")
    assert settings(TENSORRT)["trt_engine_cache_path"] == folder
    other_model = nvidia.kept(nvidia.TensorrtOptions(), onnx_file("fixed"))
    assert other_model["trt_engine_cache_path"] != folder


@pytest.mark.parametrize(
    "options",
    [
        {"trt_fp16_enable": True},
        {"trt_builder_optimization_level": 5},
        {"trt_profile_max_shapes": "x:8x3"},
        {"trt_extra_plugin_lib_paths": "mine.so"},
    ],
)
def test_an_engine_that_was_built_otherwise_is_another(settings, options):
    folder = settings(TENSORRT)["trt_engine_cache_path"]
    assert settings(TENSORRT, **options)["trt_engine_cache_path"] != folder
    assert settings(TENSORRT)["trt_engine_cache_path"] == folder
    # Where engines or timings are kept does not change them.
    assert settings(TENSORRT, trt_timing_cache_enable=False)["trt_engine_cache_path"] == folder


def test_an_engine_of_another_gpu_or_library_is_another(settings, monkeypatch):
    versions, names = {"libnvinfer.so.10": 101300}, ["Orin", "RTX 4090"]

    def get_name(buffer, _size, device):
        buffer.value = names[device.value].encode()
        return 0

    def get(device, number):
        device._obj.value = number
        return 0

    def library(name):
        if name in versions:
            return SimpleNamespace(getInferLibVersion=lambda: versions[name])
        if "cuda" not in name:
            raise OSError(name)
        return SimpleNamespace(cuInit=lambda _: 0, cuDeviceGet=get, cuDeviceGetName=get_name)

    alone = settings(TENSORRT)["trt_engine_cache_path"]
    monkeypatch.setattr(nvidia, "ctypes", SimpleNamespace(**{**vars(ctypes), "CDLL": library}))
    assert (nvidia.gpu_name(0), nvidia.gpu_name(1), nvidia.tensorrt_version()) == ("Orin", "RTX 4090", "101300")
    first, second = (settings(TENSORRT, device_id=number)["trt_engine_cache_path"] for number in (0, 1))
    versions["libnvinfer.so.10"] = 101400
    third = settings(TENSORRT)["trt_engine_cache_path"]
    assert len({alone, first, second, third}) == 4


def test_weights_beside_the_model_count(tmp_path):
    import onnx
    from onnx import helper, numpy_helper

    def folder(value):
        weights = numpy_helper.from_array(np.full((1000,), value, np.float32), "w")
        ports = [helper.make_tensor_value_info(name, 1, [1000]) for name in "xy"]
        graph = helper.make_graph(
            [helper.make_node("Add", ["x", "w"], ["y"])], "g", ports[:1], ports[1:], [weights]
        )
        path = tmp_path / "m.onnx"
        onnx.save(helper.make_model(graph), path, save_as_external_data=True, location="m.data", size_threshold=0)
        return nvidia.kept(nvidia.TensorrtOptions(), path)["trt_engine_cache_path"]

    first = folder(1)
    (tmp_path / "m.data").unlink()
    second = folder(2)
    (tmp_path / "m.data").unlink()
    assert folder(1) == first != second


def test_engines_in_a_folder_of_the_users_or_nowhere(settings, tmp_path):
    given = settings(TENSORRT, trt_engine_cache_path=str(tmp_path))
    assert (given["trt_engine_cache_path"], given["trt_timing_cache_path"]) == (str(tmp_path), str(tmp_path))
    off = {"trt_engine_cache_enable": "0", "trt_timing_cache_enable": "0"}
    assert settings(TENSORRT, trt_engine_cache_enable=False, trt_timing_cache_enable=False) == off


def test_where_nothing_can_be_written_no_engine_is_kept(settings, tmp_path):
    (tmp_path / "cache").write_text("a file, not a folder")
    assert settings(TENSORRT) == {"trt_engine_cache_enable": "0", "trt_timing_cache_enable": "0"}


@pytest.mark.hardware
@pytest.mark.parametrize("name", ["onnxruntime-cuda", "onnxruntime-tensorrt"])
@pytest.mark.parametrize("graph", [False, True])
def test_on_a_gpu(onnx_file, name, graph):
    backend = backend_named(name)
    found = backend.available()
    if not isinstance(found, Available):
        pytest.skip(found.reason)
    option = {"onnxruntime-cuda": "enable_cuda_graph", "onnxruntime-tensorrt": "trt_cuda_graph_enable"}[name]
    session = backend.load(onnx_file("batch"), {option: graph}, strict=True)
    for size in (1, 4, 1, 4):
        feed = np.arange(3 * size, dtype=np.float32).reshape(size, 3)
        assert np.array_equal(session.run({"x": feed})["y"], feed + feed)
    assert session.placement.fallen == ()
    # Nothing where the runtime was built without the profiler of CUDA.
    assert set(backend.times(onnx_file("batch"), {}, {"x": feed})) <= {session.placement.wanted}
