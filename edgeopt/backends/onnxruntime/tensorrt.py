"""ONNX Runtime on NVIDIA GPUs, through TensorRT; what that does not take goes to CUDA, then to the processor."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import msgspec

from edgeopt.backends.onnxruntime.backend import backend_of
from edgeopt.backends.onnxruntime.bound import Memory
from edgeopt.backends.onnxruntime.kept import folder_for
from edgeopt.backends.onnxruntime.nvidia import gpu_missing, gpu_name, load_tensorrt, tensorrt_version
from edgeopt.backends.onnxruntime.options import Count, OrtOptions
from edgeopt.backends.onnxruntime.provider import CUDA, Provider, Settings
from edgeopt.backends.options import about


class TensorrtOptions(OrtOptions, frozen=True):
    io_binding: Annotated[
        bool,
        about("Binds inputs in GPU memory, one buffer per shape, and fetches only the results"),
    ] = True
    device_id: Annotated[Count, about("GPU number in CUDA's order")] = 0
    trt_max_workspace_size: Annotated[
        Count | None,
        about("Maximum workspace of a kernel, in bytes; empty: the runtime's default"),
    ] = None
    trt_max_partition_iterations: Annotated[Count, about("Maximum attempts to partition the graph")] = 1000
    trt_min_subgraph_size: Annotated[
        Annotated[int, msgspec.Meta(ge=1)], about("Minimum subgraph size; smaller ones go to CUDA", search=(1, 5))
    ] = 1
    trt_fp16_enable: Annotated[bool, about("Kernels may compute in half precision", search=(True, False))] = False
    trt_bf16_enable: Annotated[bool, about("Kernels may compute in bfloat16, from Ampere on")] = False
    trt_int8_enable: Annotated[
        bool,
        about("Kernels may compute in 8 bits; needed by models with Q/DQ pairs"),
    ] = False
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
        bool,
        about("Records and replays kernels; the whole model must run in TensorRT", search=(False, True)),
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
    """The runtime keeps nothing by default, and uses the working directory if no path is set."""
    wanted = options.trt_engine_cache_enable or options.trt_timing_cache_enable
    if not wanted:
        return {"trt_engine_cache_enable": "0", "trt_timing_cache_enable": "0"}
    given = options.trt_engine_cache_path
    folder = given or folder_for(model, "tensorrt", ("onnxruntime", "tensorrt"), _engine_of(options))
    if folder is None:
        return {"trt_engine_cache_enable": "0", "trt_timing_cache_enable": "0"}
    return {
        "trt_engine_cache_enable": "1" if options.trt_engine_cache_enable else "0",
        "trt_engine_cache_path": str(folder),
        "trt_timing_cache_enable": "1" if options.trt_timing_cache_enable else "0",
        "trt_timing_cache_path": options.trt_timing_cache_path or str(folder),
    }


def _engine_of(options: TensorrtOptions) -> dict[str, str]:
    """What an engine depends on besides the model: how it is built, with what, and for which GPU."""
    names = [name for name in TensorrtOptions.__struct_fields__ if name.startswith("trt_")]
    chosen = {name: str(getattr(options, name)) for name in names if "_cache_" not in name}
    return {**chosen, "tensorrt": tensorrt_version(), "gpu": gpu_name(options.device_id)}


def memory(options: TensorrtOptions) -> Memory | None:
    wanted = options.io_binding or options.trt_cuda_graph_enable
    return Memory("cuda", options.device_id) if wanted else None


PROVIDER = Provider(
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
    memory=memory,
    gpu=lambda options: int(options.device_id),
    graph=lambda options: bool(options.trt_cuda_graph_enable),
    prepare=load_tensorrt,
)
BACKEND = backend_of(PROVIDER)
