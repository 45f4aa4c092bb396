"""`Session.run`, and what takes its place in a fork."""

from collections.abc import Callable, Mapping

from edgeopt.backends.base import Array, Feeds
from edgeopt.backends.base import Session as Loaded
from edgeopt.bundle.runtime.forked import loaded_elsewhere
from edgeopt.errors import UsageError


def refuse_fork(feeds: Feeds) -> dict[str, Array]:
    del feeds
    raise loaded_elsewhere()


def close_nothing() -> None:
    """The process that loaded it closes it."""


NamedRun = Callable[[Feeds | Array], dict[str, Array]]


def by_name(loaded: Loaded) -> "tuple[NamedRun, Callable[[Callable[[Feeds], dict[str, Array]]], None]]":
    """The backend's own `run`, which takes arrays by name, behind a look at the type, well below a microsecond.

    And what puts another in its place.
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

    def replace_run(other: Callable[[Feeds], dict[str, Array]]) -> None:
        nonlocal run
        run = other

    return named, replace_run
