"""What is measured for a device's peaks, and what measuring processes are asked and answer: one JSON line each."""

from typing import Literal, get_args

import msgspec

from edgeopt.measure.processes.failed import Failed

Precision = Literal["fp32", "fp16", "bf16", "int8"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
Operator = Literal["MatMul", "Conv 1x1", "Conv 3x3"]
Action = Literal["read", "copy"]


class Layers(msgspec.Struct, frozen=True, tag="layers"):
    """Equal layers one after the other, as inside a model: no conversion at its ends weighs much."""

    backend: str
    precision: Precision
    threads: int
    operator: Operator
    shape: tuple[int, ...]
    """MatMul: rows, width. Conv: batch, channels, height and width."""
    depth: int

    @property
    def title(self) -> str:
        return f"{self.operator} {'x'.join(str(size) for size in self.shape)}"


class Dispatch(msgspec.Struct, frozen=True, tag="dispatch"):
    """A model that computes next to nothing."""

    backend: str


class Stream(msgspec.Struct, frozen=True, tag="stream"):
    """Threads that each go through memory of their own."""

    level: str
    threads: int
    action: Action
    array_bytes: int
    """Of each array; each thread has two of its own."""
    way: Literal["one array", "two arrays"] = "two arrays"

    @property
    def working_set_bytes(self) -> int:
        """Of one thread."""
        return self.array_bytes * (1 if self.way == "one array" else 2)


Task = Layers | Dispatch | Stream


class Repeat(msgspec.Struct, frozen=True):
    """Run a task over and over for this long, at least once; the first time it is loaded and warmed up before."""

    task: Task
    slice_ms: float


class Ran(msgspec.Struct, frozen=True, tag="ran"):
    """By run: operations a second, bytes a second, or runs a second of what computes nothing."""

    rates: tuple[float, ...]


Answer = Ran | Failed

decode_run = msgspec.json.Decoder(Repeat).decode
decode_answer = msgspec.json.Decoder(Answer).decode
