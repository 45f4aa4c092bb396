"""Forms: ways to compute a layer in fewer bits, one file each."""

from edgeopt.errors import UsageError
from edgeopt.nearest import nearest
from edgeopt.quant.schemes.base import Scheme, SchemeContext
from edgeopt.quant.schemes.halves import BF16, FP16
from edgeopt.quant.schemes.int8_dynamic import FORM as INT8_DYNAMIC
from edgeopt.quant.schemes.int8_groups import FORM as INT8_GROUPS
from edgeopt.quant.schemes.qdq import A16W8, INT8
from edgeopt.quant.schemes.weights_only import W4, W8

__all__ = ["SCHEMES", "Scheme", "SchemeContext", "form_named"]

SCHEMES: tuple[Scheme, ...] = (INT8, INT8_GROUPS, INT8_DYNAMIC, A16W8, W8, W4, FP16, BF16)


def scheme_named(name: str) -> Scheme:
    """The scheme of that name; raises UsageError if there is none."""
    for form in SCHEMES:
        if form.name == name:
            return form
    raise UsageError(f"There is no scheme '{name}'.", nearest(name, [form.name for form in SCHEMES]))
