"""All cases, one file a family; a new operator is a row here."""

from edgeopt.commands.ops.case import Case
from edgeopt.commands.ops.cases import (
    attention,
    convolution,
    elementwise,
    matrix,
    normalization,
    pooling,
    quantized,
    recurrent,
    reduction,
    shape,
)

FAMILIES: tuple[tuple[str, tuple[Case, ...]], ...] = (
    ("element-wise", elementwise.CASES),
    ("matrix", matrix.CASES),
    ("convolution", convolution.CASES),
    ("pooling", pooling.CASES),
    ("normalization", normalization.CASES),
    ("reduction", reduction.CASES),
    ("shape", shape.CASES),
    ("recurrent", recurrent.CASES),
    ("attention", attention.CASES),
    ("quantized", quantized.CASES),
)
CASES: tuple[Case, ...] = tuple(case for _, cases in FAMILIES for case in cases)


def operators() -> tuple[str, ...]:
    """Every operator that has cases, in the order of the families."""
    return tuple(dict.fromkeys(case.operator for case in CASES))
