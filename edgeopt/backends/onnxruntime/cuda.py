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
            "Binds inputs in GPU memory, one buffer per shape, and fetches only the results",
            search=(True, False),
        ),
    ] = True
    device_id: Annotated[Count, about("GPU number in CUDA's order")] = 0
    gpu_mem_limit: Annotated[Count | None, about("Maximum GPU memory of the arena, in bytes; empty: no limit")] = (
        None
    )
    arena_extend_strategy: Annotated[
        Literal["kNextPowerOfTwo", "kSameAsRequested"],
        about("Growth of the arena: faster, or with less memory"),
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
