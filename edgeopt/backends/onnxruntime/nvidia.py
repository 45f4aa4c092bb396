"""ONNX Runtime on NVIDIA GPUs: the CUDA and TensorRT providers, their libraries, and the cache of engines."""

import ctypes
import json
import platform
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from edgeopt.backends.base import EightBits
from edgeopt.backends.onnxruntime.backend import backend_of
from edgeopt.backends.onnxruntime.bound import BoundMemory
from edgeopt.backends.onnxruntime.options import Count, OrtOptions
from edgeopt.backends.onnxruntime.provider import CUDA, Provider, Settings
from edgeopt.backends.options import about
from edgeopt.backends.protobuf import GRAPH, opened, parts, text
from edgeopt.platform.user_folders import user_cache_folder

_DRIVERS = {"Linux": "libcuda.so.1", "Windows": "nvcuda.dll"}
_TENSORRT = (
    "libnvinfer.so.10",
    "nvinfer_10.dll",
    "libnvinfer.so.11",
    "nvinfer_11.dll",
    "libnvinfer.so.8",
    "nvinfer.dll",
)
"""Names of the TensorRT library, beginning with the version that ONNX Runtime 1.31 is built with."""


def gpu_missing() -> str | None:
    """Returns the reason that CUDA has no device here, from the driver, or None if it has one."""
    name = _DRIVERS.get(platform.system(), "libcuda.so.1")
    try:
        driver = ctypes.CDLL(name)
    except OSError:
        return f"NVIDIA's driver is not installed: {name} is missing"
    count = ctypes.c_int(0)
    code = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if code:
        return f"NVIDIA's driver cannot be used: CUDA error {code}"
    return None if count.value else "NVIDIA's driver sees no GPU"


def gpu_name(number: int) -> str:
    """Returns the name of a GPU by its number in CUDA's order (NVML's differs); `unknown` without an answer."""
    try:
        driver = ctypes.CDLL(_DRIVERS.get(platform.system(), "libcuda.so.1"))
    except OSError:
        return "unknown"
    device, name = ctypes.c_int(0), ctypes.create_string_buffer(256)
    code = (
        driver.cuInit(0)
        or driver.cuDeviceGet(ctypes.byref(device), number)
        or driver.cuDeviceGetName(name, len(name), device)
    )
    return "unknown" if code else name.value.decode(errors="replace")


def tensorrt_version() -> str:
    """Returns the version of the first library found, whatever installed it; `unknown` if there is none."""
    for name in _TENSORRT:
        try:
            return str(ctypes.CDLL(name).getInferLibVersion())
        except (OSError, AttributeError):
            continue
    return "unknown"


def load_libraries() -> None:
    """Loads CUDA and cuDNN from Python packages, if installed: the runtime searches only the system's path."""
    import onnxruntime

    preload = getattr(onnxruntime, "preload_dlls", None)
    if preload is not None:
        # The function prints missing libraries, and a trial's stdout is for its answers.
        with redirect_stdout(sys.stderr):
            preload()


def load_tensorrt() -> None:
    """Loads CUDA and cuDNN, then TensorRT, whose package loads its libraries when it is imported."""
    load_libraries()
    if find_spec("tensorrt_libs") is not None:
        from importlib import import_module

        import_module("tensorrt_libs")


_INITIALIZERS = 5  # in GraphProto
_EXTERNAL_DATA = 13  # in TensorProto
_KEY, _VALUE = 1, 2  # in StringStringEntryProto


def folder_for(model: Path, kind: str, versions_of: tuple[str, ...], more: Mapping[str, str]) -> Path | None:
    """Returns the folder for the engines of a provider, created if need be; None if it cannot be written or the
    model cannot be read.

    TensorRT names its engines by the structure of a model, not by its weights, and does not check its version, the
    GPU or the options. So the folder is named by everything that an engine depends on: the model's content, the
    versions of the distributions whose names begin with `versions_of`, and `more`.
    """
    root = user_cache_folder()
    if root is None:
        return None
    try:
        folder = root / kind / _digest(model, versions_of, more)
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError, LookupError):
        return None
    return folder


