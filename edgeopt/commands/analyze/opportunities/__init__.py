"""What could be done about a model on this device; a new kind is a file here, a line below and a test file.

A finder is `find(view) -> Iterable[Opportunity]`.
"""

from edgeopt.commands.analyze.opportunities import (
    batch,
    dynamic_shapes,
    layout,
    memory_bound,
    metadata,
    padding,
    precision,
    quantization,
    rewrites,
    weights,
)
from edgeopt.commands.analyze.opportunities.view import View
from edgeopt.graph.analysis import Opportunity

FINDERS = (
    padding.find,
    rewrites.find,
    memory_bound.find,
    quantization.find,
    precision.find,
    layout.find,
    dynamic_shapes.find,
    batch.find,
    weights.find,
    metadata.find,
)

_TRIED_BY_PLANS = frozenset({"precision", "quantization"})
_TRIED_BY_SEARCHES = _TRIED_BY_PLANS | {
    *("cheaper forms", "foldable constants", "redundant nodes", "unfused patterns", "weights as inputs"),
    *("layout", "memory-bound chains", "padding"),
}


def tried_for(evidence: object) -> frozenset[str]:
    """Kinds whose outcome a bundle has already, by what made it: naming them again would send people back."""
    from edgeopt.quant.measured.records import Quantized
    from edgeopt.search.outcome import Outcome

    if isinstance(evidence, Outcome):
        return _TRIED_BY_SEARCHES
    return _TRIED_BY_PLANS if isinstance(evidence, Quantized) else frozenset()


def find_all(view: View) -> tuple[Opportunity, ...]:
    """All of them, the largest estimated gain first; those without an estimate after them, in their own order."""
    found = [opportunity for find in FINDERS for opportunity in find(view)]
    return tuple(sorted(found, key=lambda each: 1.0 if each.gain_share is None else -each.gain_share))
