"""What can be set on an OpenVINO compiled model, and what the devices share of it."""

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
    about("'accuracy' keeps the precision of the model; 'performance' may compute in fewer bits"),
]
KvCache = Annotated[
    Literal["", "u8", "f16", "bf16", "f32"],
    about("Precision in which attention keeps its keys and values; models without such a cache ignore it"),
]
GroupSize = Annotated[
    Count | None,
    about(
        "Activations of weight-compressed products in groups of this size to eight bits; 0 is off",
        search=(0, 32, 64, 128),
    ),
]
Streams = Annotated[
    Count, about("Requests that run at the same time; 0 is the runtime's own choice", search=(1, 2, 4))
]


class SharedOptions(msgspec.Struct, frozen=True):
    """What every device takes."""

    shapes: Annotated[
        Shapes, about("Inputs fixed to these shapes for speed; feeds of other shapes still run, only slower")
    ] = {}
    buckets: Annotated[
        Sizes,
        about(
            "Sizes of open dimensions, by a name for each: a program for every size is prepared at loading, and "
            "runs the feeds of that size"
        ),
    ] = {}
    bucket_axes: Annotated[
        Sizes, about("For `buckets`: the axes of each input that a dimension is, by `DIMENSION:INPUT`")
    ] = {}
    bucket_cuts: Annotated[
        Sizes,
        about(
            "For `buckets`: inputs between two sizes are filled up with zeros, and these axes of each output are "
            "cut back, by `DIMENSION:OUTPUT`; only where that was proved to change nothing"
        ),
    ] = {}
    bucket_fill: Annotated[
        Sizes,
        about(
            "For `buckets`: for each size the least input that is filled up to it; below that, the program with "
            "open shapes is quicker and runs it"
        ),
    ] = {}
    bucket_mask: Annotated[
        Sizes,
        about(
            "For `buckets`: the input, with its axis, whose zeros leave places out: those at the end are cut off "
            "down to the next size, and rows of zeros alone are not filled up; only where that was proved, too"
        ),
    ] = {}
    cache_dir: Annotated[
        str,
        about(
            "Folder in which compiled models are kept, for quicker loading; found again by the model's content, "
            "so that a changed file is never mistaken for the old one"
        ),
    ] = ""
    cache_mode: Annotated[
        Literal["", "speed", "size"],
        about("'size' keeps no weights, which on the processor means compiling anew each time; 'speed' is usual"),
    ] = ""
    mmap: Annotated[
        bool, about("Weights are mapped from their file, where the format allows it, instead of being read")
    ] = True
    execution_mode: ExecutionMode = ""


class OpenVinoOptions(SharedOptions, frozen=True):
    """The processor's."""

    threads: Annotated[Threads, about("Threads for inference; 0 is the runtime's own choice")] = 0
    performance_hint: Annotated[
        Hint, about("One request as quick as possible, or as many as possible", search=("latency", "throughput"))
    ] = "latency"
    streams: Streams = 0
    pinning: Annotated[
        bool | None, about("Threads bound to cores; empty is the runtime's own choice", search=(True, False))
    ] = None
    hyper_threading: Annotated[
        bool | None,
        about("Both threads of a core are used; empty is the runtime's own choice", search=(True, False)),
    ] = None
    core_type: Annotated[
        Literal["", "any", "performance", "efficiency"],
        about("The cores to use on a processor with two kinds", search=("any", "performance")),
    ] = ""
    precision: Annotated[
        Literal["", "f32", "bf16", "f16"],
        about("What the runtime computes in, where the processor can; '' is the runtime's own choice"),
    ] = ""
    dynamic_quantization_group_size: GroupSize = None
    kv_cache_precision: KvCache = ""
    partitioner: Annotated[
        Literal["", "static", "auto"],
        about("How work is split among threads: once, or as they become free", search=("static", "auto")),
    ] = ""
    flush_denormals: Annotated[
        bool,
        about(
            "Numbers next to zero count as zero, which is faster; so it is from then on with all that the thread "
            "computes which loads the model"
        ),
    ] = False


class Aim(NamedTuple):
    """What a device's options come to."""

    device: str
    """As OpenVINO takes it: `CPU`, `GPU.1`, `AUTO:GPU,CPU`, `HETERO:GPU,CPU`."""
    wanted: str
    """The device that is to run all nodes; `AUTO` where any will do."""
    config: dict[str, Any]
    strict_config: Mapping[str, Any] = MappingProxyType({})
    """Added by a strict load, so that nothing can be moved elsewhere later."""


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
    """What is set; all else is left to the runtime."""
    return {key: value for key, value in config.items() if value is not None}
