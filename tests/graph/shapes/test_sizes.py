import itertools
import math

import pytest

from edgeopt.graph.shapes import sizes
from edgeopt.graph.shapes.sizes import Sum

BATCH, LENGTH = (Sum((((name,), 1),)) for name in ("batch", "length"))


def value_of(size, **dims):
    """What a size is once the open dimensions are known."""
    if not isinstance(size, Sum):
        return size
    total = 0
    for product, factor in size.terms:
        total += factor * math.prod(dims[name] for name in product)
    return total


SIZES = (
    0,
    1,
    7,
    -3,
    BATCH,
    LENGTH,
    sizes.multiply(BATCH, 4),
    sizes.add(BATCH, LENGTH),
    sizes.multiply(BATCH, LENGTH),
)
OPERATIONS = {
    sizes.add: lambda a, b: a + b,
    sizes.subtract: lambda a, b: a - b,
    sizes.multiply: lambda a, b: a * b,
    sizes.divide: lambda a, b: int(a / b) if b else None,
    sizes.remainder: lambda a, b: a % b if b else None,
    sizes.equal: lambda a, b: int(a == b),
    sizes.greater: lambda a, b: int(a > b),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_is_said_of_open_sizes_holds_for_all_of_them(operation):
    said = 0
    for a, b in itertools.product(SIZES, SIZES):
        found = operation(a, b)
        if found is None:
            continue
        said += 1
        for batch, length in itertools.product((0, 1, 2, 5), (0, 1, 3)):
            dims = {"batch": batch, "length": length}
            wanted = OPERATIONS[operation](value_of(a, **dims), value_of(b, **dims))
            assert wanted is None or value_of(found, **dims) == wanted
    assert said > 15


def test_equal_sums_are_equal_however_they_came_about():
    twice = sizes.add(BATCH, BATCH)
    assert twice == sizes.multiply(2, BATCH)
    assert sizes.subtract(sizes.add(twice, LENGTH), twice) == LENGTH
    assert sizes.divide(twice, 2) == BATCH


def test_what_depends_on_more_is_not_said():
    assert sizes.divide(BATCH, 2) is None
    assert sizes.equal(BATCH, 1) is None
    assert sizes.equal(BATCH, LENGTH) is None
    assert sizes.greater(BATCH, 0) is None
    assert sizes.add(BATCH, None) is None


def test_dimensions_are_never_negative():
    assert sizes.equal(BATCH, -1) == 0
    assert sizes.greater(BATCH, -1) == 1
    assert sizes.absolute(BATCH) == BATCH
