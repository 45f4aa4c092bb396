"""Exact rewrites: what the passes themselves say that they would do to this model."""

from collections.abc import Iterable

from edgeopt.commands.analyze.messages import Rewrite
from edgeopt.commands.analyze.opportunities.view import View
from edgeopt.graph.analysis import Opportunity

# They bring a model into common form, or other finders report them.
_NO_GAIN = frozenset(
    {"raise-opset", "strip-metadata", "deduplicate-weights", "dead-nodes", "name-nodes", "topological-order"}
)
_KINDS = {
    "fold-constants": ("foldable constants", "Fold constant computations"),
    "fold-shapes": ("foldable constants", "Fold shapes that are known"),
    "weights-out-of-inputs": ("weights as inputs", "Remove weights from the inputs"),
    "fusion": ("unfused patterns", ""),
    "layout": ("layout", ""),
    "algebra": ("cheaper forms", ""),
    "cleaning": ("redundant nodes", ""),
}
_REDUNDANT = ("transpose", "reshape", "cast", "identit", "no-op", "slice", "squeeze", "expand", "pad")


def find(view: View) -> Iterable[Opportunity]:
    if view.rewritten is None:
        return
    for rewrite in view.rewritten.rewrites:
        if rewrite.pass_name not in _NO_GAIN:
            yield _opportunity(view, rewrite)


def _opportunity(view: View, rewrite: Rewrite) -> Opportunity:
    kind, title = _KINDS.get(rewrite.pass_name) or _KINDS.get(rewrite.kind, ("cheaper forms", ""))
    if kind != "unfused patterns" and any(word in rewrite.pass_name for word in _REDUNDANT):
        kind = "redundant nodes"
    gone, new = len(rewrite.gone), len(rewrite.new)
    gain = view.share(view.saved_ms(rewrite.gone, rewrite.new)) if gone else None
    return Opportunity(
        kind,
        title or rewrite.title[:1].upper() + rewrite.title[1:],
        f"The pass {rewrite.pass_name} would apply: {_joined(rewrite.whats)}.",
        rewrite.nodes,
        gain,
        _basis(view, gone, new) if gain is not None else "no estimate: the gain differs between runtimes",
        view.simplify,
        # To the last bit or within a bound far below the noise of floats: rounding, either way.
        exact=True,
    )


def _basis(view: View, gone: int, new: int) -> str:
    took = f"{gone} node{'s' if gone != 1 else ''} less" + (f", {new} new" if new else "")
    return f"{took}; at most, as runtimes do some of it by themselves; {view.basis}"


def _joined(whats: tuple[str, ...], most: int = 4) -> str:
    more = f"; and {len(whats) - most} more" if len(whats) > most else ""
    return "; ".join(whats[:most]) + more
