"""Rules of how each backend runs quantized models and how they must be written for it."""

from dataclasses import dataclass
from typing import Literal

Style = Literal["through", "inputs", "none"]


@dataclass(frozen=True, slots=True)
class BackendRules:
    """Rules for writing quantized products for a backend."""

    backend: str
    style: Style
    """The extent of eight bits: `through` quantizes inputs and results of products and the operations between
    them, `inputs` only the inputs of products; `none` means that the backend has no 8-bit product."""
    symmetric: bool = False
    """Whether the zero point of an activation must be the middle of its type."""
    signed: bool = False
    """Whether activations are int8 whatever the settings say."""
    everywhere: bool = False
    """Whether floats are slow or not supported, so that all operations, inputs and outputs are quantized."""
    transposed: bool = True
    """Whether transposed convolutions are computed in eight bits."""
    sixteen: bool = True
    """Whether activations are rounded to sixteen bits, even if the product computes in float."""


RULES: tuple[BackendRules, ...] = (
    BackendRules("onnxruntime-cpu", "through", transposed=False),  # there is no QLinearConvTranspose
    BackendRules(
        "onnxruntime-xnnpack", "through", transposed=False
    ),  # takes some of these nodes over from onnxruntime-cpu
    BackendRules("onnxruntime-directml", "through", transposed=False),
    # onnxruntime.ai, "QNN Execution Provider": the HTP backend runs models whose operators are all in Q/DQ pairs.
    BackendRules("onnxruntime-qnn", "through", everywhere=True),
    # docs.nvidia.com, "Working with Quantized Types": signed eight bits, symmetric; four bits for weights alone.
    BackendRules("onnxruntime-tensorrt", "inputs", symmetric=True, signed=True, sixteen=False),
    # OpenVINO removes 16-bit pairs on CPUs, so a result there does not apply to other runtimes.
    BackendRules("onnxruntime-openvino", "inputs", sixteen=False),
    BackendRules("onnxruntime-cuda", "none"),
    BackendRules("onnxruntime-coreml", "none"),
    BackendRules("openvino-cpu", "inputs", sixteen=False),
    BackendRules("openvino-gpu", "inputs"),
    BackendRules("openvino-npu", "inputs"),
    BackendRules("openvino-auto", "inputs", sixteen=False),
    BackendRules("null", "inputs"),
)


def rules_of(backend: str) -> BackendRules:
    return next((each for each in RULES if each.backend == backend), BackendRules(backend, "inputs"))
