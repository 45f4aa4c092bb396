"""One input with the ordinary values that a regime starts from."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeopt.backends.base import TensorInfo
from edgeopt.graph.feeds import Limits
from edgeopt.graph.masks import is_mask

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Filled:
    info: TensorInfo
    limits: Limits
    array: Array

    @property
    def is_mask(self) -> bool:
        """Truth values count as one: all, none and gaps are what they can be."""
        return self.limits.mask or self.array.dtype == bool or is_mask(self.info.name, self.array.ndim)

    @property
    def is_float(self) -> bool:
        # bfloat16 and the floats of 8 bits are not numpy's own types.
        return self.array.dtype.kind in "fV" or "float" in self.array.dtype.name

    @property
    def is_integer(self) -> bool:
        return self.array.dtype.kind in "iu" or self.array.dtype.name in {"int4", "uint4", "int2", "uint2"}

    @property
    def choices(self) -> Array:
        """The integers that it may hold, in order: what the graph shows, else those between the ordinary ones."""
        if self.limits.integers:
            return np.unique(np.asarray(self.limits.integers, np.int64))
        ordinary = self.array.astype(np.int64)
        return np.arange(ordinary.min(), ordinary.max() + 1) if ordinary.size else np.zeros(1, np.int64)
