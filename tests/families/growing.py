"""A graph while it grows by random steps, its shapes known at every moment."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import helper, numpy_helper

MAX_ELEMENTS = 3000
Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass
class Graph:
    """A graph while it grows: values with their shapes, nodes, weights."""

    draw: Draw
    random: np.random.Generator
    opset: int
    prefix: str = ""
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    flag: str = ""
    """A boolean that only running tells."""

    def pick(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def number(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def value(self, *ranks: int) -> str | None:
        """Some value so far, of one of these ranks where any are given; later ones more often."""
        fitting = [name for name, shape in self.shapes.items() if not ranks or len(shape) in ranks]
        if not fitting:
            return None
        return fitting[-1 - min(self.number(0, 2 * len(fitting)) // 2, len(fitting) - 1)]

    def weight(self, *shape: int, low: float = -1.0, high: float = 1.0) -> str:
        return self.array(self.random.uniform(low, high, shape).astype(np.float32))

    def array(self, array: Any) -> str:
        """A weight, or the output of a Constant node; an equal one that is there already may be shared."""
        array = np.asarray(array)
        known = [n for n, a in self.weights.items() if a.dtype == array.dtype and np.array_equal(a, array)]
        if known and self.pick(True, False):
            return known[0]
        name = f"{self.prefix}w{len(self.weights) + len(self.nodes)}"
        if self.number(0, 3) == 0:
            self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array)))
        else:
            self.weights[name] = array
        return name

    def integers(self, *values: int) -> str:
        return self.array(np.array(values, np.int64))

    def op(
        self, kind: str, *inputs: str, outputs: int = 1, keep: tuple[int, ...] | None = None, **more: Any
    ) -> Any:
        """A node; with `keep` its result joins the values from which later steps choose."""
        number = len(self.nodes)
        results = [f"{self.prefix}v{number}" + (f"_{k}" if k else "") for k in range(outputs)]
        name = f"{self.prefix}{kind}_{number}" if number % 3 else ""
        self.nodes.append(helper.make_node(kind, list(inputs), results, name, **more))
        if keep is not None and np.prod(keep) <= MAX_ELEMENTS:
            self.shapes[results[0]] = tuple(int(d) for d in keep)
        return results[0] if outputs == 1 else results
