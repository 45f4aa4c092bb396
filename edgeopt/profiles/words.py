"""The words that a profile may use where it names something; those of other parts are repeated here.

Importing the other parts is slow; tests compare the two.
"""

from typing import NamedTuple

from edgeopt.hw.simd import NAMES as SIMD_NAMES
from edgeopt.profiles.onnxruntime_options import ONNXRUNTIME, Kinds

AUTO = "auto"
"""As `extends`: whatever target fits the device."""

ARCHITECTURES = ("x86_64", "i686", "aarch64", "armv7l", "riscv64", "ppc64le", "s390x")
SYSTEMS = ("Linux", "Darwin", "Windows")
"""As `HostFacts.os` spells them; Darwin is macOS."""
ACCELERATORS = ("gpu", "npu")

PASSES = (
    "weights-out-of-inputs",
    "inline-functions",
    "name-nodes",
    "raise-opset",
    "fix-shapes",
    "fold-shapes",
    "fold-constants",
    "control-flow",
    "einsum-into-matmul",
    "normalization-into-conv",
    "resize-into-conv",
    "batchnorm-into-conv",
    "batchnorm-before-conv",
    "softmax",
    "layer-normalization",
    "rms-normalization",
    "rotary-embedding",
    "gelu",
    "swish",
    "hard-swish",
    "mish",
    "attention",
    "joined-products",
    "rewrite-patterns",
    "picture-order",
    "transposes",
    "constant-chains",
    "scale-into-linear",
    "pad-into-pool",
    "focus-into-conv",
    "parallel-convs",
    "transpose-into-gemm",
    "matmul-add-to-gemm",
    "global-pooling",
    "operator-forms",
    "equal-subexpressions",
    "identities",
    "skip-padding",
    "dead-nodes",
    "deduplicate-weights",
    "memory-order",
    "strip-metadata",
)
LAYOUTS = ("source",)

VARIANTS = (
    "source",
    "cleaned",
    "lowered",
    "planned",
    "int8",
    "int8-groups",
    "int8-dynamic",
    "a16w8",
    "w8",
    "w4",
    "fp16",
    "bf16",
)

INTEGER_TYPES = ("uint8", "int8")
CALIBRATIONS = ("minmax", "moving-average", "percentile", "entropy", "mse", "distribution")

BACKENDS = (
    "onnxruntime-cpu",
    "openvino-cpu",
    "onnxruntime-cuda",
    "onnxruntime-tensorrt",
    "onnxruntime-directml",
    "onnxruntime-coreml",
    "onnxruntime-openvino",
    "onnxruntime-qnn",
    "onnxruntime-xnnpack",
    "openvino-gpu",
    "openvino-npu",
    "openvino-auto",
)
# Likewise: this version runs nothing on them.
PLANNED_BACKENDS = ("onnxruntime-webgpu",)

_ONNXRUNTIME_LOWERINGS = (
    "ort-transformers",
    "ort-attention",
    "ort-gelu",
    "ort-quick-gelu",
    "ort-skip-normalization",
    "ort-lines",
    "ort-forms",
)
_OPENVINO_LOWERINGS = ("openvino-forms",)
# Rewrites into what only one runtime knows or runs faster, by the backends that run it.
LOWERINGS = {
    name: _ONNXRUNTIME_LOWERINGS if name.startswith("onnxruntime-") else _OPENVINO_LOWERINGS for name in BACKENDS
}

