"""Small patterns that mean something simpler, by onnxscript's matcher, each told in the user's words.

Of its rules only those are taken that are exact, and with what they leave unasked (`knowledge/guarded_rules.py`).
Left out of its default set, because they can change what a model computes: arithmetic with 0 or 1 (takes 1e-10 for
0), clips and minima (wrong where limits lie apart), Slice pairs to Split (wrong for odd sizes), automatic to
explicit padding (ignores dilations), static ScatterND (ignores the reduction), pairs of casts (may round twice).
Left out because other passes do the same with reasons: batch normalization, identities, slices of everything.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgeopt.graph.passes.base import Notes, Pass, PassContext, PassResult, adopt_orphans, label, nodes_of, quiet
from edgeopt.graph.passes.knowledge import guarded_rules as guarded
from edgeopt.graph.passes.knowledge.guarded_rules import limit_rules
from edgeopt.graph.passes.knowledge.listening import SAYS_NOTHING, WhyNot
from edgeopt.graph.passes.knowledge.merge_rules import merge_rules

if TYPE_CHECKING:
    import onnx_ir as ir

ROUNDS = 6
_WITH_BIAS = ("Conv", "ConvTranspose", "QLinearConv", "Gemm")


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A family of rules; `speaks` where a refusal is news to the user and not just "this is another node"."""

    what: str
    kinds: tuple[str, ...]
    """Its patterns hold one of these; a model that has none need not be searched."""
    rules: tuple[Any, ...]
    oldest_opset: int = 7
    speaks: bool = False


def rewrites() -> tuple[Rewrite, ...]:
    """The rules in their order, imported here because onnxscript takes half a second."""
    slices, unsqueezes, flatten, softmax, casts = merge_rules()
    extremes, clips = limit_rules()
    known_shape, two_shapes = guarded.reshape_rules()
    return (
        Rewrite("multiplied matrices without reshaping them first", ("MatMul",), guarded.product_rules()),
        Rewrite("filled tensors directly in the wanted type", ("ConstantOfShape",), guarded.filling_rules(), 9),
        Rewrite("made the shape of a Reshape constant", ("Reshape",), (known_shape,), 14, speaks=True),
        Rewrite("merged minima and maxima", ("Min", "Max"), extremes, 11, speaks=True),
        Rewrite("merged activations and clips", ("Relu", "Clip"), clips, 11, speaks=True),
        Rewrite("merged casts", ("Cast",), (casts,), 9, speaks=True),
        Rewrite("merged reshapes", ("Reshape",), (two_shapes,), 14, speaks=True),
        Rewrite("merged slices", ("Slice",), (slices,), 10, speaks=True),
        Rewrite("merged unsqueezes", ("Unsqueeze",), (unsqueezes,), 13, speaks=True),
        Rewrite("dropped the Flatten before a Reshape", ("Flatten",), (flatten,), 9, speaks=True),
        Rewrite("dropped the Flatten and the Reshape around a Softmax", ("Flatten",), (softmax,), 13, speaks=True),
        Rewrite("dropped a squeeze and its reshape", ("Squeeze",), guarded.squeeze_rules(), 13, speaks=True),
        Rewrite("dropped a scatter over everything", ("ScatterND",), guarded.scatter_rules(), 16),
        Rewrite("let the convolution pad", ("Pad",), guarded.padding_rules(), 11, speaks=True),
        Rewrite("dropped biases of zero", _WITH_BIAS, guarded.bias_rules(), 11),
    )


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    """Applies all rules until none applies any more, then asks those that have something to say why not."""
    from onnx_ir.passes import common
    from onnxscript.rewriter import RewriteRuleSet

    model, notes = context.copy(model), Notes()
    opset = model.opset_imports.get("", 1)
    rewrites_here = [r for r in rewrites() if opset >= r.oldest_opset]
    before = {node: label(node) for node in nodes_of(model)}
    kinds = {node.op_type for node in before}
    rewrites_here = [r for r in rewrites_here if kinds.intersection(r.kinds)]
    with quiet():
        for _ in range(ROUNDS):
            changed = 0
            for rewrite in rewrites_here:
                if count := RewriteRuleSet(rewrite.rules).apply_to_model(model):
                    changed += count
                    adopt_orphans(model)
                    left = {node: label(node) for node in nodes_of(model)}
                    notes.did(rewrite.what, *(name for node, name in before.items() if node not in left))
                    before = left  # in the order of the graph: that of a set would change from run to run
            if not changed:
                break
            common.RemoveUnusedNodesPass()(model)
            common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
        common.NameFixPass()(model)
        # With a tracer rules only look; a copy, because looking may still add opset imports.
        looked_at = model.clone()
        for rewrite in rewrites_here:
            if rewrite.speaks:
                RewriteRuleSet(rewrite.rules).apply_to_model(looked_at, tracer=_why_not(rewrite, notes))
    return notes.result(model)


def _why_not(rewrite: Rewrite, notes: Notes) -> WhyNot:
    def tell(reason: str, node: str) -> None:
        if reason not in SILENT:
            notes.refuse(f"not {rewrite.what}: {reason}", node)

    return WhyNot(tell)


# The first is no refusal: there is nothing left to do.
SILENT = ("Shape input is already a constant", *SAYS_NOTHING)

# A convolution that pads itself may add up in another order.
PASS = Pass("rewrite-patterns", "small patterns become simpler nodes", apply, tolerance_db=100.0)
