"""OpenVINO on Intel's GPUs, in the processor or beside it."""

from typing import Annotated, Any, Literal

import msgspec

from edgeopt.backends.openvino.backend import Target, backend_of
from edgeopt.backends.openvino.options import (
    Aim,
    GroupSize,
    Hint,
    KvCache,
    Priority,
    SharedOptions,
    Streams,
    chosen,
    shared_config,
)
from edgeopt.backends.openvino.placement import device_available
from edgeopt.backends.options import Threads, about


class GpuOptions(SharedOptions, frozen=True):
    device: Annotated[
        str,
        msgspec.Meta(pattern=r"^GPU(\.\d+){0,2}$"),
        about("'GPU': the first; 'GPU.1': the second; 'GPU.0.1': a tile of the first"),
    ] = "GPU"
    fallback: Annotated[Literal["none", "cpu"], about("'cpu': unsupported nodes run on the CPU (HETERO)")] = "none"
    performance_hint: Annotated[
        Hint, about("Optimize for latency or for throughput", search=("latency", "throughput"))
    ] = "latency"
    streams: Streams = 0
    precision: Annotated[
        Literal["", "f32", "f16"],
        about("Inference precision; '': f16 if supported", search=("f16", "f32")),
    ] = ""
    dynamic_quantization_group_size: GroupSize = None
    kv_cache_precision: KvCache = ""
    queue_priority: Annotated[Priority, about("Priority of the OpenCL queue")] = ""
    queue_throttle: Annotated[Priority, about("Throttling of the queue: low saves power")] = ""
    host_task_priority: Annotated[
        Priority, about("Cores for loading on a hybrid CPU: low: efficiency, high: performance")
    ] = ""
    loop_unrolling: Annotated[
        bool | None, about("Unrolls fixed-length loops: faster runs below 16 iterations, slower loading")
    ] = None
    winograd: Annotated[bool, about("Allows Winograd convolutions: faster, slightly less exact")] = True
    sdpa: Annotated[bool | None, about("Keeps attention as one node")] = None
    auto_batching: Annotated[bool | None, about("Collects requests into batches with the hint throughput")] = None
    model_priority: Annotated[Priority, about("Priority over other models on the device")] = ""
    compile_threads: Annotated[Threads, about("Threads for loading; 0: the runtime's default")] = 0


def gpu_aim(options: GpuOptions) -> Aim:
    fallback = options.fallback == "cpu"
    own = gpu_config(options)
    # HETERO takes what it knows itself and hands the rest to the device that it names.
    config = shared_config(options) | ({"DEVICE_PROPERTIES": {options.device: own}} if fallback else own)
    return Aim(f"HETERO:{options.device},CPU" if fallback else options.device, options.device, config)


def gpu_config(options: GpuOptions) -> dict[str, Any]:
    return {"PERFORMANCE_HINT": options.performance_hint.upper()} | chosen(
        NUM_STREAMS=options.streams or None,
        INFERENCE_PRECISION_HINT=options.precision or None,
        DYNAMIC_QUANTIZATION_GROUP_SIZE=options.dynamic_quantization_group_size,
        KV_CACHE_PRECISION=options.kv_cache_precision or None,
        GPU_QUEUE_PRIORITY=options.queue_priority.upper() or None,
        GPU_QUEUE_THROTTLE=options.queue_throttle.upper() or None,
        GPU_HOST_TASK_PRIORITY=options.host_task_priority.upper() or None,
        GPU_ENABLE_LOOP_UNROLLING=options.loop_unrolling,
        GPU_DISABLE_WINOGRAD_CONVOLUTION=None if options.winograd else True,
        GPU_ENABLE_SDPA_OPTIMIZATION=options.sdpa,
        ALLOW_AUTO_BATCHING=options.auto_batching,
        MODEL_PRIORITY=options.model_priority.upper() or None,
        COMPILATION_NUM_THREADS=options.compile_threads or None,
    )


BACKEND = backend_of(
    Target(
        "openvino-gpu",
        "OpenVINO, GPU",
        "GPU",
        GpuOptions,
        gpu_aim,
        lambda: device_available("GPU"),
        tells_times=True,
    )
)
