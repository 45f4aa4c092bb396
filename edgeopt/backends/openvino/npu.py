"""OpenVINO on the neural processor of Intel's Core Ultra; it wants static shapes (see the option `shapes`)."""

from typing import Annotated, Any, Literal

import msgspec

from edgeopt.backends.openvino.backend import Target, backend_of
from edgeopt.backends.openvino.devices import device_available
from edgeopt.backends.openvino.options import (
    Aim,
    Count,
    Hint,
    Priority,
    SharedOptions,
    chosen,
    shared_config,
)
from edgeopt.backends.options import Threads, about


class NpuOptions(SharedOptions, frozen=True):
    fallback: Annotated[
        Literal["none", "cpu"], about("'cpu': nodes that the NPU cannot run go to the processor (HETERO)")
    ] = "none"
    performance_hint: Annotated[
        Hint, about("One request as quick as possible, or four at a time", search=("latency", "throughput"))
    ] = "latency"
    precision: Annotated[Literal["", "f32", "f16"], about("What is asked for; the NPU computes in f16")] = ""
    turbo: Annotated[
        bool | None,
        about("The highest clock that the power limits allow; not for loads that last", search=(False, True)),
    ] = None
    tiles: Annotated[
        Count, about("Parts of the NPU to compile for, at most NPU_MAX_TILES; 0 is the compiler's choice")
    ] = 0
    optimization_level: Annotated[
        Annotated[int, msgspec.Meta(ge=0, le=2)] | None,
        about("Effort of the compiler; 2 looks longest for speed", search=(1, 2)),
    ] = None
    efficiency: Annotated[
        Literal["", "efficiency", "latency"],
        about(
            "With the hint 'latency': a balance of speed and power, or speed alone",
            search=("efficiency", "latency"),
        ),
    ] = ""
    compiler: Annotated[
        Literal["", "driver", "plugin", "prefer_plugin"],
        about("The driver's compiler, or the one that OpenVINO brings"),
    ] = ""
    qdq_optimization: Annotated[
        bool | None, about("For models that ONNX Runtime quantized: more rewrites, between speed and accuracy")
    ] = None
    dynamic_quantization: Annotated[bool | None, about("The compiler may quantize activations while running")] = (
        None
    )
    defer_weights_load: Annotated[bool | None, about("Weights are loaded by the first run instead of at once")] = (
        None
    )
    driver_cache: Annotated[bool, about("The driver may keep compiled models by itself")] = True
    model_priority: Annotated[Priority, about("Which model gets the device first, where several run")] = ""
    workload: Annotated[
        Literal["", "default", "efficient"], about("'efficient' runs in the background, behind others")
    ] = ""
    compile_threads: Annotated[Threads, about("Threads for loading; 0 is the runtime's own choice")] = 0


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