def external_files(model: Path) -> tuple[str, ...]:
    """Returns the names of the files beside the model that hold weights."""
    with opened(model) as data:
        entries = [
            {
                text(data, next(parts(data, entry, (_KEY,)))): text(
                    data, next(parts(data, entry, (_VALUE,)), (0, 0))
                )
            }
            for graph in parts(data, (0, len(data)), (GRAPH,))
            for tensor in parts(data, graph, (_INITIALIZERS,))
            for entry in parts(data, tensor, (_EXTERNAL_DATA,))
        ]
    return tuple(dict.fromkeys(entry["location"] for entry in entries if "location" in entry))


def _digest(model: Path, versions_of: tuple[str, ...], more: Mapping[str, str]) -> str:
    import hashlib
    from importlib.metadata import distributions

    digest = hashlib.sha256()
    for path in (model, *(model.parent / name for name in external_files(model))):
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    for name, version in sorted(
        (found.name, found.version) for found in distributions() if (found.name or "").startswith(versions_of)
    ):
        digest.update(f"{name} {version}\n".encode())
    digest.update(json.dumps(dict(more), sort_keys=True).encode())
    return digest.hexdigest()[:32]


class CudaOptions(OrtOptions, frozen=True):
    io_binding: Annotated[
        bool,
        about(
            "Binds inputs in GPU memory, one buffer per shape, and fetches only the results", search=(True, False)
        ),
    ] = True
    device_id: Annotated[Count, about("GPU number in CUDA's order")] = 0
    gpu_mem_limit: Annotated[Count | None, about("Maximum GPU memory of the arena, in bytes; empty: no limit")] = (
        None
    )
    arena_extend_strategy: Annotated[
        Literal["kNextPowerOfTwo", "kSameAsRequested"], about("Growth of the arena: faster, or with less memory")
    ] = "kNextPowerOfTwo"
    cudnn_conv_algo_search: Annotated[
        Literal["EXHAUSTIVE", "HEURISTIC", "DEFAULT"],
        about(
            "Convolution algorithms: measured at the first run, heuristic, or default",
            search=("EXHAUSTIVE", "HEURISTIC"),
        ),
    ] = "EXHAUSTIVE"
    cudnn_conv_use_max_workspace: Annotated[
        bool, about("Convolutions may use unlimited workspace; otherwise 32 MiB")
    ] = True
    cudnn_conv1d_pad_to_nc1d: Annotated[
        bool, about("How convolutions over one axis are padded to two", search=(False, True))
    ] = False
    do_copy_in_default_stream: Annotated[
        bool, about("Copies wait for earlier kernels; false may be faster, and may race")
    ] = True
    use_tf32: Annotated[
        bool, about("TF32 products (19 bits) for float32, from Ampere on; false: exact", search=(True, False))
    ] = True
    prefer_nhwc: Annotated[bool, about("Channels-last convolutions for tensor cores", search=(False, True))] = (
        False
    )
    fuse_conv_bias: Annotated[bool, about("Fuses convolution and bias in one cuDNN call")] = False
    sdpa_kernel: Annotated[Count, about("Attention kernels, as bit mask; 0: the runtime's default")] = 0
    enable_cuda_graph: Annotated[
        bool,
        about(
            "Records kernels once per shape and replays them, which saves launches; the whole model must run "
            "on the GPU",
            search=(False, True),
        ),
    ] = False
    enable_skip_layer_norm_strict_mode: Annotated[
        bool, about("SkipLayerNormalization sums in float32: more exact, slower")
    ] = False
    tunable_op_enable: Annotated[bool, about("Uses tuned kernels")] = False
    tunable_op_tuning_enable: Annotated[bool, about("Tunes kernels during runs")] = False
    tunable_op_max_tuning_duration_ms: Annotated[
        Count, about("Maximum tuning time per kernel, in ms; 0: no limit")
    ] = 0
    use_ep_level_unified_stream: Annotated[bool, about("All kernels of a session in one stream")] = False


