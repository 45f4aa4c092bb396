"""Whether the nodes of a model come in an order in which they can be computed; says which do not."""

from typing import Any

from edgeopt.graph.external import subgraphs

Proto = Any


def disorder(graph: Proto, outer: frozenset[str] = frozenset()) -> str | None:
    """Why a graph's nodes cannot be computed in their order, as the second half of a sentence, or None."""
    known = set(outer)
    known.update(value.name for value in graph.input)
    known.update(weight.name for weight in graph.initializer)
    known.update(weight.values.name for weight in graph.sparse_initializer)
    producers = {name: node for node in graph.node for name in node.output if name}
    for node in graph.node:
        for name in node.input:
            if name and name not in known:
                return _why(node, name, producers)
        for attribute in node.attribute:
            for inner in subgraphs(attribute):
                if reason := disorder(inner, frozenset(known)):
                    return reason
        known.update(node.output)
    lost = next((value.name for value in graph.output if value.name not in known), None)
    return f"promises the output '{lost}', which no node computes" if lost else None


def node_label(node: Proto) -> str:
    """A node by its name, or by its first output where it has none."""
    return f"{node.op_type} '{node.name or (node.output[0] if node.output else '')}'"


def _why(node: Proto, name: str, producers: dict[str, Proto]) -> str:
    if name not in producers:
        return f"reads '{name}' in {node_label(node)}, which no node, input or weight provides"
    if _depends_on(producers[name], node, producers):
        return f"has a cycle: {node_label(node)} needs '{name}', which is computed from its own output"
    return f"is not sorted: {node_label(node)} reads '{name}' before {node_label(producers[name])} computes it"


def _depends_on(node: Proto, wanted: Proto, producers: dict[str, Proto]) -> bool:
    waiting, seen = [node], {id(node)}
    while waiting:
        current = waiting.pop()
        if current is wanted:
            return True
        for name in current.input:
            producer = producers.get(name)
            if producer is not None and id(producer) not in seen:
                seen.add(id(producer))
                waiting.append(producer)
    return False
