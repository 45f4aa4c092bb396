"""Sizes of tensors as products of a number and of names; the number of rows in the batch has a name too."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

ROWS = "rows of the batch"


@dataclass(frozen=True, slots=True)
class Size:
    number: Fraction
    names: tuple[str, ...] = ()
    """Sorted; each is a size, never negative, that is the same for all rows."""

    @property
    def of_rows(self) -> bool:
        return ROWS in self.names

    @property
    def constant(self) -> int | None:
        return int(self.number) if not self.names and self.number.denominator == 1 else None

    def __mul__(self, other: "Size") -> "Size":
        return Size(self.number * other.number, tuple(sorted(self.names + other.names)))


@dataclass(frozen=True, slots=True)
class Quotient:
    size: Size
    left: tuple[str, ...]
    """Names that only the divisor has."""

    @property
    def exact(self) -> bool:
        return not self.left and self.size.number.denominator == 1


def size(number: int | Fraction) -> Size:
    return Size(Fraction(number))


ONE = size(1)
ROW_COUNT = Size(Fraction(1), (ROWS,))


def product(sizes: Iterable[Size]) -> Size:
    found = ONE
    for each in sizes:
        found = found * each
    return found


def quotient(one: Size, other: Size) -> Quotient:
    names, left = list(one.names), []
    for name in other.names:
        if name in names:
            names.remove(name)
        else:
            left.append(name)
    return Quotient(Size(one.number / other.number if other.number else Fraction(0), tuple(names)), tuple(left))
