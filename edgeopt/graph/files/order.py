"""Topological order of a model's nodes: sorts them, or explains why that is impossible."""

import heapq
from collections.abc import Iterable, Iterator
from typing import Any

from edgeopt.graph.files.tensors import subgraphs

# protobuf classes carry no types; here a GraphProto or a FunctionProto, and NodeProtos.
Proto = Any


def sort(graph: Proto) -> bool:
    """Sorts the nodes of a graph or function and its subgraphs as far as possible; returns whether it had to.

    Nodes keep their positions unless they depend on a later one.
    """
    changed = False
    for node in graph.node:
        for attribute in node.attribute:
            for inner in subgraphs(attribute):
                changed |= sort(inner)
    nodes = list(graph.node)
    order = _order(nodes)
    if order == list(range(len(nodes))):
        return changed
    # Protobuf's containers cannot be reordered in place, so all nodes are removed and added again.
    moved = [nodes[position] for position in order]
    del graph.node[:]
    graph.node.extend(moved)
    return True


def _order(nodes: list[Proto]) -> list[int]:
    """Returns a topological order of the node indices; nodes in cycles and after them come last."""
    producers = {name: place for place, node in enumerate(nodes) for name in node.output if name}
    waits_for = [
        {producers[name] for name in reads(node) if producers.get(name, place) != place}
        for place, node in enumerate(nodes)
    ]
    readers: list[list[int]] = [[] for _ in nodes]
    for place, needed in enumerate(waits_for):
        for other in needed:
            readers[other].append(place)
    missing = [len(needed) for needed in waits_for]
    ready = [place for place, count in enumerate(missing) if not count]
    order: list[int] = []
    while ready:
        place = heapq.heappop(ready)
        order.append(place)
        for reader in readers[place]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, reader)
    return [*order, *(place for place, count in enumerate(missing) if count)]


def reads(node: Proto) -> Iterator[str]:
    """Yields the names that a node reads, including those that its subgraphs read from outside."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        for inner in subgraphs(attribute):
            own = {*initial_names(inner), *(name for n in inner.node for name in n.output)}
            needed = [name for n in inner.node for name in reads(n)]
            yield from (name for name in (*needed, *(o.name for o in inner.output)) if name not in own)


def initial_names(graph: Proto) -> Iterator[str]:
    """Yields the names that exist before any node of a graph runs: inputs and weights."""
    yield from (value.name for value in graph.input)
    yield from (weight.name for weight in graph.initializer)
    yield from (weight.values.name for weight in graph.sparse_initializer)


def disorder(graph: Proto, outer: frozenset[str] = frozenset()) -> str | None:
    """Returns why a sorted graph's nodes cannot be computed, as the second half of a sentence, or None."""
    if twice := _first_repeated(weight.name for weight in graph.initializer):
        return f"contains the weight '{twice}' twice"
    if twice := _first_repeated(value.name for value in graph.input):
        return f"lists the input '{twice}' twice"
    return _disorder(graph.node, frozenset(initial_names(graph)), outer, [value.name for value in graph.output])


def function_disorder(function: Proto) -> str | None:
    """Returns why a function's nodes cannot be computed, as the second half of a sentence, or None."""
    return _disorder(function.node, frozenset(function.input), frozenset(), list(function.output))


def _disorder(
    nodes: Iterable[Proto], fixed: frozenset[str], outer: frozenset[str], outputs: list[str]
) -> str | None:
    producers = {name: node for node in nodes for name in node.output if name}
    known = {*outer, *fixed}
    made: dict[str, Proto] = {}
    for node in nodes:
        for name in node.input:
            if name and name not in known:
                return _why(node, name, producers)
        for attribute in node.attribute:
            for inner in subgraphs(attribute):
                if reason := disorder(inner, frozenset(known)):
                    return reason
        for name in node.output:
            if name in made:
                return f"computes '{name}' twice, in {node_label(made[name])} and in {node_label(node)}"
            if name in fixed:
                return f"computes '{name}' in {node_label(node)}, which is already the name of an input or weight"
            if name:
                made[name] = node
        known.update(node.output)
    lost = next((name for name in outputs if name not in known), None)
    return f"declares the output '{lost}', which no node computes" if lost is not None else None


def _first_repeated(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def node_label(node: Proto) -> str:
    """Returns a node's label: its name, else its first output."""
    return f"{node.op_type} '{node.name or (node.output[0] if node.output else '')}'"


def _why(node: Proto, name: str, producers: dict[str, Proto]) -> str:
    """Explains why a node of a sorted graph reads an undefined name: nothing computes it, or a cycle does."""
    if name not in producers:
        return f"reads '{name}' in {node_label(node)}, which no node, input or weight provides"
    if cycle := _cycle(node, producers):
        return cycle
    return f"is not sorted: {node_label(node)} reads '{name}' before {node_label(producers[name])} computes it"


def _cycle(start: Proto, producers: dict[str, Proto]) -> str | None:
    """Describes a node that needs its own output, among those that `start` depends on, or returns None."""
    done: set[int] = set()
    trail: list[tuple[Proto, Iterator[str]]] = [(start, reads(start))]
    needs: dict[int, str] = {}  # the name that each node on the path reads from the next one
    while trail:
        node, names = trail[-1]
        for name in names:
            producer = producers.get(name)
            if producer is None or id(producer) in done:
                continue
            needs[id(node)] = name
            if id(producer) in needs:
                first = needs[id(producer)]
                return (
                    f"has a cycle: {node_label(producer)} needs '{first}', which is computed from its own output"
                )
            trail.append((producer, reads(producer)))
            break
        else:
            trail.pop()
            needs.pop(id(node), None)
            done.add(id(node))
    return None


def function_cycle(functions: Iterable[Proto]) -> str | None:
    """Names the first recursive function, as the second half of a sentence, or returns None."""
    bodies = {(f.domain, f.name, f.overload): f for f in functions}
    state: dict[tuple[str, str, str], bool] = {}

    def visit(key: tuple[str, str, str]) -> str | None:
        if key in state:
            return None if state[key] else f"has a function that calls itself: '{key[1]}'"
        state[key] = False
        for node in _all_nodes(bodies[key].node):
            called = (node.domain, node.op_type, node.overload)
            if called in bodies and (reason := visit(called)):
                return reason
        state[key] = True
        return None

    return next(filter(None, map(visit, bodies)), None)


def _all_nodes(nodes: Iterable[Proto]) -> Iterator[Proto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for inner in subgraphs(attribute):
                yield from _all_nodes(inner.node)
