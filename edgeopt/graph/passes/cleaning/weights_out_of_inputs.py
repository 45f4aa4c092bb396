"""Old exporters list every weight as an input too; runtimes then may not treat it as constant."""

from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import Notes, Pass, PassContext, PassResult, plural

if TYPE_CHECKING:
    import onnx_ir as ir

FIRST_WITHOUT = 4  # before this IR version every weight had to be an input


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    """Takes weights out of the inputs of the main graph."""
    model, notes = context.copy(model), Notes()
    inputs = model.graph.inputs
    weights = [value for value in inputs if value.is_initializer()]
    if weights and len(weights) == len(inputs):
        notes.refuse("every input has a default value; without them the model would have no inputs")
    elif weights:
        kept = [value for value in inputs if not value.is_initializer()]
        inputs.clear()
        inputs.extend(kept)
        model.ir_version = max(model.ir_version, FIRST_WITHOUT)
        notes.did(f"made {plural(len(weights), 'weight')} constant", *(str(w.name) for w in weights))
    return notes.result(model)


PASS = Pass("weights-out-of-inputs", "weights that are listed as inputs become constants", apply)
