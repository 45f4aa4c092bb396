"""Chance in how a process begins: the lengths of its arguments and of its environment.

Both lie above the stack, and Python copies both to the heap. The kernel's own chance moves the heap by whole pages
and the stack by 16 bytes, so where arrays begin within a line of the cache is the same in every process of one
program, one environment and one model. A model that is lucky there would be lucky in all its processes, and no
number of them would show it.
"""

from random import Random
from typing import NamedTuple

VARIABLE = "EDGEOPT_PADDING"
# Any number of bytes below: moves pages, lines of the cache, and places within a line.
_ENVIRONMENT_BYTES, _ARGUMENT_BYTES = 8192, 1024


class Padding(NamedTuple):
    """What a process is given beside what it needs."""

    environment_bytes: int = 0
    argument_bytes: int = 0

    def arguments(self) -> list[str]:
        """One more, after all others; nobody reads it."""
        return ["." * self.argument_bytes]

    def environment(self) -> dict[str, str]:
        return {VARIABLE: "." * self.environment_bytes}


UNPADDED = Padding()


def chance(seed: int | None = None) -> Random:
    """What paddings are drawn from; without a seed nobody can say what they will be."""
    return Random(seed)  # noqa: S311 - luck, and no secret


def draw(random: Random) -> Padding:
    """For one process; the next one draws again."""
    return Padding(random.randrange(_ENVIRONMENT_BYTES), random.randrange(_ARGUMENT_BYTES))
