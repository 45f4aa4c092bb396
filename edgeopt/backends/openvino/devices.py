"""OpenVINO on the CPU, on Intel's GPUs and NPUs, and on a device that it chooses, with the options of each."""

from typing import Annotated, Any, Literal

import msgspec

from edgeopt.backends.base import EightBits
from edgeopt.backends.openvino.backend import Target, backend_of
from edgeopt.backends.openvino.model import device_available, package_available
from edgeopt.backends.openvino.options import (
    Aim,
    Count,
    GroupSize,
    Hint,
    KvCache,
    OpenVinoOptions,
    Priority,
    SharedOptions,
    Streams,
    chosen,
    cpu_aim,
    shared_config,
)
from edgeopt.backends.options import Threads, about

CPU_BACKEND = backend_of(
    Target(
        "openvino-cpu",
        "OpenVINO, CPU",
        "CPU",
        OpenVinoOptions,
        cpu_aim,
        package_available,
        on_processor=True,
        eight_bits=EightBits(sixteen=False),
    )
)


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
        Literal["", "f32", "f16"], about("Inference precision; '': f16 if supported", search=("f16", "f32"))
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
    # HETERO uses the shared settings itself; settings of the GPU are passed on as properties of that device.
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


GPU_BACKEND = backend_of(
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


class NpuOptions(SharedOptions, frozen=True):
    fallback: Annotated[Literal["none", "cpu"], about("'cpu': unsupported nodes run on the CPU (HETERO)")] = "none"
    performance_hint: Annotated[
        Hint, about("Optimize for latency, or for four requests at a time", search=("latency", "throughput"))
    ] = "latency"
    precision: Annotated[Literal["", "f32", "f16"], about("Requested precision; the NPU computes in f16")] = ""
    turbo: Annotated[
        bool | None, about("Highest clock within power limits; not for sustained load", search=(False, True))
    ] = None
    tiles: Annotated[Count, about("NPU tiles to compile for, at most NPU_MAX_TILES; 0: compiler's default")] = 0
    optimization_level: Annotated[
        Annotated[int, msgspec.Meta(ge=0, le=2)] | None, about("Compiler effort; 2: most", search=(1, 2))
    ] = None
    efficiency: Annotated[
        Literal["", "efficiency", "latency"],
        about("With the hint 'latency': balanced, or speed only", search=("efficiency", "latency")),
    ] = ""
    compiler: Annotated[
        Literal["", "driver", "plugin", "prefer_plugin"], about("Compiler of the driver or of OpenVINO")
    ] = ""
    qdq_optimization: Annotated[bool | None, about("More rewrites of models quantized by ONNX Runtime")] = None
    dynamic_quantization: Annotated[bool | None, about("Allows quantizing activations at run time")] = None
    defer_weights_load: Annotated[bool | None, about("Loads weights at the first run")] = None
    driver_cache: Annotated[bool, about("Allows the driver's own model cache")] = True
    model_priority: Annotated[Priority, about("Priority over other models on the device")] = ""
    workload: Annotated[Literal["", "default", "efficient"], about("'efficient': background priority")] = ""
    compile_threads: Annotated[Threads, about("Threads for loading; 0: the runtime's default")] = 0


def npu_aim(options: NpuOptions) -> Aim:
    fallback = options.fallback == "cpu"
    own = npu_config(options)
    config = shared_config(options) | ({"DEVICE_PROPERTIES": {"NPU": own}} if fallback else own)
    return Aim("HETERO:NPU,CPU" if fallback else "NPU", "NPU", config)


def npu_config(options: NpuOptions) -> dict[str, Any]:
    level, efficiency = options.optimization_level, options.efficiency
    parameters = [
        *([] if level is None else [f"optimization-level={level}"]),
        *([f"performance-hint-override={efficiency}"] if efficiency else []),
    ]
    return {"PERFORMANCE_HINT": options.performance_hint.upper()} | chosen(
        INFERENCE_PRECISION_HINT=options.precision or None,
        NPU_TURBO=options.turbo,
        NPU_TILES=options.tiles or None,
        NPU_COMPILATION_MODE_PARAMS=" ".join(parameters) or None,
        NPU_COMPILER_TYPE=options.compiler.upper() or None,
        NPU_QDQ_OPTIMIZATION=options.qdq_optimization,
        NPU_COMPILER_DYNAMIC_QUANTIZATION=options.dynamic_quantization,
        NPU_DEFER_WEIGHTS_LOAD=options.defer_weights_load,
        NPU_BYPASS_UMD_CACHING=None if options.driver_cache else True,
        MODEL_PRIORITY=options.model_priority.upper() or None,
        WORKLOAD_TYPE=options.workload or None,
        COMPILATION_NUM_THREADS=options.compile_threads or None,
    )


NPU_BACKEND = backend_of(
    Target(
        "openvino-npu",
        "OpenVINO, NPU",
        "NPU",
        NpuOptions,
        npu_aim,
        lambda: device_available("NPU"),
        tells_times=True,
    )
)

_DEVICE = r"(CPU|GPU(\.\d+){0,2}|NPU)"


class AutoOptions(SharedOptions, frozen=True):
    devices: Annotated[
        str,
        msgspec.Meta(pattern=rf"^({_DEVICE}(,{_DEVICE})*)?$"),
        about("Devices by priority, such as 'GPU,CPU'; empty: all except the NPU"),
    ] = ""
    performance_hint: Annotated[
        Literal["latency", "throughput", "cumulative_throughput"],
        about(
            "Optimize for latency, for throughput on one device, or on all devices",
            search=("latency", "throughput"),
        ),
    ] = "latency"
    startup_fallback: Annotated[bool, about("The CPU runs the model until the chosen device has loaded it")] = True
    runtime_fallback: Annotated[bool, about("Reruns failed requests on another device")] = True
    schedule: Annotated[
        Literal["", "device_priority", "round_robin"],
        about("With 'cumulative_throughput': first device first, or round robin"),
    ] = ""
    bind_buffer: Annotated[bool | None, about("Binds buffers to requests of the device")] = None
    model_priority: Annotated[Priority, about("Priority for the better device")] = ""
    threads: Annotated[Threads, about("Threads on the CPU; 0: the runtime's default")] = 0


def auto_aim(options: AutoOptions) -> Aim:
    config = shared_config(options) | chosen(
        PERFORMANCE_HINT=options.performance_hint.upper(),
        ENABLE_STARTUP_FALLBACK=options.startup_fallback,
        ENABLE_RUNTIME_FALLBACK=options.runtime_fallback,
        SCHEDULE_POLICY=options.schedule.upper() or None,
        DEVICE_BIND_BUFFER=options.bind_buffer,
        MODEL_PRIORITY=options.model_priority.upper() or None,
        DEVICE_PROPERTIES={"CPU": {"INFERENCE_NUM_THREADS": options.threads}} if options.threads else None,
    )
    device = f"AUTO:{options.devices}" if options.devices else "AUTO"
    first = options.devices.split(",", 1)[0] or "AUTO"
    return Aim(device, first, config, {"ENABLE_STARTUP_FALLBACK": False, "ENABLE_RUNTIME_FALLBACK": False})


AUTO_BACKEND = backend_of(
    Target(
        "openvino-auto",
        "OpenVINO, a device of its own choice (AUTO)",
        "CPU",  # which it falls back to
        AutoOptions,
        auto_aim,
        package_available,
        chooses_device=True,
        eight_bits=EightBits(sixteen=False),
        tells_kernels=False,
    )
)