_PRIORITIES = ("", "low", "medium", "high")
_OPENVINO_SHARED: Kinds = {
    "cache_mode": ("", "speed", "size"),
    "mmap": bool,
    "execution_mode": ("", "performance", "accuracy"),
}
# What each value of an option must be: a type, or one of these words. Planned backends have no such table yet.
RUNTIME_OPTIONS: dict[str, Kinds] = {
    **ONNXRUNTIME,
    "openvino-cpu": {
        **_OPENVINO_SHARED,
        "threads": int,
        "performance_hint": ("latency", "throughput"),
        "streams": int,
        "pinning": bool,
        "hyper_threading": bool,
        "core_type": ("", "any", "performance", "efficiency"),
        "precision": ("", "f32", "bf16", "f16"),
        "dynamic_quantization_group_size": int,
        "kv_cache_precision": ("", "u8", "f16", "bf16", "f32"),
        "partitioner": ("", "static", "auto"),
        "flush_denormals": bool,
    },
    "openvino-gpu": {
        **_OPENVINO_SHARED,
        "fallback": ("none", "cpu"),
        "performance_hint": ("latency", "throughput"),
        "streams": int,
        "precision": ("", "f32", "f16"),
        "dynamic_quantization_group_size": int,
        "kv_cache_precision": ("", "u8", "f16", "bf16", "f32"),
        "queue_priority": _PRIORITIES,
        "queue_throttle": _PRIORITIES,
        "host_task_priority": _PRIORITIES,
        "loop_unrolling": bool,
        "winograd": bool,
        "sdpa": bool,
        "auto_batching": bool,
        "model_priority": _PRIORITIES,
        "compile_threads": int,
    },
    "openvino-npu": {
        **_OPENVINO_SHARED,
        "fallback": ("none", "cpu"),
        "performance_hint": ("latency", "throughput"),
        "precision": ("", "f32", "f16"),
        "turbo": bool,
        "tiles": int,
        "optimization_level": int,
        "efficiency": ("", "efficiency", "latency"),
        "compiler": ("", "driver", "plugin", "prefer_plugin"),
        "qdq_optimization": bool,
        "dynamic_quantization": bool,
        "defer_weights_load": bool,
        "driver_cache": bool,
        "model_priority": _PRIORITIES,
        "workload": ("", "default", "efficient"),
        "compile_threads": int,
    },
    "openvino-auto": {
        **_OPENVINO_SHARED,
        "performance_hint": ("latency", "throughput", "cumulative_throughput"),
        "startup_fallback": bool,
        "runtime_fallback": bool,
        "schedule": ("", "device_priority", "round_robin"),
        "bind_buffer": bool,
        "model_priority": _PRIORITIES,
        "threads": int,
    },
}

PICTURE_LAYOUTS = ("nchw", "nhwc")
COLOUR_ORDERS = ("rgb", "bgr", "gray")
PICTURE_TYPES = ("float32", "float16", "float64", "uint8", "int8", "int32")


class RuntimeNeed(NamedTuple):
    said: str
    """What it is called in a sentence."""
    hint: str
    """How to get it."""


RUNTIME_NEEDS = {
    "onnxruntime": RuntimeNeed("ONNX Runtime", "pip install 'edgeopt[cpu]'"),
    "openvino": RuntimeNeed("OpenVINO", "pip install 'edgeopt[openvino]'"),
    "tensorrt": RuntimeNeed("TensorRT", "it comes from NVIDIA, with JetPack on a Jetson"),
    "CPUExecutionProvider": RuntimeNeed("ONNX Runtime's CPUExecutionProvider", "pip install 'edgeopt[cpu]'"),
    "CUDAExecutionProvider": RuntimeNeed("ONNX Runtime's CUDAExecutionProvider", "pip install 'edgeopt[cuda]'"),
    "TensorrtExecutionProvider": RuntimeNeed(
        "ONNX Runtime's TensorrtExecutionProvider", "pip install 'edgeopt[cuda]'"
    ),
    "CoreMLExecutionProvider": RuntimeNeed(
        "ONNX Runtime's CoreMLExecutionProvider", "on macOS, pip install 'edgeopt[cpu]'"
    ),
    "DmlExecutionProvider": RuntimeNeed(
        "ONNX Runtime's DmlExecutionProvider", "on Windows, pip install 'edgeopt[directml]'"
    ),
    "QNNExecutionProvider": RuntimeNeed("ONNX Runtime's QNNExecutionProvider", "pip install onnxruntime-qnn"),
    "WebGpuExecutionProvider": RuntimeNeed(
        "ONNX Runtime's WebGpuExecutionProvider", "build ONNX Runtime with --use_webgpu"
    ),
    "openvino:GPU": RuntimeNeed(
        "OpenVINO's GPU device", "install OpenVINO and Intel's compute runtime (OpenCL driver)"
    ),
    "openvino:NPU": RuntimeNeed("OpenVINO's NPU device", "install OpenVINO and Intel's NPU driver"),
}

__all__ = [
    "ACCELERATORS",
    "ARCHITECTURES",
    "AUTO",
    "BACKENDS",
    "CALIBRATIONS",
    "COLOUR_ORDERS",
    "INTEGER_TYPES",
    "LAYOUTS",
    "LOWERINGS",
    "PASSES",
    "PICTURE_LAYOUTS",
    "PICTURE_TYPES",
    "PLANNED_BACKENDS",
    "RUNTIME_NEEDS",
    "RUNTIME_OPTIONS",
    "SIMD_NAMES",
    "SYSTEMS",
    "VARIANTS",
    "RuntimeNeed",
]
