"""Matrix products."""

import numpy as np

from edgeopt.commands.ops.case import Attributes
from edgeopt.commands.ops.references.formula import Arrays, Formula, Inputs, integer, real


def _gemm(inputs: Inputs, attributes: Attributes) -> Arrays:
    left = inputs[0].T if integer(attributes, "transA", 0) else inputs[0]
    right = inputs[1].T if integer(attributes, "transB", 0) else inputs[1]
    product = real(attributes, "alpha", 1.0) * (left @ right)
    added = inputs.get(2)
    return [product if added is None else product + real(attributes, "beta", 1.0) * added]


FORMULAS: dict[str, Formula] = {
    "MatMul": lambda inputs, _: [np.matmul(inputs[0], inputs[1])],
    "Gemm": _gemm,
}
