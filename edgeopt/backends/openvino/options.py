"""Options of a model compiled by OpenVINO, and those that all devices share."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from edgeopt.backends.options import Threads, about

Count = Annotated[int, msgspec.Meta(ge=0)]
Shapes = dict[str, tuple[Count, ...]]
Sizes = dict[str, tuple[Count, ...]]

Hint = Literal["latency", "throughput"]
Priority = Literal["", "low", "medium", "high"]
ExecutionMode = Annotated[
    Literal["", "performance", "accuracy"],
    about("'accuracy' keeps the model's precision; 'performance' may use fewer bits"),
]
KvCache = Annotated[
    Literal["", "u8", "f16", "bf16", "f32"],
    about("Precision of the key-value cache of attention; ignored without one"),
]
GroupSize = Annotated[
    Count | None,
    about("Group size for 8-bit activations of weight-compressed products; 0: off", search=(0, 32, 64, 128)),
]
Streams = Annotated[Count, about("Concurrent requests; 0: the runtime's default", search=(1, 2, 4))]


class SharedOptions(msgspec.Struct, frozen=True):
    """Options of every device."""

    shapes: Annotated[Shapes, about("Fixes inputs to these shapes for speed; other shapes still run, slower")] = {}
    buckets: Annotated[
        Sizes,
        about(
            "Sizes of open dimensions by name: one program per size is compiled when loading, for inputs of "
            "that size"
        ),
    ] = {}
    bucket_axes: Annotated[
        Sizes, about("For `buckets`: the input axes of each dimension, by `DIMENSION:INPUT`")
    ] = {}
    bucket_cuts: Annotated[
        Sizes,
        about(
            "For `buckets`: inputs between two sizes are padded with zeros, and these output axes are cut back, "
            "by `DIMENSION:OUTPUT`; only if proved to change nothing"
        ),
    ] = {}
    bucket_fill: Annotated[
        Sizes,
        about(
            "For `buckets`: the smallest input padded to each size; smaller ones run faster in the program with "
            "open shapes"
        ),
    ] = {}
    bucket_mask: Annotated[
        Sizes,
        about(
            "For `buckets`: the mask input and its axis: masked positions at the end are cut off down to the next "
            "size, and fully masked rows are not padded; only if proved"
        ),
    ] = {}
    cache_dir: Annotated[
        str,
        about(
            "Folder for compiled models, for faster loading; entries are identified by the model's content, so a "
            "changed file is compiled again"
        ),
    ] = ""
    cache_mode: Annotated[
        Literal["", "speed", "size"],
        about("'size' stores no weights, so the CPU compiles again each time; 'speed' is the default"),
    ] = ""
    mmap: Annotated[
        bool, about("Maps weights from their file instead of reading them, if the format allows it")
    ] = True
    execution_mode: ExecutionMode = ""


class OpenVinoOptions(SharedOptions, frozen=True):
    """Options of the CPU."""

    threads: Annotated[Threads, about("Inference threads; 0: the runtime's default", lean=1)] = 0
    performance_hint: Annotated[
        Hint, about("Optimize for latency or for throughput", search=("latency", "throughput"))
    ] = "latency"
    streams: Streams = 0
    pinning: Annotated[
        bool | None, about("Pins threads to cores; empty: the runtime's default", search=(True, False))
    ] = None
    hyper_threading: Annotated[
        bool | None, about("Uses both threads of a core; empty: the runtime's default", search=(True, False))
    ] = None
    core_type: Annotated[
        Literal["", "any", "performance", "efficiency"],
        about("Core type to use on a hybrid CPU", search=("any", "performance")),
    ] = ""
    precision: Annotated[
        Literal["", "f32", "bf16", "f16"],
        about("Inference precision, if the CPU supports it; '': the runtime's default"),
    ] = ""
    dynamic_quantization_group_size: GroupSize = None
    kv_cache_precision: KvCache = ""
    partitioner: Annotated[
        Literal["", "static", "auto"],
        about("How work is divided among threads: once, or dynamically", search=("static", "auto")),
    ] = ""
    flush_denormals: Annotated[
        bool,
        about(
            "Subnormal numbers become zero, which is faster; applies to everything that the loading thread "
            "computes from then on"
        ),
    ] = False


class Aim(NamedTuple):
    """The device and the configuration that a device's options define."""

    device: str
    """Device in OpenVINO's format: `CPU`, `GPU.1`, `AUTO:GPU,CPU`, `HETERO:GPU,CPU`."""
    required: str
    """The device that must run all nodes; `AUTO` if any may."""
    config: dict[str, Any]
    strict_config: Mapping[str, Any] = MappingProxyType({})
    """Configuration added by a strict load, so that no node can be moved to another device later."""


def cpu_aim(options: OpenVinoOptions) -> Aim:
    return Aim("CPU", "CPU", compile_config(options))


def compile_config(options: OpenVinoOptions) -> dict[str, Any]:
    return shared_config(options) | cpu_config(options) | {"PERFORMANCE_HINT": options.performance_hint.upper()}


def cpu_config(options: OpenVinoOptions) -> dict[str, Any]:
    cores = {"any": "ANY_CORE", "performance": "PCORE_ONLY", "efficiency": "ECORE_ONLY"}
    return chosen(
        INFERENCE_NUM_THREADS=options.threads or None,
        NUM_STREAMS=options.streams or None,
        ENABLE_CPU_PINNING=options.pinning,
        ENABLE_HYPER_THREADING=options.hyper_threading,
        SCHEDULING_CORE_TYPE=cores.get(options.core_type),
        INFERENCE_PRECISION_HINT=options.precision or None,
        DYNAMIC_QUANTIZATION_GROUP_SIZE=options.dynamic_quantization_group_size,
        KV_CACHE_PRECISION=options.kv_cache_precision or None,
        TBB_PARTITIONER=options.partitioner.upper() or None,
        CPU_DENORMALS_OPTIMIZATION=options.flush_denormals or None,
    )


def shared_config(options: SharedOptions) -> dict[str, Any]:
    modes = {"speed": "OPTIMIZE_SPEED", "size": "OPTIMIZE_SIZE"}
    return chosen(
        CACHE_DIR=options.cache_dir or None,
        CACHE_MODE=modes.get(options.cache_mode),
        EXECUTION_MODE_HINT=options.execution_mode.upper() or None,
    )


def chosen(**config: str | float | bool | dict[str, dict[str, int]] | None) -> dict[str, Any]:
    """Returns the entries that are not None; all others are the runtime's choice."""
    return {key: value for key, value in config.items() if value is not None}
