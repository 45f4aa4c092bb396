"""Links from tensors to their producers and readers, for the facts of a node."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from edgeopt.graph.analysis import NodeRow

_MADE, _READ = "made by", "read by"
WEIGHT = "weight "
"""Prefix of a link to the values of a weight; the name of the weight follows."""


@dataclass(slots=True)
class Links:
    """Positions of the nodes that produce and read each tensor, by the tensor's name."""

    makers: dict[str, int] = field(default_factory=dict)
    readers: dict[str, list[int]] = field(default_factory=dict)
    weights: frozenset[str] = frozenset()
    """Names of the weights that can be shown."""

    @classmethod
    def of(cls, nodes: Sequence[NodeRow], weights: Iterable[str] = ()) -> "Links":
        links = cls(weights=frozenset(weights))
        for node in nodes:
            for tensor in node.outputs:
                if tensor.name:
                    links.makers[tensor.name] = node.position
            for name in dict.fromkeys(tensor.name for tensor in node.inputs if tensor.name):
                links.readers.setdefault(name, []).append(node.position)
        return links

    def of_input(self, name: str) -> str:
        """Returns the link to the producer of an input, or to a weight; "" for inputs of the model."""
        if name in self.weights:
            return f"{WEIGHT}{name}"
        return f"{_MADE} {name}" if name in self.makers else ""

    def of_output(self, name: str) -> str:
        return f"{_READ} {name}" if name in self.readers else ""

    def positions(self, link: str) -> list[int]:
        """Returns the positions of the nodes to which a link leads."""
        for kind, found in ((_MADE, self.makers), (_READ, self.readers)):
            if link.startswith(f"{kind} "):
                there = found.get(link.removeprefix(f"{kind} "), [])
                return [there] if isinstance(there, int) else there
        return []


NO_LINKS = Links()
