"""What can be set on an OpenVINO compiled model."""

from typing import Annotated, Any, Literal

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0)]


class OpenVinoOptions(msgspec.Struct, frozen=True):
    threads: Count = 0
    """0 is the runtime's own choice."""
    performance_hint: Literal["latency", "throughput"] = "latency"
    precision: Literal["", "f32", "bf16", "f16"] = ""
    """What the runtime computes in, where the processor can; '' is the runtime's own choice."""
    dynamic_quantization_group_size: Count | None = None
    """0 is off; None is the runtime's own choice."""
    pinning: bool | None = None
    shapes: dict[str, tuple[Count, ...]] = {}
    """Inputs fixed to these shapes for speed; feeds of other shapes still run, only slower."""


def compile_config(options: OpenVinoOptions) -> dict[str, Any]:
    config: dict[str, Any] = {"PERFORMANCE_HINT": options.performance_hint.upper()}
    if options.threads:
        config["INFERENCE_NUM_THREADS"] = options.threads
    if options.precision:
        config["INFERENCE_PRECISION_HINT"] = options.precision
    if options.dynamic_quantization_group_size is not None:
        config["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = options.dynamic_quantization_group_size
    if options.pinning is not None:
        config["ENABLE_CPU_PINNING"] = options.pinning
    return config
