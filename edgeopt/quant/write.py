"""From a plan's choices to a model: each layer in its form, everything else as it was."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgeopt.errors import ModelError
from edgeopt.graph.ledger import Change
from edgeopt.quant.forms import FORMS, Form, FormContext, form_named
from edgeopt.quant.forms.flow import through
from edgeopt.quant.layers import PRODUCTS, keyed, nodes_by_key
from edgeopt.quant.records import FLOAT, Layer, Range
from edgeopt.quant.rules import rules_of
from edgeopt.quant.settings import QuantSettings

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True, slots=True)
class Trace:
    """What a model was written with, besides the choices."""

    context: FormContext


@dataclass(frozen=True, slots=True)
class Written:
    model: "ir.Model"
    changes: tuple[Change, ...]
    trace: Trace


def write(model: "ir.Model", layers: Sequence[Layer], choices: Mapping[str, str], context: FormContext) -> Written:
    """The model with the chosen forms; the one that is given stays as it is.

    Raises UsageError for an unknown layer or form, or a form that does not fit its layer, and ModelError where the
    opset that a form needs cannot be reached.
    """
    from onnx_ir.passes import common

    by_form = _by_form(layers, choices, context)
    named = model.clone()
    for key, node in list(keyed(named.graph)):
        node.name = key  # what a node is called by stays so when those around it are replaced
    changed = _raised(named, max((form.lowest_opset for form in by_form), default=0))
    changes = [change for form, chosen in by_form.items() for change in form.write(changed, chosen, context)]
    common.RemoveUnusedNodesPass()(changed)
    return Written(changed, tuple(changes), Trace(context))


def _by_form(
    layers: Sequence[Layer], choices: Mapping[str, str], context: FormContext
) -> dict[Form, tuple[Layer, ...]]:
    from edgeopt.errors import UsageError

    by_name = {layer.name: layer for layer in layers}
    for name, form in choices.items():
        if name not in by_name:
            raise UsageError(f"There is no layer '{name}' in this model.", "`edgeopt quantize` lists all of them.")
        if form != FLOAT and (reason := form_named(form).fits(by_name[name], context)):
            raise UsageError(f"The layer '{name}' cannot be {form}: {reason}.", "Leave it float.")
    chosen = {
        form: tuple(layer for layer in layers if choices.get(layer.name, FLOAT) == form.name) for form in FORMS
    }
    return {form: some for form, some in chosen.items() if some}


def _raised(model: "ir.Model", opset: int) -> "ir.Model":
    from edgeopt.graph.passes import PassContext
    from edgeopt.graph.passes.cleaning import raise_opset

    if model.opset_imports.get("", opset) >= opset:
        return model
    result = raise_opset.PASS.apply(model, PassContext(target_opset=opset))
    if result.refused:
        raise ModelError(
            f"The model cannot be raised to opset {opset}, which the scheme needs: {result.refused[0].reason}.",
            "Export it with a newer opset, or choose another scheme.",
        )
    return result.model


def tensors_wanted(
    model: "ir.Model", layers: Sequence[Layer], settings: QuantSettings, backend: str = ""
) -> tuple[str, ...]:
    """The tensors whose ranges forms may ask for, in the order of the graph: on most backends, or on this one."""
    found = nodes_by_key(model.graph)
    nodes = [
        found[key] for layer in layers if layer.operator in PRODUCTS and not layer.reason for key in layer.nodes
    ]
    if not nodes:
        return ()
    flow = through(
        nodes,
        _any_range,
        symmetric=settings.symmetric_activations,
        everywhere=rules_of(backend).everywhere,
    )
    order = [*model.graph.inputs, *(value for node in model.graph for value in node.outputs)]
    return tuple(str(value.name) for value in order if value in flow.ranges)


def _any_range(value: "ir.Value") -> Range | None:
    """A range for all that may have one: what is known to be no float has none."""
    return Range(0.0, 0.0) if value.dtype is None or value.dtype.name == "FLOAT" else None
