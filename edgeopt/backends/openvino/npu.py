"""OpenVINO on the neural processor of Intel's Core Ultra; it wants static shapes (see the option `shapes`)."""

from typing import Annotated, Any, Literal

import msgspec

from edgeopt.backends.openvino.backend import Target, backend_of
from edgeopt.backends.openvino.options import (
    Aim,
    Count,
    Hint,
    Priority,
    SharedOptions,
    chosen,
    shared_config,
)
from edgeopt.backends.openvino.placement import device_available
from edgeopt.backends.options import Threads, about


class NpuOptions(SharedOptions, frozen=True):
    fallback: Annotated[Literal["none", "cpu"], about("'cpu': unsupported nodes run on the CPU (HETERO)")] = "none"
    performance_hint: Annotated[
        Hint, about("Optimize for latency, or for four requests at a time", search=("latency", "throughput"))
    ] = "latency"
    precision: Annotated[Literal["", "f32", "f16"], about("Requested precision; the NPU computes in f16")] = ""
    turbo: Annotated[
        bool | None,
        about("Highest clock within power limits; not for sustained load", search=(False, True)),
    ] = None
    tiles: Annotated[Count, about("NPU tiles to compile for, at most NPU_MAX_TILES; 0: compiler's default")] = 0
    optimization_level: Annotated[
        Annotated[int, msgspec.Meta(ge=0, le=2)] | None,
        about("Compiler effort; 2: most", search=(1, 2)),
    ] = None
    efficiency: Annotated[
        Literal["", "efficiency", "latency"],
        about(
            "With the hint 'latency': balanced, or speed only",
            search=("efficiency", "latency"),
        ),
    ] = ""
    compiler: Annotated[
        Literal["", "driver", "plugin", "prefer_plugin"],
        about("Compiler of the driver or of OpenVINO"),
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


BACKEND = backend_of(
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
