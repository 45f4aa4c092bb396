"""Statistics of one tensor of one request, shared by worker and agent."""

import msgspec

STATISTICS = ("mean", "std", "min", "max", "zeros", "not_finite")
CALLED = {
    "mean": "mean",
    "std": "standard deviation",
    "min": "minimum",
    "max": "maximum",
    "zeros": "share of zeros",
    "not_finite": "share of NaN and infinity",
}
SIZE = "size_"
"""Begins the name of the statistic for the size of an axis, and the number of the axis ends it."""
MAX_TENSORS = 16
"""Most tensors of a model that are watched, the inputs first."""


class TensorStatistic(msgspec.Struct, frozen=True):
    """One number of each request."""

    tensor: str
    output: bool
    statistic: str

    @property
    def title(self) -> str:
        called = CALLED.get(self.statistic) or f"size of axis {self.statistic.removeprefix(SIZE)}"
        return f"The {called} of the {'output' if self.output else 'input'} '{self.tensor}'"


class TensorFigures(msgspec.Struct, frozen=True, array_like=True):
    name: str
    output: bool
    values: tuple[float, ...]
    """The values are finite, in the order of STATISTICS; an empty tensor, and one without numbers, has none."""
    sizes: dict[int, int] = {}
    """The sizes of the open axes of an output, by the number of the axis."""

    def numbers(self) -> dict[TensorStatistic, float]:
        """Returns every number that is compared."""
        named = dict(zip(STATISTICS, self.values, strict=True)) if self.values else {}
        named |= {f"{SIZE}{axis}": float(size) for axis, size in self.sizes.items()}
        return {TensorStatistic(self.name, self.output, name): value for name, value in named.items()}
