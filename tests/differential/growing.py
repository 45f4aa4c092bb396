"""A graph while it grows. Each node is computed at once, so that shape and type of every value are known."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.differential.constants import EDGES, FILLS, MILD, NASTY, filled, forms
from tests.differential.interpreter import computed

MAX_ELEMENTS = 1500
FLOAT, INT64 = np.dtype(np.float32), np.dtype(np.int64)


class UnfitError(Exception):
    """Operands that an operator does not take; the step is left out."""


class Choices:
    """Decisions read from bytes; where these are at an end, all others are for what is simplest.

    A graph is a function of its bytes: Hypothesis draws and shrinks them, and a case can be kept as a few of them.
    """

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def below(self, count: int) -> int:
        width = 1 if count <= 64 else 2
        taken = self.data[self.place : self.place + width]
        self.place += width
        return int.from_bytes(taken, "big") % count


@dataclass
class Graph:
    """A graph while it grows: values with an example of each, nodes, weights."""

    choices: Choices
    random: np.random.Generator
    opset: int
    prefix: str = ""
    values: dict[str, np.ndarray] = field(default_factory=dict)
    """What later steps may read, with what it is for the first sample."""
    known: dict[str, np.ndarray] = field(default_factory=dict)
    """All values, those too that nobody should read."""
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    nasty: bool = True
    """Whether constants may be such that nothing finite comes out."""

    def number(self, low: int, high: int) -> int:
        return low + self.choices.below(high - low + 1)

    def pick(self, *choices: Any) -> Any:
        return choices[self.choices.below(len(choices))] if len(choices) > 1 else choices[0]

    def sometimes(self, one_in: int) -> bool:
        return self.choices.below(one_in) == one_in - 1

    def value(self, *ranks: int, dtype: np.dtype | type = FLOAT) -> str:
        """Some value so far of this type, of one of these ranks where any are given; later ones more often."""
        fitting = [
            name
            for name, array in self.values.items()
            if array.dtype == dtype and (not ranks or array.ndim in ranks)
        ]
        if not fitting:
            raise UnfitError
        return fitting[-1 - min(self.number(0, 2 * len(fitting)) // 3, len(fitting) - 1)]

    def like(self, name: str) -> str:
        """Another value of the same type that broadcasts with this one."""
        shape = self.shape(name)
        fitting = []
        for other, array in self.values.items():
            if array.dtype == self.known[name].dtype and _broadcast(array.shape, shape):
                fitting.append(other)
        return fitting[-1 - self.number(0, len(fitting) - 1)]

    def shape(self, name: str) -> tuple[int, ...]:
        return self.known[name].shape

    def axis(self, name: str) -> int:
        """Some axis of a value, from the front or from the back."""
        rank = len(self.shape(name))
        if not rank:
            raise UnfitError
        return self.number(0, rank - 1) - self.pick(0, rank)

    def array(self, array: Any) -> str:
        """A weight, or the output of a Constant node; one that is there already may be shared or doubled."""
        array = np.asarray(array)
        same = [n for n, a in self.weights.items() if a.dtype == array.dtype and a.tobytes() == array.tobytes()]
        same = [n for n in same if self.weights[n].shape == array.shape]
        if same and self.pick(True, False):
            return same[0]
        name = f"{self.prefix}w{len(self.weights)}_{len(self.nodes)}"
        if self.sometimes(4):
            self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array)))
        else:
            self.weights[name] = array
        self.known[name] = array
        return name

    def integers(self, *values: int) -> str:
        return self.array(np.array(values, np.int64))

    def scalar(self, number: float, dtype: np.dtype | type = np.float32) -> str:
        with np.errstate(over="ignore"):
            return self.array(np.array(number, dtype))

    def weight(self, *shape: int, low: float = -1.0, high: float = 1.0) -> str:
        """Ordinary numbers, and sometimes the nasty ones among them."""
        if self.sometimes(6):
            return self.constant(shape, low=low)
        return self.array(self.random.uniform(low, high, shape).astype(np.float32))

    def constant(self, shape: tuple[int, ...], low: float = -1.0) -> str:
        """An array of this shape, of the nasty kind; none is negative where `low` is not."""
        number = self.pick(*(NASTY if self.nasty else MILD))
        array = filled(self.random, shape, self.pick(*FILLS), number)
        return self.array(np.abs(array) if low >= 0 else array)

    def operand(self, name: str) -> str:
        """A constant that broadcasts with this value in one way or the other."""
        array = self.known[name]
        form = self.pick(*forms(array.shape))
        if array.dtype == FLOAT:
            return self.constant(form)
        if array.dtype in EDGES:
            few = self.pick(*EDGES[array.dtype])
            return self.array(np.full(form, few, array.dtype))
        return self.array(filled(self.random, form, "same", self.pick(*MILD), array.dtype.type))

    def op(self, kind: str, *inputs: str, outputs: int = 1, keep: bool = True, **more: Any) -> Any:
        """A node; unless told otherwise its results join the values that later steps may read."""
        number = len(self.nodes)
        results = [f"{self.prefix}v{number}" + (f"_{k}" if k else "") for k in range(outputs)]
        name = f"{self.prefix}{kind}_{number}" if number % 3 else ""
        node = helper.make_node(kind, list(inputs), results, name, **more)
        self.add(node, keep=keep)
        return results[0] if outputs == 1 else results

    def add(self, node: onnx.NodeProto, keep: bool = True) -> None:
        arrays = computed(
            node, [self.known[name] if name else None for name in node.input], self.opset, self.known
        )
        if arrays is None or len(arrays) < len(node.output) or any(array.size > MAX_ELEMENTS for array in arrays):
            raise UnfitError
        self.nodes.append(node)
        for result, array in zip(node.output, arrays, strict=False):
            self.known[result] = array
            if keep and array.size and not _blind(array):
                self.values[result] = array

    def step(self, grow: Callable[["Graph"], None]) -> bool:
        """Lets one step add what it adds; where its operands do not fit, all is as it was."""
        before = len(self.nodes), dict(self.weights), dict(self.values), dict(self.known)
        try:
            grow(self)
        except UnfitError:
            del self.nodes[before[0] :]
            self.weights, self.values, self.known = before[1:]
            return False
        return True


def _broadcast(one: Sequence[int], other: Sequence[int]) -> bool:
    return all(a == b or 1 in {a, b} for a, b in zip(reversed(one), reversed(other), strict=False))


def _blind(array: np.ndarray) -> bool:
    """Whether nothing can be seen any more in what reads this."""
    return array.dtype.kind == "f" and not np.isfinite(array).any()