def cuda_memory(options: CudaOptions) -> BoundMemory | None:
    """Returns the memory for bound inputs and outputs, which a CUDA graph requires for its fixed addresses."""
    is_bound = options.io_binding or options.enable_cuda_graph
    return BoundMemory("cuda", options.device_id) if is_bound else None


CUDA_PROVIDER = Provider(
    name="onnxruntime-cuda",
    title="ONNX Runtime, CUDA",
    key=CUDA,
    options=CudaOptions,
    distributions=("onnxruntime-gpu",),
    systems=("Linux", "Windows"),
    extra="cuda",
    missing=gpu_missing,
    memory=cuda_memory,
    gpu=lambda options: int(options.device_id),
    graph=lambda options: bool(options.enable_cuda_graph),
    prepare=load_libraries,
    eight_bits=EightBits("none"),
)
CUDA_BACKEND = backend_of(CUDA_PROVIDER)


class TensorrtOptions(OrtOptions, frozen=True):
    io_binding: Annotated[
        bool, about("Binds inputs in GPU memory, one buffer per shape, and fetches only the results")
    ] = True
    device_id: Annotated[Count, about("GPU number in CUDA's order")] = 0
    trt_max_workspace_size: Annotated[
        Count | None, about("Maximum workspace of a kernel, in bytes; empty: the runtime's default")
    ] = None
    trt_max_partition_iterations: Annotated[Count, about("Maximum attempts to partition the graph")] = 1000
    trt_min_subgraph_size: Annotated[
        Annotated[int, msgspec.Meta(ge=1)], about("Minimum subgraph size; smaller ones go to CUDA", search=(1, 5))
    ] = 1
    trt_fp16_enable: Annotated[bool, about("Kernels may compute in half precision", search=(True, False))] = False
    trt_bf16_enable: Annotated[bool, about("Kernels may compute in bfloat16, from Ampere on")] = False
    trt_int8_enable: Annotated[bool, about("Kernels may compute in 8 bits; needed by models with Q/DQ pairs")] = (
        False
    )
    trt_int8_calibration_table_name: Annotated[
        str, about("A table of ranges for a model without Q/DQ pairs, in the folder of the engines")
    ] = ""
    trt_int8_use_native_calibration_table: Annotated[bool, about("The table was written by TensorRT")] = False
    trt_dla_enable: Annotated[bool, about("Uses the deep learning accelerator of a Jetson")] = False
    trt_dla_core: Annotated[Count, about("Number of the accelerator")] = 0
    trt_engine_cache_enable: Annotated[bool, about("Caches engines: building takes minutes, loading a second")] = (
        True
    )
    trt_engine_cache_path: Annotated[
        str, about("Folder; empty: in edgeopt's cache folder, by everything an engine depends on")
    ] = ""
    trt_timing_cache_enable: Annotated[bool, about("Caches the timings behind an engine too")] = True
    trt_timing_cache_path: Annotated[str, about("Folder; empty: beside the engines")] = ""
    trt_force_timing_cache: Annotated[bool, about("Accepts timings of another GPU of the same type")] = False
    trt_builder_optimization_level: Annotated[
        Annotated[int, msgspec.Meta(ge=0, le=5)], about("Search effort for kernels", search=(3, 5))
    ] = 3
    trt_sparsity_enable: Annotated[bool, about("May use sparsity of weights")] = False
    trt_auxiliary_streams: Annotated[
        Annotated[int, msgspec.Meta(ge=-1)], about("Auxiliary streams; -1: TensorRT's default")
    ] = -1
    trt_context_memory_sharing_enable: Annotated[bool, about("Engines of a model share memory")] = False
    trt_layer_norm_fp32_fallback: Annotated[bool, about("Keeps layer normalization in float32")] = False
    trt_cuda_graph_enable: Annotated[
        bool, about("Records and replays kernels; the whole model must run in TensorRT", search=(False, True))
    ] = False
    trt_engine_hw_compatible: Annotated[bool, about("Engines that other GPUs from Ampere on can load; slower")] = (
        False
    )
    trt_tactic_sources: Annotated[str, about("Kernel libraries: `-CUDNN,+CUBLAS`")] = ""
    trt_op_types_to_exclude: Annotated[str, about("Operators excluded from TensorRT: `NonZero,TopK`")] = ""
    trt_extra_plugin_lib_paths: Annotated[str, about("TensorRT plug-in libraries, separated by `;`")] = ""
    trt_profile_min_shapes: Annotated[str, about("Minimum shapes: `input:1x3x224x224`")] = ""
    trt_profile_max_shapes: Annotated[str, about("Maximum shapes; set all three or none")] = ""
    trt_profile_opt_shapes: Annotated[str, about("Shapes to optimize the engine for")] = ""


