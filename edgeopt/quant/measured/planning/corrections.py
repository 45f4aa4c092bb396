"""What makes rounding cost less, on request: weights that round together, and biases without the mean error."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec

from edgeopt.backends.base import Array
from edgeopt.data.samples import Samples
from edgeopt.events import Emit
from edgeopt.graph.ledger import Change
from edgeopt.quant.forms import FormContext
from edgeopt.quant.records import Layer

if TYPE_CHECKING:
    import onnx_ir as ir

# More samples move a mean hardly; each is a run of the model for each file that is written.
_MOST_SAMPLES = 16


@dataclass(frozen=True, slots=True)
class Corrected:
    """What is written instead of the float model and its context."""

    model: "ir.Model"
    context: FormContext
    changes: tuple[Change, ...] = ()
    biases: Mapping[str, Array] = field(default_factory=dict)


@dataclass(slots=True)
class Corrections:
    """Made of samples that calibrate; none unless asked for."""

    rounding: bool = False
    bias: bool = False
    _rounded: dict[tuple[str, bytes], dict[str, Array | None]] = field(default_factory=dict)
    """By form and settings, weights by name; None where they keep the nearest values."""

    def applied(
        self,
        model: "ir.Model",
        layers: tuple[Layer, ...],
        choices: Mapping[str, str],
        context: FormContext,
        samples: Samples,
        emit: Emit,
    ) -> Corrected:
        """For these choices."""
        found = Corrected(model, context)
        if not choices or not len(samples):
            return found
        samples = samples[range(min(len(samples), _MOST_SAMPLES))]
        if self.rounding:
            found = self._with_rounding(found, layers, choices, samples, emit)
        if self.bias:
            from edgeopt.quant.preparing.bias_correction import bias_correction

            made = bias_correction(found.model, layers, choices, found.context, samples, emit)
            found = replace(found, model=made.model, changes=(*found.changes, *made.changes), biases=made.numbers)
        return found

    def _with_rounding(
        self,
        found: Corrected,
        layers: tuple[Layer, ...],
        choices: Mapping[str, str],
        samples: Samples,
        emit: Emit,
    ) -> Corrected:
        from edgeopt.quant.preparing.rounding import rounding

        weights: dict[str, Array] = dict(found.context.weights)
        changes: list[Change] = []
        for form in dict.fromkeys(choices.values()):
            key = form, msgspec.json.encode(found.context.settings)
            mine = [layer for layer in layers if choices.get(layer.name) == form]
            known = self._rounded.setdefault(key, {})
            new = {layer.name: form for layer in mine if layer.weight and layer.weight not in known}
            if new:
                made = rounding(found.model, layers, new, found.context, samples, emit)
                known |= {layer.weight: made.weights.get(layer.weight) for layer in mine if layer.name in new}
                changes += made.changes
            weights |= {layer.weight: array for layer in mine if (array := known.get(layer.weight)) is not None}
        return Corrected(found.model, replace(found.context, weights=weights), (*found.changes, *changes))
