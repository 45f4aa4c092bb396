"""Which node makes each tensor, and which nodes read it: where the names among a node's details lead."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from edgeopt.graph.analysis import NodeRow

_MADE, _READ = "made by", "read by"


@dataclass(slots=True)
class Links:
    """By name of the tensor, the positions of nodes."""

    makers: dict[str, int] = field(default_factory=dict)
    readers: dict[str, list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, nodes: Sequence[NodeRow]) -> "Links":
        links = cls()
        for node in nodes:
            for tensor in node.outputs:
                if tensor.name:
                    links.makers[tensor.name] = node.position
            for name in dict.fromkeys(tensor.name for tensor in node.inputs if tensor.name):
                links.readers.setdefault(name, []).append(node.position)
        return links

    def of_input(self, name: str) -> str:
        """The link to the node that makes it; "" for weights and inputs of the model."""
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
