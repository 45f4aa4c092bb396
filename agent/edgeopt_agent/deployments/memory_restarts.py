"""Restarts of a release's worker because of memory: they never roll back, and are delayed more and more."""

import time

from edgeopt_agent.settings import Settings


class MemoryRestarts:
    """The restarts within `memory_window_s`."""

    def __init__(self) -> None:
        self._release = ""
        self._times_s: list[float] = []

    def note(self, release: str, settings: Settings) -> float:
        """Counts one; after how many seconds the worker may start again."""
        recent = self._recent(release, settings)
        self._release, self._times_s = release, [*recent, time.monotonic()]
        return min(settings.restart_delay_s * 2.0 ** len(recent), settings.restart_delay_most_s)

    def warning(self, release: str, settings: Settings) -> str:
        """Returns a warning about a release whose worker restarts too often; empty if it does not."""
        count = len(self._recent(release, settings))
        if count <= settings.memory_restarts_allowed:
            return ""
        return (
            f"The worker of the release {release} was restarted {count} times within "
            f"{settings.memory_window_s:g} s because it took too much memory: the release leaks memory, or "
            "requests are too large. Deploy another release, raise worker_memory_bytes, or send smaller requests."
        )

    def _recent(self, release: str, settings: Settings) -> list[float]:
        if release != self._release:
            return []
        since_s = time.monotonic() - settings.memory_window_s
        return [each for each in self._times_s if each > since_s]
