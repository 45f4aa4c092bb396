"""Which layers a tensor flows between, and what it costs when only one of them is float."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgeopt.quant.plan.problem import Border
from edgeopt.quant.records import Gain, Layer

if TYPE_CHECKING:
    import onnx_ir as ir


def borders(model: "ir.Model", layers: Sequence[Layer], gains: Sequence[Gain]) -> tuple[Border, ...]:
    """The `boundary_ms` of each layer, divided among the layers before and behind it.

    Operators between two layers (activations, additions) are taken to pass on what they get: a tensor is converted
    once on its way from one layer to the next, wherever that happens.
    """
    costs: dict[str, float] = {}
    for gain in gains:
        costs[gain.layer] = max(costs.get(gain.layer, 0.0), gain.boundary_ms)
    if not any(costs.values()):
        return ()
    pairs = neighbours(model, layers)
    count: dict[str, int] = {}
    for pair in pairs:
        for name in pair:
            count[name] = count.get(name, 0) + 1
    shares = ((pair, sum(costs.get(name, 0.0) / count[name] for name in pair) / 2) for pair in pairs)
    return tuple(Border(*pair, cost) for pair, cost in shares if cost > 0)


def neighbours(model: "ir.Model", layers: Sequence[Layer]) -> tuple[tuple[str, str], ...]:
    """The pairs of layers without another between them, each once, in the order of the graph."""
    from edgeopt.quant.layers import nodes_by_key

    nodes = nodes_by_key(model.graph)
    owner = {nodes[key]: layer.name for layer in layers for key in layer.nodes if key in nodes}
    reached: dict[ir.Value, frozenset[str]] = {}
    pairs: dict[tuple[str, str], None] = {}
    for node in model.graph:
        before = frozenset[str]().union(*(reached.get(v, frozenset()) for v in node.inputs if v is not None))
        name = owner.get(node)
        if name is not None:
            pairs |= {(first, name): None for first in sorted(before) if first != name}
        passed = before if name is None else frozenset({name})
        reached.update(dict.fromkeys(node.outputs, passed))
    return tuple(pairs)
