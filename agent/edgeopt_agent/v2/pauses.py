"""Points at which the parsing of a large request may pause, so that a worker can answer small ones."""

from collections.abc import Callable

Pause = Callable[[], None]
"""Called after each piece of a body, at most about a millisecond of work; returns at once where nothing waits."""


def no_pause() -> None:
    """Returns at once: the pause for requests that no others can wait for."""
