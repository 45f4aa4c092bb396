"""Tasks that measure the peaks of a device, and the requests and answers of the workers that run them."""

from collections.abc import Collection, Iterator
from typing import Literal, get_args

import msgspec

from edgeopt.backends import PROCESSOR
from edgeopt.hw.device import Device

Precision = Literal["fp32", "fp16", "bf16", "int8"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
Operator = Literal["MatMul", "Conv 1x1", "Conv 3x3"]
Action = Literal["read", "copy"]
RUNTIMES = {name: name.partition("-")[0] for name in PROCESSOR}
"""The backends that are measured, with the name of the runtime in the device record."""
# Sizes of real layers (transformers of width 384 and 768, the inner stages of convolutional networks), for each
# thread. A run takes one to three milliseconds on a core of 100 GFLOP/s: short enough that some runs are disturbed
# by nothing, long enough that the overhead of starting them is small.
_LAYERS: tuple[tuple[Operator, tuple[int, ...], int], ...] = (
    ("MatMul", (192, 384), 3),
    ("Conv 3x3", (1, 256, 14), 1),
    ("Conv 1x1", (1, 256, 14), 4),
    ("MatMul", (128, 768), 2),
    ("Conv 3x3", (1, 64, 28), 2),
)
_MEMORY = "memory"
_MIN_ARRAY_BYTES = 16 * 2**20
_MAX_OF_MEMORY = 0.25


class Layers(msgspec.Struct, frozen=True, tag="layers"):
    """Equal layers in a chain, as inside a model, so that conversions at the ends cost little."""

    backend: str
    precision: Precision
    threads: int
    operator: Operator
    shape: tuple[int, ...]
    """Rows and width of a MatMul; batch, channels, and height and width of a Conv."""
    depth: int

    @property
    def title(self) -> str:
        return f"{self.operator} {'x'.join(str(size) for size in self.shape)}"


class Dispatch(msgspec.Struct, frozen=True, tag="dispatch"):
    """A model with hardly any computation, which shows the overhead of a run."""

    backend: str


class Stream(msgspec.Struct, frozen=True, tag="stream"):
    """Threads that each read or copy memory of their own."""

    level: str
    threads: int
    action: Action
    array_bytes: int
    """Size of one array in bytes; each thread has two arrays of its own."""
    way: Literal["one array", "two arrays"] = "two arrays"

    @property
    def working_set_bytes(self) -> int:
        """The bytes that one thread reads or copies."""
        return self.array_bytes * (1 if self.way == "one array" else 2)


Task = Layers | Dispatch | Stream


class Repeat(msgspec.Struct, frozen=True, tag="repeat"):
    """Request to run a task for this time, at least once; the first request also loads it and warms it up."""

    task: Task
    slice_ms: float


class Ran(msgspec.Struct, frozen=True, tag="ran"):
    """Rates by run or span: operations, bytes, or runs (for `Dispatch`) per second."""

    rates: tuple[float, ...]


def plan(device: Device, backends: tuple[str, ...]) -> tuple[list[Task], dict[str, str]]:
    """Returns the tasks, the most informative first, and reasons for memory levels that cannot be measured."""
    counts = list(dict.fromkeys((device.limits.usable_cores, 1)))
    streams, unavailable = _streams(device, counts)
    tasks: list[Task] = [Dispatch(backend) for backend in backends]
    for operator, shape, depth in _LAYERS:
        for backend in backends:
            for precision in _precisions(device, backend):
                for threads in counts:
                    sized = (shape[0] * threads, *shape[1:])
                    tasks.append(Layers(backend, precision, threads, operator, sized, depth))
    return [*streams, *tasks], unavailable


def alone(task: Task, tasks: Collection[Task]) -> Task | None:
    """Returns the same task on one core, or None if it is not among these tasks."""
    if isinstance(task, Layers):
        one = msgspec.structs.replace(task, threads=1, shape=(task.shape[0] // task.threads, *task.shape[1:]))
        return one if one in tasks else None
    if isinstance(task, Stream):
        same = (task.level, task.action, task.way)
        others = (each for each in tasks if isinstance(each, Stream) and each.threads == 1)
        return next((each for each in others if (each.level, each.action, each.way) == same), None)
    return task


def _precisions(device: Device, backend: str) -> tuple[Precision, ...]:
    """Returns fp32, int8, and the other precisions that the runtime reports for this CPU."""
    runtime = next((r for r in device.runtimes if r.name == RUNTIMES[backend]), None)
    supported = runtime.capabilities.get("CPU", ()) if runtime else ()
    more: tuple[tuple[str, Precision], ...] = (("BF16", "bf16"), ("FP16", "fp16"))
    return ("fp32", "int8", *(precision for name, precision in more if name in supported))


def _streams(device: Device, counts: list[int]) -> tuple[list[Task], dict[str, str]]:
    levels = sorted({c.level for c in device.caches if c.kind != "instruction"})
    unavailable: dict[str, str] = {}
    tasks: list[Task] = []
    if not levels:
        unavailable["peaks.memory.caches"] = "the sizes of the caches are not known"
    for threads in counts:
        inner_bytes = 0
        for level in levels:
            share = _share_bytes(device, level, threads)
            if share < 2 * inner_bytes:
                unavailable[f"peaks.memory.L{level}"] = (
                    "a core's share of it is hardly larger than the level below"
                )
                continue
            # Half of the innermost cache; a quarter of the others, which hold other data too, but more than the
            # level below.
            working_set_bytes = max(share // 4, min(share // 2, 2 * inner_bytes)) if inner_bytes else share // 2
            tasks += _level(f"L{level}", threads, working_set_bytes // 2, one_array=False)
            inner_bytes = share
        array_bytes = max(_MIN_ARRAY_BYTES, 4 * _all_caches_bytes(device)) // threads
        if 2 * array_bytes * threads > _MAX_OF_MEMORY * device.memory.usable_bytes:
            unavailable[f"peaks.{_MEMORY}.{_MEMORY}"] = "there is too little free memory to go past the caches"
            continue
        tasks += _level(_MEMORY, threads, array_bytes, one_array=True)
    return tasks, unavailable


def _level(level: str, threads: int, array_bytes: int, one_array: bool) -> Iterator[Task]:
    yield Stream(level, threads, "read", array_bytes)
    yield Stream(level, threads, "copy", array_bytes)
    if one_array:  # memory itself is read fastest in one stream, caches are in two
        yield Stream(level, threads, "read", array_bytes, "one array")


def _all_caches_bytes(device: Device) -> int:
    """Returns the bytes of all caches of one level together, for the level with the most."""
    levels = {c.level: 0 for c in device.caches}
    for cache in device.caches:
        levels[cache.level] += cache.size_bytes * cache.instances
    return max(levels.values(), default=0)


def _share_bytes(device: Device, level: int, threads: int) -> int:
    """Returns the share of a thread in the smallest cache of a level, because any core may run it; in bytes."""
    caches = [c for c in device.caches if c.level == level and c.kind != "instruction"]
    return min(c.size_bytes // min(threads, max(1, c.shared_by)) for c in caches)
