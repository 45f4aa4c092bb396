"""ONNX Runtime on any adapter with DirectX 12 under Windows, through DirectML."""

from pathlib import Path
from typing import Annotated, Literal

from edgeopt.backends.onnxruntime.backend import backend_of
from edgeopt.backends.onnxruntime.options import Count, OrtOptions
from edgeopt.backends.onnxruntime.provider import Provider, Settings
from edgeopt.backends.options import about
from edgeopt.errors import UsageError


class DirectmlOptions(OrtOptions, frozen=True):
    # The provider refuses a session with either of these set another way.
    memory_pattern: Annotated[bool, about("DirectML does without: false")] = False
    execution_mode: Annotated[Literal["sequential"], about("DirectML runs one operator at a time")] = "sequential"
    device_id: Annotated[
        Count | None, about("Which adapter, as DXGI counts them; empty goes by the preference")
    ] = None
    performance_preference: Annotated[
        Literal["default", "high_performance", "minimum_power"], about("Which adapter where there are several")
    ] = "default"
    device_filter: Annotated[Literal["gpu", "npu", "any"], about("The kind of adapter")] = "gpu"
    disable_metacommands: Annotated[
        bool, about("Without the driver's own kernels: mostly slower, on some drivers right", search=(False, True))
    ] = False


def settings(options: DirectmlOptions, _model: Path) -> Settings:
    if options.memory_pattern:
        raise UsageError(
            "The option 'memory_pattern' of onnxruntime-directml must be false.",
            "Leave it out: DirectML does without.",
        )
    return {}


PROVIDER = Provider(
    name="onnxruntime-directml",
    title="ONNX Runtime, DirectML",
    key="DmlExecutionProvider",
    options=DirectmlOptions,
    distributions=("onnxruntime-directml",),
    systems=("Windows",),
    extra="directml",
    true="true",
    false="false",
    more=settings,
)
BACKEND = backend_of(PROVIDER)
