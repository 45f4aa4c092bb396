"""Sizes that are known in part: whole numbers, sums of products of open dimensions, or nothing at all.

A size is an int where it is known, a Sum where it follows from dimensions that are open (3·batch·heads + 1),
and None where it is known only at run time. Open dimensions are never negative.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir as ir

Product = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sum:
    """Products of open dimensions with their factors, in one order, so that equal sums are equal records."""

    terms: tuple[tuple[Product, int], ...]


Size = int | Sum | None


@dataclass(frozen=True, slots=True)
class Elements:
    """The elements of a small tensor of whole numbers, of no or of one dimension."""

    elements: tuple[Size, ...]
    scalar: bool = False

    @property
    def known(self) -> bool:
        return all(isinstance(element, int) for element in self.elements)


def dimension(value: "ir.Value", axis: int) -> Size:
    """One dimension of a value; one without a name stands for itself."""
    if value.shape is None:
        return None
    found = value.shape[axis]
    if isinstance(found, int):
        return found
    return Sum((((found.value or f"{id(value)}:{axis}",), 1),))


def shape_of(value: "ir.Value | None") -> tuple[Size, ...] | None:
    if value is None or value.shape is None:
        return None
    return tuple(dimension(value, axis) for axis in range(len(value.shape)))


def picture_may_be_empty(value: "ir.Value | None") -> bool:
    """Whether a dimension behind batch and channel is open, so that it may be 0."""
    return value is None or value.shape is None or not all(isinstance(size, int) for size in list(value.shape)[2:])


def add(a: Size, b: Size) -> Size:
    if a is None or b is None:
        return None
    terms = dict(_terms(a))
    for product, factor in _terms(b):
        terms[product] = terms.get(product, 0) + factor
    return _size(terms)


def multiply(a: Size, b: Size) -> Size:
    if 0 in {a, b} and isinstance(a, int) and isinstance(b, int):
        return 0
    if a is None or b is None:
        return None
    terms: dict[Product, int] = {}
    for first, one in _terms(a):
        for second, other in _terms(b):
            product = tuple(sorted(first + second))
            terms[product] = terms.get(product, 0) + one * other
    return _size(terms)


def subtract(a: Size, b: Size) -> Size:
    return add(a, multiply(b, -1))


def divide(a: Size, b: Size) -> Size:
    """Towards zero, as ONNX divides whole numbers; of open sizes only what goes without a rest."""
    if not isinstance(b, int) or b == 0 or a is None:
        return None
    if isinstance(a, int):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    if any(factor % b for _, factor in a.terms):
        return None
    return _size({product: factor // b for product, factor in a.terms})


def remainder(a: Size, b: Size) -> Size:
    """With the sign of the divisor, as ONNX's Mod does it unless told otherwise."""
    if not isinstance(b, int) or b == 0 or a is None:
        return None
    if isinstance(a, int):
        return a % b
    return None if any(factor % b for _, factor in a.terms) else 0


def equal(a: Size, b: Size) -> Size:
    difference = subtract(a, b)
    if isinstance(difference, int):
        return int(difference == 0)
    return 0 if _always_positive(difference) or _always_positive(multiply(difference, -1)) else None


def greater(a: Size, b: Size) -> Size:
    difference = subtract(a, b)
    if isinstance(difference, int):
        return int(difference > 0)
    if _always_positive(difference):
        return 1
    return 0 if _never_positive(difference) else None


def absolute(a: Size) -> Size:
    if isinstance(a, int):
        return abs(a)
    return a if a is not None and _never_negative(a) else None


def held(size: Size, bits: int) -> Size:
    """The size if an integer of these bits holds it, otherwise None: runtimes wrap round.

    An open dimension leaves half of the bits to its factor.
    """
    if isinstance(size, int):
        return size if -(2 ** (bits - 1)) <= size < 2 ** (bits - 1) else None
    if size is None or any(abs(factor) >= 2 ** (bits // 2 - 1) for _, factor in size.terms):
        return None
    return size


def _terms(size: int | Sum) -> tuple[tuple[Product, int], ...]:
    if isinstance(size, int):
        return (((), size),) if size else ()
    return size.terms


def _size(terms: dict[Product, int]) -> int | Sum:
    left = {product: factor for product, factor in terms.items() if factor}
    if not left:
        return 0
    if set(left) == {()}:
        return left[()]
    return Sum(tuple(sorted(left.items())))


def _never_negative(size: Size) -> bool:
    return size is not None and all(factor > 0 for _, factor in _terms(size))


def _never_positive(size: Size) -> bool:
    return size is not None and all(factor < 0 for _, factor in _terms(size))


def _always_positive(size: Size) -> bool:
    """An open dimension may be 0, so that only a positive number on its own makes the sum positive."""
    return _never_negative(size) and size is not None and dict(_terms(size)).get((), 0) > 0
