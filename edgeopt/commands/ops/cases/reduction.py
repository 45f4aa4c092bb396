"""Reductions; their axes are an input, as they are since opset 18 (ReduceSum: 13)."""

from collections.abc import Iterator

from edgeopt.commands.ops.case import Case, fed, numbers, spread
from edgeopt.commands.ops.cases.sizes import IMAGES, TOKENS


def _cases() -> Iterator[Case]:
    for operator in ("ReduceMean", "ReduceSum", "ReduceMax"):
        last = [[fed(*s), numbers(-1)] for s in TOKENS]
        yield from spread(operator, last, "last axis")
        spatial = [[fed(*s), numbers(2, 3)] for s in IMAGES]
        yield from spread(operator, spatial, "height and width", attributes={"keepdims": 0})
    channels = [[fed(*s), numbers(1)] for s in IMAGES]
    yield from spread("ReduceMean", channels, "channels")
    yield from spread("ReduceSum", [[fed(*s)] for s in TOKENS], "all", attributes={"keepdims": 0})
    yield from spread("ReduceL2", [[fed(*s), numbers(-1)] for s in TOKENS], "last axis")
    yield from spread("ArgMax", [[fed(*s)] for s in TOKENS], attributes={"axis": -1, "keepdims": 0})


CASES: tuple[Case, ...] = tuple(_cases())
