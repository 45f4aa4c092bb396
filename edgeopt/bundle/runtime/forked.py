"""What becomes of sessions in a process that is forked from the one that loaded them.

A fork has none of the threads of a runtime, and would read the answers of its parent's workers: so the objects
that hold these register here, and have a method for the fork.
"""

import ctypes
import os
import weakref
from typing import Protocol

from edgeopt.errors import UsageError


class ForkAware(Protocol):
    def before_fork(self) -> None:
        """In the process that forks, which goes on as it was."""

    def after_fork(self) -> None:
        """In the child: no thread but this one is there, so locks may never be released."""


_live: dict[int, weakref.ref[ForkAware]] = {}


def watch_forks(each: ForkAware) -> None:
    """Until it is dropped."""
    key = id(each)
    _live[key] = weakref.ref(each, lambda _: _live.pop(key, None))


def never_free(held: object) -> None:
    """Freeing a runtime waits for threads, which a fork does not have."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(held))


def loaded_elsewhere() -> UsageError:
    return UsageError(
        "This session was loaded before this process was forked, and its runtime does not work in a fork.",
        "Load the model in each process, after the fork, or load it with isolate=True.",
    )


def _alive() -> list[ForkAware]:
    found = [reference() for reference in tuple(_live.values())]
    return [each for each in found if each is not None]


def _before() -> None:
    for each in _alive():
        each.before_fork()


def _after_in_child() -> None:
    for each in _alive():
        each.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_child=_after_in_child)
