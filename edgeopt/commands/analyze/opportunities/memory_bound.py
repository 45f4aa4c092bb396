"""Chains of nodes that compute little and pass everything through memory, where one fused kernel would not."""

from collections.abc import Iterable

from edgeopt import units
from edgeopt.commands.analyze.opportunities.view import View
from edgeopt.graph.analysis import NodeRow, Opportunity

_LIGHT = frozenset({"element-wise", "activation", "quantization"})
_LEAST_SHARE = 0.005
# Less never leaves the cache of a core.
_LEAST_BYTES = 64 << 10


def find(view: View) -> Iterable[Opportunity]:
    chains = list(_chains(view))
    inner = [row.outputs[0] for chain in chains for row in chain[:-1]]
    # Each is written once and read once again.
    moved = sum(2 * (view.size_bytes(tensor) or 0) for tensor in inner)
    gain = view.share(view.bytes_ms(moved)) if moved >= _LEAST_BYTES else None
    if gain is None or gain < _LEAST_SHARE:
        return
    longest = max(chains, key=len)
    yield Opportunity(
        "memory-bound chains",
        "Try a runtime that fuses chains of element-wise nodes",
        f"{len(chains)} chain{'s' if len(chains) != 1 else ''} of element-wise nodes (up to {len(longest)} long) "
        f"move{'s' if len(chains) == 1 else ''} {units.size(moved)} through memory between their nodes.",
        tuple(row.name or row.outputs[0].name for chain in chains for row in chain),
        gain,
        f"at most, if no intermediate result goes through memory; {view.basis}",
        view.optimize,
    )


def _chains(view: View) -> Iterable[list[NodeRow]]:
    outputs = {tensor.name for tensor in view.analysis.outputs}
    gone = {
        name
        for each in (view.rewritten.rewrites if view.rewritten else ())
        for n in each.gone
        for name in n.outputs
    }
    light = {
        row.outputs[0].name: row
        for row in view.rows
        if row.category in _LIGHT and len(row.outputs) == 1 and row.outputs[0].name not in gone
    }

    def next_of(row: NodeRow) -> NodeRow | None:
        name = row.outputs[0].name
        readers = view.readers.get(name, [])
        if name in outputs or len(readers) != 1:
            return None
        after = light.get(readers[0].outputs[0].name) if readers[0].outputs else None
        return after if after is not None and not readers[0].inside else None

    followers = {after.position for row in light.values() if (after := next_of(row)) is not None}
    for row in light.values():
        if row.position in followers:
            continue
        chain = [row]
        while (after := next_of(chain[-1])) is not None:
            chain.append(after)
        if len(chain) > 1:
            yield chain
