"""The words that a profile may use where it names something; passes and backends have registries of their own."""

from typing import NamedTuple

from edgeopt.errors import pip_install
from edgeopt.hw.simd import NAMES as SIMD_NAMES

AUTO = "auto"
"""As `extends`: whatever target fits the device."""

ARCHITECTURES = ("x86_64", "i686", "aarch64", "armv7l", "riscv64", "ppc64le", "s390x")
SYSTEMS = ("Linux", "Darwin", "Windows")
"""As `HostFacts.os` spells them; Darwin is macOS."""
ACCELERATORS = ("gpu", "npu")

LAYOUTS = ("source",)

VARIANTS = (
    "source",
    "cleaned",
    "lowered",
    "nncf-int8",
    "nncf-transformer",
    "nncf-weights",
    "ort-int8",
    "ort-dynamic",
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

# This version runs nothing on them.
PLANNED_BACKENDS = ("onnxruntime-webgpu",)

PICTURE_LAYOUTS = ("nchw", "nhwc")
COLOUR_ORDERS = ("rgb", "bgr", "gray")
PICTURE_TYPES = ("float32", "float16", "float64", "uint8", "int8", "int32")


class RuntimeNeed(NamedTuple):
    said: str
    """What it is called in a sentence."""
    hint: str
    """How to get it."""


RUNTIME_NEEDS = {
    "onnxruntime": RuntimeNeed("ONNX Runtime", pip_install("cpu")),
    "openvino": RuntimeNeed("OpenVINO", pip_install("openvino")),
    "tensorrt": RuntimeNeed("TensorRT", "it comes from NVIDIA, with JetPack on a Jetson"),
    "CPUExecutionProvider": RuntimeNeed("ONNX Runtime's CPUExecutionProvider", pip_install("cpu")),
    "CUDAExecutionProvider": RuntimeNeed("ONNX Runtime's CUDAExecutionProvider", pip_install("cuda")),
    "TensorrtExecutionProvider": RuntimeNeed("ONNX Runtime's TensorrtExecutionProvider", pip_install("cuda")),
    "CoreMLExecutionProvider": RuntimeNeed(
        "ONNX Runtime's CoreMLExecutionProvider", f"on macOS, {pip_install('cpu')}"
    ),
    "DmlExecutionProvider": RuntimeNeed(
        "ONNX Runtime's DmlExecutionProvider", f"on Windows, {pip_install('directml')}"
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
    "CALIBRATIONS",
    "COLOUR_ORDERS",
    "INTEGER_TYPES",
    "LAYOUTS",
    "PICTURE_LAYOUTS",
    "PICTURE_TYPES",
    "PLANNED_BACKENDS",
    "RUNTIME_NEEDS",
    "SIMD_NAMES",
    "SYSTEMS",
    "VARIANTS",
    "RuntimeNeed",
]
