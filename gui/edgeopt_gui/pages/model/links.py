"""Which node makes each tensor, and which nodes read it: where the names among a node's details lead."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from edgeopt.graph.analysis import NodeRow

_MADE, _READ = "made by", "read by"
WEIGHT = "weight "
"""How a link begins that leads to what a weight holds; its name follows."""


@dataclass(slots=True)
class Links:
    """By name of the tensor, the positions of nodes."""

    makers: dict[str, int] = field(default_factory=dict)
    readers: dict[str, list[int]] = field(default_factory=dict)
    weights: frozenset[str] = frozenset()
    """Those that can be shown."""

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
        """The link to the node that makes it, or to a weight; "" for inputs of the model."""
        if name in self.weights:
            return f"{WEIGHT}{name}"
        return f"{_MADE} {name}" if name in self.makers else ""

    def of_output(self, name: str) -> str:
        return f"{_READ} {name}" if name in self.readers else ""

    def positions(self, link: str) -> list[int]:
        """The nodes to which a link leads."""
        for kind, found in ((_MADE, self.makers), (_READ, self.readers)):
            if link.startswith(f"{kind} "):
                there = found.get(link.removeprefix(f"{kind} "), [])
                return [there] if isinstance(there, int) else there
        return []


NO_LINKS = Links()
