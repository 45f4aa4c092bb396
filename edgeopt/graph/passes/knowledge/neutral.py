"""Arithmetic with constants that changes nothing: x + 0, x - 0, x * 1, x / 1.

A constant is 0 or 1 only where every element is equal to it, in the type that it has: 1e-10 is not 0, and it is
what keeps a logarithm finite. It may give the result no other shape. x - 0, x * 1 and x / 1 are x to the last bit,
for infinities, NaN and -0 too. x + 0 is +0 where x is -0, so that it goes only where nothing tells these apart;
x + (-0) is x.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from edgeopt.graph.passes.base import constant, is_op
from edgeopt.graph.passes.knowledge.affine import widens
from edgeopt.graph.passes.knowledge.zero_signs import never_negative_zero, tells_zeros_apart

if TYPE_CHECKING:
    import onnx_ir as ir
    from numpy.typing import NDArray

SIGN = "adding 0 turns -0 into +0, and later nodes depend on the sign"


def arithmetic(node: "ir.Node") -> "ir.Value | str | None":
    """What the arithmetic passes on, why it does not where only the sign of a zero is in the way, or None."""
    places = (1, 0) if is_op(node, "Add", "Mul") else (1,)
    for place in places:
        x, array = node.inputs[1 - place], constant(node.inputs[place])
        if x is None or array is None or not _is_neutral(node, array) or widens(x, array):
            continue
        if (
            _makes_zeros_positive(node, array)
            and not never_negative_zero(x)
            and tells_zeros_apart(node.outputs[0])
        ):
            return SIGN
        return x
    return None


def _is_neutral(node: "ir.Node", array: "NDArray[Any]") -> bool:
    if array.dtype.kind in "OSU" or array.dtype.name.startswith("complex"):
        return False
    wanted = 0 if is_op(node, "Add", "Sub") else 1
    first = array.reshape(-1)[:1]  # large weights differ in their first number already
    return bool((first == wanted).all()) and bool((array == wanted).all())


def _makes_zeros_positive(node: "ir.Node", array: "NDArray[Any]") -> bool:
    if not is_op(node, "Add", "Sub") or array.dtype.kind in "biu":
        return False
    negative = np.signbit(array.astype(np.float64))
    return bool(negative.any() if is_op(node, "Sub") else (~negative).any())
