"""Handling of sessions in a process that is forked from the one that loaded them.

A fork has none of the threads of a runtime, and would read the answers of its parent's workers: so the objects
that hold these register here, and have a method for the fork.
"""

import ctypes
import os
import weakref
from collections.abc import Callable, Mapping
from typing import Protocol

from edgeopt.backends.base import Array, Feeds
from edgeopt.backends.base import Session as Loaded
from edgeopt.errors import DataError, UsageError
from edgeopt.graph.import_proof import InputLimits, outside


class ForkAware(Protocol):
    def before_fork(self) -> None:
        """Prepares the parent process for the fork; the parent continues unchanged."""

    def after_fork(self) -> None:
        """Resets the object in the child, which has only this thread: locks held by others stay locked."""


_live: dict[int, weakref.ref[ForkAware]] = {}


def watch_forks(each: ForkAware) -> None:
    """Calls the object's fork methods at each fork until the object is dropped."""
    key = id(each)
    _live[key] = weakref.ref(each, lambda _: _live.pop(key, None))


def never_free(held: object) -> None:
    """Keeps an object alive for ever: freeing a runtime waits for threads, which a fork does not have."""
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


def refuse_fork(feeds: Feeds) -> dict[str, Array]:
    del feeds
    raise loaded_elsewhere()


def close_nothing() -> None:
    """The process that loaded it closes it."""


NamedRun = Callable[[Feeds | Array], dict[str, Array]]


def by_name(
    loaded: Loaded, limits: InputLimits | None = None
) -> "tuple[NamedRun, Callable[[Callable[[Feeds], dict[str, Array]]], None]]":
    """The backend's own `run`, which takes arrays by name, behind a look at the type, well below a microsecond.

    And what puts another in its place. A run outside the limits is refused.
    """
    run: Callable[[Feeds], dict[str, Array]] = loaded.run
    names = [each.name for each in loaded.inputs]

    def named(feeds: Feeds | Array) -> dict[str, Array]:
        if type(feeds) is dict or isinstance(feeds, Mapping):
            return run(feeds)
        if len(names) == 1:
            return run({names[0]: feeds})
        raise UsageError(
            f"The model has {len(names)} inputs, so each array needs a name.",
            f"Give a dict of arrays, by the names: {', '.join(names) or 'none'}.",
        )

    def limited(feeds: Feeds | Array) -> dict[str, Array]:
        arrays = feeds if isinstance(feeds, Mapping) else dict.fromkeys(names[:1], feeds)
        sentence = outside(limits or {}, {name: getattr(array, "shape", ()) for name, array in arrays.items()})
        if sentence:
            raise DataError(sentence, "Give inputs of these sizes, or import the model for others.")
        return named(feeds)

    def replace_run(other: Callable[[Feeds], dict[str, Array]]) -> None:
        nonlocal run
        run = other

    return limited if limits else named, replace_run
