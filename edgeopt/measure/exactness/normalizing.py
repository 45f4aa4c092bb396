"""The normalization that `--normalize` asks for: it comes first, because it alone changes what the model takes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from edgeopt.errors import ConstraintError, VerificationError
from edgeopt.graph.ledger import Ledger, LedgerEntry

if TYPE_CHECKING:
    from edgeopt.graph.model import Model
    from edgeopt.graph.passes import Pass, PassContext
    from edgeopt.measure.exactness.proof import SourceCheck

NORMALIZATION = "normalization-into-conv"
# They bring weights into the form that it takes.
BEFORE = (
    "weights-out-of-inputs",
    "inline-functions",
    "raise-opset",
    "fix-shapes",
    "fold-shapes",
    "fold-constants",
)


def normalized(
    model: "Model", passes: "Sequence[Pass]", context: "PassContext", check: "SourceCheck | None"
) -> "tuple[Model, Ledger]":
    """The model that normalizes its input itself; raises where that cannot be, for it was asked for."""
    from edgeopt.graph.nodes import node_count
    from edgeopt.graph.pipeline import run_pipeline

    _check_input(model, context)
    before = run_pipeline(model, passes=[one for one in passes if one.name in BEFORE], context=context)
    (wanted,) = (one for one in passes if one.name == NORMALIZATION)
    # Once, and in no rounds: done twice it would normalize twice.
    done = wanted.apply(before.model_ir, context)
    if not done.applied:
        reasons = [f"{', '.join(refusal.nodes)}: {refusal.reason}" for refusal in done.refused]
        raise ConstraintError(
            f"The normalization does not go into this model: {'; '.join(reasons) or 'nothing was to be done'}.",
            "Leave out --normalize, and normalize the input as before.",
        )
    if check is not None and (reason := check.why_wrong(done.model)) is not None:
        raise VerificationError(
            f"The model that normalizes its input itself gives other results: {reason}.",
            "Leave out --normalize, and report this case.",
        )
    entry = LedgerEntry(
        NORMALIZATION,
        applied=done.applied,
        nodes_before=node_count(before.model_ir),
        nodes_after=node_count(done.model),
        tolerance_db=wanted.tolerance_db,
    )
    return replace(model, ir=done.model), (*(each for each in before.ledger if each.applied), entry)


def _check_input(model: "Model", context: "PassContext") -> None:
    from edgeopt.errors import UsageError

    names = [str(v.name) for v in model.ir.graph.inputs if not v.is_initializer()]
    if context.normalize is not None and context.normalize.input_name not in names:
        raise UsageError(
            f"The model has no input '{context.normalize.input_name}'; its inputs are: {', '.join(names)}.",
            "Name one of these with --normalize.",
        )
