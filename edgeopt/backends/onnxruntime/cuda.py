"""ONNX Runtime on NVIDIA GPUs, through CUDA."""

from typing import Annotated, Literal

from edgeopt.backends.onnxruntime.backend import backend_of
from edgeopt.backends.onnxruntime.bound import Memory
from edgeopt.backends.onnxruntime.nvidia import gpu_missing, load_libraries
from edgeopt.backends.onnxruntime.options import Count, OrtOptions
from edgeopt.backends.onnxruntime.provider import CUDA, Provider
from edgeopt.backends.options import about


class CudaOptions(OrtOptions, frozen=True):
    io_binding: Annotated[
        bool,
        about(
            "Inputs stand in the GPU's memory, at one place for each shape, and only the results are fetched",
            search=(True, False),
        ),
    ] = True
    device_id: Annotated[Count, about("Which GPU, as CUDA counts them")] = 0
    gpu_mem_limit: Annotated[
        Count | None, about("The most bytes of GPU memory that the arena takes; empty is no limit")
    ] = None
    arena_extend_strategy: Annotated[
        Literal["kNextPowerOfTwo", "kSameAsRequested"],
        about("By how much the arena grows: quicker, or with less memory"),
    ] = "kNextPowerOfTwo"
    cudnn_conv_algo_search: Annotated[
        Literal["EXHAUSTIVE", "HEURISTIC", "DEFAULT"],
        about(
            "Convolutions are measured at the first run, guessed, or taken as they come",
            search=("EXHAUSTIVE", "HEURISTIC"),
        ),
    ] = "EXHAUSTIVE"
    cudnn_conv_use_max_workspace: Annotated[
        bool, about("Convolutions may take as much memory as they like; else 32 MiB")
    ] = True
    cudnn_conv1d_pad_to_nc1d: Annotated[
        bool, about("How convolutions over one axis are padded to two", search=(False, True))
    ] = False
    do_copy_in_default_stream: Annotated[
        bool, about("Copies wait for the kernels before them; false may be faster, and may race")
    ] = True
    use_tf32: Annotated[
        bool, about("Products of float32 with 19 bits, from Ampere on; false is exact", search=(True, False))
    ] = True
    prefer_nhwc: Annotated[
        bool, about("Convolutions with the channels last, as tensor cores want them", search=(False, True))
    ] = False
    fuse_conv_bias: Annotated[bool, about("A convolution and its bias in one call of cuDNN")] = False
    sdpa_kernel: Annotated[
        Count, about("Which kernels attention may use, as bits; 0 is the runtime's own choice")
    ] = 0
    enable_cuda_graph: Annotated[
        bool,
        about(
            "Kernels are recorded once for each shape and replayed, which spares launching them one by one; the "
            "whole model must run on the GPU",
            search=(False, True),
        ),
    ] = False
    enable_skip_layer_norm_strict_mode: Annotated[
        bool, about("SkipLayerNormalization sums in float32: more exact, slower")
    ] = False
    tunable_op_enable: Annotated[bool, about("Uses kernels that were found by tuning")] = False
    tunable_op_tuning_enable: Annotated[bool, about("Tunes kernels while it runs")] = False
    tunable_op_max_tuning_duration_ms: Annotated[
        Count, about("The longest that a kernel is tuned; 0 is no limit")
    ] = 0
    use_ep_level_unified_stream: Annotated[bool, about("All kernels of a session in one stream")] = False


def memory(options: CudaOptions) -> Memory | None:
    """A graph replays on fixed addresses, so it cannot do without."""
    wanted = options.io_binding or options.enable_cuda_graph
    return Memory("cuda", options.device_id) if wanted else None


PROVIDER = Provider(
    name="onnxruntime-cuda",
    title="ONNX Runtime, CUDA",
    key=CUDA,
    options=CudaOptions,
    distributions=("onnxruntime-gpu",),
    systems=("Linux", "Windows"),
    extra="cuda",
    missing=gpu_missing,
    memory=memory,
    gpu=lambda options: int(options.device_id),
    graph=lambda options: bool(options.enable_cuda_graph),
    prepare=load_libraries,
)
BACKEND = backend_of(PROVIDER)
