"""Where ONNX Runtime put the nodes of a model, as the session itself tells.

It tells nodes as they were when they were given to a provider: before the provider fused them, and without their
inputs and outputs. Those are read from the file.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from edgeopt.backends.base import Placement
from edgeopt.backends.protobuf import GRAPH, NODES, numbered_parts, opened, parts, text

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

RECORD = "session.record_ep_graph_assignment_info"
"""The session config entry without which the runtime keeps none of this."""

_INPUT, _OUTPUT, _NAME, _OPERATOR = 1, 2, 3, 4  # in NodeProto
# The runtime appends this where it took a node apart.
_TOKEN = re.compile(r"_token_\d+$")


class Node(NamedTuple):
    name: str
    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def placement(session: "InferenceSession", path: Path, wanted: str) -> Placement | None:
    """None where this version of the runtime does not tell."""
    ask = getattr(session, "get_provider_graph_assignment_info", None)
    if ask is None:
        return None
    assigned = [(group.ep_name, node.name, node.op_type) for group in ask() for node in group.get_nodes()]
    return Placement(
        wanted=wanted,
        nodes=dict(Counter(provider for provider, _, _ in assigned)),
        fallen=tuple(f"{op}: {name or 'unnamed'}" for provider, name, op in assigned if provider != wanted),
        boundaries=boundaries(file_nodes(path), assigned),
    )


def boundaries(nodes: Iterable[Node], assigned: list[tuple[str, str, str]]) -> int:
    """How often a value that one provider computed goes to another; feeds and results are not counted.

    A node without a name stands with those of its operator, where they are all in one place. What is in neither
    list, such as a folded constant, stands where its first input comes from.
    """
    by_name = {_TOKEN.sub("", name): provider for provider, name, _ in assigned if name}
    operators = defaultdict(set)
    for provider, _, operator in assigned:
        operators[operator].add(provider)
    by_operator = {operator: min(found) for operator, found in operators.items() if len(found) == 1}
    made_by: dict[str, str] = {}
    crossings = set()
    for node in nodes:
        provider = by_name.get(node.name, "") if node.name else by_operator.get(node.operator, "")
        if not provider:
            provider = next((made_by[value] for value in node.inputs if value in made_by), "")
        else:
            crossings |= {(v, provider) for v in node.inputs if made_by.get(v, provider) != provider}
        if provider:
            made_by.update(dict.fromkeys(node.outputs, provider))
    return len(crossings)


def file_nodes(path: Path) -> list[Node]:
    """The nodes of the main graph, in the order of the file, which ONNX asks to be that of running."""
    with opened(path) as data:
        found = []
        for graph in parts(data, (0, len(data)), (GRAPH,)):
            for span in parts(data, graph, (NODES,)):
                fields: dict[int, list[str]] = defaultdict(list)
                for number, begin, end in numbered_parts(data, span, (_INPUT, _OUTPUT, _NAME, _OPERATOR)):
                    fields[number].append(text(data, (begin, end)))
                name, operator = (fields[number][0] if fields[number] else "" for number in (_NAME, _OPERATOR))
                found.append(Node(name, operator, tuple(fields[_INPUT]), tuple(fields[_OUTPUT])))
        return found
