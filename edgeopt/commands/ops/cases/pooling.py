"""Pooling."""

from collections.abc import Iterator

from edgeopt.commands.ops.case import ALL, FLOATS, Attributes, Case, Precision, fed, spread
from edgeopt.commands.ops.cases.sizes import IMAGES

_Row = tuple[str, str, Attributes, tuple[Precision, ...]]

# Smaller: some runtimes take thirty times as long for these.
_DILATED = ((1, 16, 14, 14), (1, 32, 28, 28), (1, 64, 56, 56))

_ROWS: tuple[_Row, ...] = (
    ("MaxPool", "2x2", {"kernel_shape": (2, 2), "strides": (2, 2)}, ALL),
    ("MaxPool", "3x3 padded", {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}, ALL),
    ("MaxPool", "3x3 ceil", {"kernel_shape": (3, 3), "strides": (2, 2), "ceil_mode": 1}, FLOATS),
    ("MaxPool", "3x3 dilated", {"kernel_shape": (3, 3), "dilations": (2, 2)}, FLOATS),
    ("MaxPool", "5x5 wide", {"kernel_shape": (5, 5), "strides": (1, 1), "pads": (2, 2, 2, 2)}, FLOATS),
    ("AveragePool", "2x2", {"kernel_shape": (2, 2), "strides": (2, 2)}, ALL),
    ("AveragePool", "3x3 padded", {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}, FLOATS),
    (
        "AveragePool",
        "3x3 pads count",
        {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1), "count_include_pad": 1},
        FLOATS,
    ),
    ("GlobalAveragePool", "", {}, ALL),
    ("GlobalMaxPool", "", {}, FLOATS),
)


def _cases() -> Iterator[Case]:
    for operator, variant, attributes, precisions in _ROWS:
        ports = [[fed(*shape)] for shape in (_DILATED if "dilations" in attributes else IMAGES)]
        keeps = operator == "MaxPool"
        yield from spread(operator, ports, variant, precisions, attributes, keeps_scale=keeps)


CASES: tuple[Case, ...] = tuple(_cases())
