"""What a formula is, and how it reads its attributes."""

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from edgeopt.commands.ops.case import Attributes

Array = NDArray[Any]
Arrays = list[Array]
Formula = Callable[["Inputs", Attributes], Arrays]


class Inputs:
    """The inputs of an operator by position; those that are left out are None."""

    __slots__ = ("_arrays",)

    def __init__(self, arrays: list[Array | None]) -> None:
        self._arrays = arrays

    def __getitem__(self, position: int) -> Array:
        array = self._arrays[position]
        if array is None:
            raise LookupError(f"input {position} is left out")
        return array

    def __len__(self) -> int:
        return len(self._arrays)

    def get(self, position: int) -> Array | None:
        return self._arrays[position] if position < len(self._arrays) else None

    def axes(self, position: int) -> tuple[int, ...] | None:
        """A list of integers that is an input."""
        array = self.get(position)
        return None if array is None else tuple(int(value) for value in array)


def integer(attributes: Attributes, name: str, default: int) -> int:
    value = attributes.get(name, default)
    return value if isinstance(value, int) else default


def real(attributes: Attributes, name: str, default: float) -> float:
    value = attributes.get(name, default)
    return default if isinstance(value, (str, tuple)) else float(value)


def word(attributes: Attributes, name: str, default: str) -> str:
    value = attributes.get(name, default)
    return value if isinstance(value, str) else default


def integers(attributes: Attributes, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
    value = attributes.get(name, default)
    return tuple(int(each) for each in value) if isinstance(value, tuple) else default