def tensorrt_missing() -> str | None:
    from ctypes.util import find_library

    missing = gpu_missing()
    if missing:
        return missing
    if find_spec("tensorrt_libs") is None and not find_library("nvinfer"):
        return "TensorRT's own libraries are not installed (libnvinfer); pip install tensorrt, or take JetPack's"
    return None


def kept(options: TensorrtOptions, model: Path) -> Settings:
    """Returns the settings of the engine cache, which the runtime would keep in the working directory."""
    caches = options.trt_engine_cache_enable or options.trt_timing_cache_enable
    if not caches:
        return {"trt_engine_cache_enable": "0", "trt_timing_cache_enable": "0"}
    cache_path = options.trt_engine_cache_path
    folder = cache_path or folder_for(model, "tensorrt", ("onnxruntime", "tensorrt"), _engine_of(options))
    if folder is None:
        return {"trt_engine_cache_enable": "0", "trt_timing_cache_enable": "0"}
    return {
        "trt_engine_cache_enable": "1" if options.trt_engine_cache_enable else "0",
        "trt_engine_cache_path": str(folder),
        "trt_timing_cache_enable": "1" if options.trt_timing_cache_enable else "0",
        "trt_timing_cache_path": options.trt_timing_cache_path or str(folder),
    }


def _engine_of(options: TensorrtOptions) -> dict[str, str]:
    """Returns the conditions that an engine depends on: build options, TensorRT version and GPU."""
    names = [name for name in TensorrtOptions.__struct_fields__ if name.startswith("trt_")]
    chosen = {name: str(getattr(options, name)) for name in names if "_cache_" not in name}
    return {**chosen, "tensorrt": tensorrt_version(), "gpu": gpu_name(options.device_id)}


def tensorrt_memory(options: TensorrtOptions) -> BoundMemory | None:
    is_bound = options.io_binding or options.trt_cuda_graph_enable
    return BoundMemory("cuda", options.device_id) if is_bound else None


TENSORRT_PROVIDER = Provider(
    name="onnxruntime-tensorrt",
    title="ONNX Runtime, TensorRT",
    key="TensorrtExecutionProvider",
    options=TensorrtOptions,
    distributions=("onnxruntime-gpu",),
    systems=("Linux", "Windows"),
    extra="cuda",
    fallbacks=(CUDA,),
    missing=tensorrt_missing,
    more=kept,
    memory=tensorrt_memory,
    gpu=lambda options: int(options.device_id),
    graph=lambda options: bool(options.trt_cuda_graph_enable),
    prepare=load_tensorrt,
    # docs.nvidia.com, "Working with Quantized Types": signed eight bits, symmetric; four bits for weights alone.
    eight_bits=EightBits("inputs", symmetric=True, signed=True, sixteen=False),
)
TENSORRT_BACKEND = backend_of(TENSORRT_PROVIDER)
