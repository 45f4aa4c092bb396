"""Which nodes of a model stand behind each kernel that a runtime ran.

Three steps, each for what the ones before it left open:

1. Told: the runtime names a node, or gives a tensor that a node of the model gives.
2. By data flow: nodes between those and the next ones that other kernels stand for went into the same kernel.
3. Added: a kernel that stands for no node, such as one that turns the layout of a tensor, works for its readers,
   or where nothing reads it, for those who made what it reads.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from edgeopt.backends.base import Kernel
from edgeopt.measure.kernels.op_times_source import NAME, SourceNode

_NUMBERED = re.compile(re.escape(NAME).replace(r"\{\}", r"(\d+)(?!\d)"))

_RESULT = re.compile(r"\.\d+$")


@dataclass(frozen=True, slots=True)
class Members:
    """The nodes behind a kernel, by their place in the source."""

    nodes: tuple[int, ...] = ()
    own: tuple[int, ...] = ()
    """Those whose work is counted here; the others are with another kernel that stands for them too."""
    added: bool = False
    """The kernel stands for no node itself; the nodes are those that it works for."""


class _Finder:
    def __init__(self, nodes: Sequence[SourceNode]) -> None:
        self.nodes = nodes
        self.by_name: dict[str, int] = {}
        self.made_by: dict[str, int] = {}
        for place, node in reversed(list(enumerate(nodes))):
            self.by_name[node.name] = place
            for value in node.outputs:
                self.made_by[value] = place

    def told(self, kernel: Kernel) -> list[int]:
        """Lists folded constants too, although they are not the kernel's work."""
        found = [place for text in kernel.sources for place in self._named(text)]
        given = [self.made_by[value] for value in kernel.outputs if value in self.made_by]
        places = list(dict.fromkeys((*found, *given)))
        return [place for place in places if not self.nodes[place].fixed] or places

    def _named(self, text: str) -> list[int]:
        numbers = [int(number) for number in _NUMBERED.findall(text)[:1] if text.startswith(NAME[:-2])]
        if numbers:
            return [number for number in numbers if number < len(self.nodes)]
        while text:
            for known in (self.by_name, self.made_by):
                if text in known:
                    return [known[text]]
            # The end tells which part or which result it is: `conv/WithoutBiases`, `scores.0`.
            text = _RESULT.sub("", text) if _RESULT.search(text) else text.rpartition("/")[0]
        return []

    def between(self, begin: Iterable[int], taken: set[int]) -> list[int]:
        """The nodes before these that no kernel represents."""
        found: list[int] = []
        waiting = list(begin)
        while waiting:
            for value in self.nodes[waiting.pop()].reads:
                place = self.made_by.get(value)
                if place is not None and place not in taken and not self.nodes[place].fixed:
                    taken.add(place)
                    found.append(place)
                    waiting.append(place)
        return found


def members_of(kernels: Sequence[Kernel], nodes: Sequence[SourceNode]) -> list[Members]:
    """For each kernel, in the same order; empty where nothing is known."""
    finder = _Finder(nodes)
    told = [finder.told(kernel) for kernel in kernels]
    owner: dict[int, int] = {}
    for place in sorted(range(len(kernels)), key=lambda place: -kernels[place].time_ms):
        for node in told[place]:
            owner.setdefault(node, place)
            if _alike(kernels[place], nodes[node]) and not _alike(kernels[owner[node]], nodes[node]):
                owner[node] = place
    taken = set(owner)
    found = []
    for place, direct in enumerate(told):
        own = [node for node in direct if owner[node] == place]
        between = finder.between(own, taken)
        added = bool(direct) and not own
        found.append(Members(tuple(sorted({*direct, *between})), tuple(sorted({*own, *between})), added))
    return _with_own(kernels, _with_added(kernels, found))


def _alike(kernel: Kernel, node: SourceNode) -> bool:
    """Whether the kernel does what the operator says, and not what had to be done around it."""
    if kernel.operator == "FullyConnected":
        return node.operator in {"MatMul", "Gemm"}
    mine, its = kernel.operator.lower(), node.operator.lower()
    return bool(kernel.calls) and (its in mine or mine.startswith(its[:4]))


def _with_own(kernels: Sequence[Kernel], found: list[Members]) -> list[Members]:
    """Gives the nodes of what only passes tensors on to the kernel that works for it and does the same."""
    idle = {node for kernel, each in zip(kernels, found, strict=True) if not kernel.calls for node in each.own}
    for place in sorted(range(len(kernels)), key=lambda place: -kernels[place].time_ms):
        each = found[place]
        if each.added and kernels[place].calls and (own := idle & set(each.nodes)):
            found[place] = Members(each.nodes, tuple(sorted(own)))
            idle -= own
    return found


def _with_added(kernels: Sequence[Kernel], found: list[Members]) -> list[Members]:
    """Against the order of work first, so that several added ones in a row are settled in one go."""
    makers: dict[str, list[int]] = defaultdict(list)
    readers: dict[str, list[int]] = defaultdict(list)
    for place, kernel in enumerate(kernels):
        for value in kernel.outputs:
            makers[value].append(place)
        for value in kernel.reads:
            readers[value].append(place)
    found = list(found)
    for forwards, places in ((True, range(len(kernels) - 1, -1, -1)), (False, range(len(kernels)))):
        for place in places:
            if found[place].nodes:
                continue
            kernel = kernels[place]
            values, others = (kernel.outputs, readers) if forwards else (kernel.reads, makers)
            near = {node for value in values for other in others[value] for node in found[other].nodes}
            found[place] = Members(tuple(sorted(near)), (), added=bool(near))
    return found
