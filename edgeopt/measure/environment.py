"""The environment and the arguments that processes of edgeopt start with."""

import os
import sys
from pathlib import Path
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


_OUTER = "EDGEOPT_OUTER_"
"""Before the name of a variable that a child got its own of: what it was before."""
BLAS_THREADS = "OPENBLAS_NUM_THREADS"
_OURS = ("PYTHONPATH", BLAS_THREADS)


def child_environment(
    folder: Path | None, calculates: bool = True, padding: Padding | None = None
) -> dict[str, str]:
    """What a child sees; what libraries write for a while goes to the folder too, and goes with it.

    A child that does not compute with numpy gets one BLAS thread: otherwise one per core spins for a tenth
    of a second as the child starts, beside what is to be measured.
    """
    own = dict(os.environ)
    for name in _OURS:
        own.setdefault(_OUTER + name, own.get(name, ""))
    # Not the working directory, which `python -m` puts first: a numpy.py of the user's must not be imported.
    here, package = str(Path.cwd()), str(Path(__file__).resolve().parents[3])
    own["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([package, *(p for p in sys.path if p and p != here)]))
    if not calculates:
        own.setdefault(BLAS_THREADS, "1")
    if folder:
        own["TMPDIR"] = str(folder.resolve())
    # That of the process above is its own.
    own.pop(VARIABLE, None)
    if padding is not None:
        own |= padding.environment()
    return own


def outer_environment() -> dict[str, str]:
    """The user's, not that of this child: a Python of another version would import edgeopt's packages."""
    environment = dict(os.environ)
    for name in _OURS:
        outer = environment.pop(_OUTER + name, None)
        if outer is not None:
            environment.pop(name, None)
            if outer:
                environment[name] = outer
    return environment
