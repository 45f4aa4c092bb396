"""`--shape`: the sizes that open dimensions of a model will have, and the buckets that come of them."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod

import msgspec

from edgeopt.backends.base import TensorInfo
from edgeopt.errors import UsageError
from edgeopt.nearest import nearest

MOST_SIZES = 8
MOST_PROGRAMS = 16
_HOW = "Write seq=16:32:128 (minimum, usual, maximum) or seq=16,32,64."
# A doubling this near to a requested size gets no separate bucket.
_NEAR = 1.3
_LARGEST = 1 << 20


class Dimension(msgspec.Struct, frozen=True):
    name: str
    sizes: tuple[int, ...]
    """From small to large."""
    usual: int
    axes: dict[str, tuple[int, ...]]
    """Of the inputs that have it."""

    @property
    def between(self) -> tuple[int, ...]:
        """A size in the middle of each gap."""
        return tuple((low + high) // 2 for low, high in pairwise(self.sizes) if high - low > 1)

    def __str__(self) -> str:
        return f"{self.name}={','.join(map(str, self.sizes))}"


def read_dimensions(texts: Sequence[str], inputs: tuple[TensorInfo, ...]) -> tuple[tuple[Dimension, ...], str]:
    """What was asked for, and what was left out of it, as a sentence; raises UsageError."""
    known = open_dimensions(inputs)
    found: dict[str, Dimension] = {}
    ranges: dict[str, tuple[int, int, int]] = {}
    for text in texts:
        name, _, wanted = text.rpartition("=")
        if not name or not wanted:
            raise UsageError(f"'{text}' does not say which sizes a dimension has.", _HOW)
        if name not in known:
            raise UsageError(f"The model has no open dimension '{name}'.", _hint(name, known))
        if name in found:
            raise UsageError(f"The dimension '{name}' is named twice.", f"Give all its sizes at once. {_HOW}")
        sizes, usual = _listed(text, wanted) if ":" not in wanted else ((), 0)
        if not sizes:
            ranges[name] = _range(text, wanted)
            sizes, usual = _doublings(*ranges[name], 2), ranges[name][1]
        found[name] = Dimension(name, sizes, usual, known[name])
    asked = list(found.values())
    return _few(asked, ranges)


def open_dimensions(inputs: tuple[TensorInfo, ...]) -> dict[str, dict[str, tuple[int, ...]]]:
    """The axes of each input by the name of their dimension; those without a name are called `INPUT.AXIS`."""
    found: dict[str, dict[str, tuple[int, ...]]] = {}
    for info in inputs:
        for axis, size in enumerate(info.shape):
            if not isinstance(size, int):
                places = found.setdefault(size or f"{info.name}.{axis}", {})
                places[info.name] = (*places.get(info.name, ()), axis)
    return found


def _few(asked: list[Dimension], ranges: Mapping[str, tuple[int, int, int]]) -> tuple[tuple[Dimension, ...], str]:
    """With fewer sizes between, where all together would be too many programs."""
    made, steps = list(asked), dict.fromkeys(ranges, 2)
    while _too_many(made):
        rich = [d for d in made if d.name in ranges and len(d.sizes) > len(set(ranges[d.name]))]
        if not rich:
            raise UsageError(
                f"These are {prod(len(d.sizes) for d in made)} combinations of sizes; the maximum is "
                f"{MOST_PROGRAMS}, with {MOST_SIZES} sizes per dimension.",
                "Give fewer sizes: each combination is one program in memory.",
            )
        most = max(rich, key=lambda d: len(d.sizes))
        steps[most.name] *= 2
        fewer = _doublings(*ranges[most.name], steps[most.name])
        made[made.index(most)] = msgspec.structs.replace(most, sizes=fewer)
    told = [
        f"{d.name}: {', '.join(map(str, d.sizes))} instead of {len(before.sizes)} sizes"
        for d, before in zip(made, asked, strict=True)
        if d.sizes != before.sizes
    ]
    said = f"Sizes in between were reduced to fit {MOST_PROGRAMS} programs: {'; '.join(told)}."
    return tuple(made), said if told else ""


def _too_many(made: Sequence[Dimension]) -> bool:
    return prod(len(d.sizes) for d in made) > MOST_PROGRAMS or any(len(d.sizes) > MOST_SIZES for d in made)


def _doublings(least: int, usual: int, most: int, step: int) -> tuple[int, ...]:
    asked = {least, usual, most}
    sizes, size = set(asked), least * step
    while size < most:
        if all(max(size, one) >= _NEAR * min(size, one) for one in asked):
            sizes.add(size)
        size *= step
    return tuple(sorted(sizes))


def _range(text: str, wanted: str) -> tuple[int, int, int]:
    sizes = [_size(text, one) for one in wanted.split(":")]
    if len(sizes) != 3:
        raise UsageError(f"'{text}' has {len(sizes)} sizes; it needs three.", _HOW)
    least, usual, most = sizes
    if not least <= usual <= most:
        raise UsageError(f"'{text}' must list the minimum, usual and maximum size in this order.", _HOW)
    return least, usual, most


def _listed(text: str, wanted: str) -> tuple[tuple[int, ...], int]:
    """Sizes without a usual one: the one in the middle is used for it."""
    sizes = tuple(sorted({_size(text, one) for one in wanted.split(",")}))
    return sizes, sizes[len(sizes) // 2]


def _size(text: str, word: str) -> int:
    if not re.fullmatch(r"\d{1,7}", word.strip()) or not 1 <= int(word) <= _LARGEST:
        raise UsageError(f"In '{text}', '{word.strip()}' is not a size.", f"Give whole numbers from 1. {_HOW}")
    return int(word)


def _hint(name: str, known: Mapping[str, object]) -> str:
    if not known:
        return "All dimensions of its inputs are fixed, so it needs no buckets."
    listed = f"Its open dimensions are: {', '.join(known)}."
    hint = nearest(name, known, listed)
    return hint if hint == listed else f"{hint} {listed}"
