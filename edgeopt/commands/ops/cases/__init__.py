"""All cases by family; a new operator is a row here."""

from edgeopt.commands.ops.case import Case
from edgeopt.commands.ops.cases import elementwise, layers

FAMILIES: tuple[tuple[str, tuple[Case, ...]], ...] = (
    ("element-wise", elementwise.ELEMENTWISE),
    ("matrix", layers.MATRIX),
    ("convolution", layers.CONVOLUTION),
    ("pooling", layers.POOLING),
    ("normalization", layers.NORMALIZATION),
    ("reduction", elementwise.REDUCTION),
    ("shape", elementwise.SHAPE),
    ("recurrent", layers.RECURRENT),
    ("attention", layers.ATTENTION),
    ("quantized", layers.QUANTIZED),
)
CASES: tuple[Case, ...] = tuple(case for _, cases in FAMILIES for case in cases)


def operators() -> tuple[str, ...]:
    """Every operator that has cases, in the order of the families."""
    return tuple(dict.fromkeys(case.operator for case in CASES))
