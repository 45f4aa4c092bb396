"""What each backend computes in few bits, and how it wants that written."""

from dataclasses import dataclass
from typing import Literal

Style = Literal["through", "inputs", "none"]


@dataclass(frozen=True, slots=True)
class BackendRules:
    """How quantized products are written for a backend."""

    backend: str
    style: Style
    """Through: a product's input and result, and what lies between products, in eight bits. Inputs: only what
    products read. None: it has no product in eight bits."""
    symmetric: bool = False
    """Zero is the middle of an activation's type."""
    signed: bool = False
    """Activations are int8 whatever the settings say."""
    everywhere: bool = False
    """Floats are slow there, or not at all: all that lies between is rounded, inputs and outputs too."""
    transposed: bool = True
    """Whether transposed convolutions are computed in eight bits."""
    sixteen: bool = True
    """Whether it rounds activations to sixteen bits, if only to compute with floats."""


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
    # OpenVINO removes pairs of sixteen bits on CPUs: a result there says nothing of other runtimes.
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
