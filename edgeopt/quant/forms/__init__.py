"""Forms: ways to compute a layer in fewer bits, one file each."""

from edgeopt.errors import UsageError
from edgeopt.nearest import nearest
from edgeopt.quant.forms.base import FormContext, Scheme
from edgeopt.quant.forms.halves import BF16, FP16
from edgeopt.quant.forms.int8_dynamic import FORM as INT8_DYNAMIC
from edgeopt.quant.forms.int8_groups import FORM as INT8_GROUPS
from edgeopt.quant.forms.qdq import A16W8, INT8
from edgeopt.quant.forms.weights_only import W4, W8

__all__ = ["FORMS", "FormContext", "Scheme", "form_named"]

FORMS: tuple[Scheme, ...] = (INT8, INT8_GROUPS, INT8_DYNAMIC, A16W8, W8, W4, FP16, BF16)


def form_named(name: str) -> Scheme:
    """The scheme of that name; raises UsageError if there is none."""
    for form in FORMS:
        if form.name == name:
            return form
    raise UsageError(f"There is no scheme '{name}'.", nearest(name, [form.name for form in FORMS]))
