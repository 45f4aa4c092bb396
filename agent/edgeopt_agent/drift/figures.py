"""What is noted of one tensor of one request; worker and agent share it."""

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
MOST_TENSORS = 16
"""Of a model are watched, the inputs first."""


class TensorFigures(msgspec.Struct, frozen=True, array_like=True):
    name: str
    output: bool
    values: tuple[float, ...]
    """In the order of STATISTICS; all are finite."""


class TensorStatistic(msgspec.Struct, frozen=True):
    """One number of each request."""

    tensor: str
    output: bool
    statistic: str

    @property
    def title(self) -> str:
        return f"The {CALLED[self.statistic]} of the {'output' if self.output else 'input'} '{self.tensor}'"
