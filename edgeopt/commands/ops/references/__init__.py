"""What each operator gives, computed plainly in float64; tested against ONNX's own evaluator."""

from edgeopt.commands.ops.case import Attributes
from edgeopt.commands.ops.references import (
    attention,
    elementwise,
    matrix,
    normalization,
    quantized,
    recurrent,
    reduction,
    resize,
    shape,
    windows,
)
from edgeopt.commands.ops.references.formula import Arrays, Formula, Inputs

FORMULAS: dict[str, Formula] = {
    **elementwise.FORMULAS,
    **matrix.FORMULAS,
    **windows.FORMULAS,
    **normalization.FORMULAS,
    **reduction.FORMULAS,
    **shape.FORMULAS,
    **resize.FORMULAS,
    **recurrent.FORMULAS,
    **attention.FORMULAS,
    **quantized.FORMULAS,
}
"""By operator. A result in float64 stands for a float of the case's precision; any other type is meant."""


def compute(operator: str, inputs: Inputs, attributes: Attributes) -> Arrays:
    """All results of an operator; the formulas are exact, so pass floats as float64."""
    return FORMULAS[operator](inputs, attributes)
