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
    memory_pattern: Annotated[bool, about("Must be false for DirectML")] = False
    execution_mode: Annotated[Literal["sequential"], about("Must be sequential for DirectML")] = "sequential"
    device_id: Annotated[Count | None, about("Adapter number in DXGI's order; empty: by preference")] = None
    performance_preference: Annotated[
        Literal["default", "high_performance", "minimum_power"], about("Preferred adapter")
    ] = "default"
    device_filter: Annotated[Literal["gpu", "npu", "any"], about("Adapter type")] = "gpu"
    disable_metacommands: Annotated[
        bool,
        about(
            "Disables the driver's own kernels: usually slower, but correct on some drivers", search=(False, True)
        ),
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
