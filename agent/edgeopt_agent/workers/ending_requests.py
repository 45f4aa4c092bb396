"""Requests that ended the worker of a release: the last of them are remembered, by digests of their bodies."""

from collections.abc import Collection, Iterable, Sequence
from hashlib import blake2b

Parts = Sequence[bytes | memoryview]
KEPT = 256
"""Requests that are remembered; further ones replace the oldest."""
_DIGEST_BYTES = 16
_Key = tuple[str, int, bytes]


class EndingRequests:
    """Which requests ended a worker, so that one request cannot count against its release again and again."""

    def __init__(self) -> None:
        self._ends: dict[_Key, int] = {}
        """How often each ended the worker of its release since the release last answered it."""
        self._suspects: dict[_Key, None] = {}
        """Requests of a batch during which the worker ended: one of them may be the cause."""

    def note(self, release: str, requests: Iterable[Parts]) -> bool:
        """Remembers what the worker was running when it ended; whether that counts against its release."""
        keys = [_key(release, parts) for parts in requests]
        if len(keys) == 1:
            times = self._ends.pop(keys[0], 0) + 1
            self._ends[keys[0]] = times
            _trim(self._ends)
            # The end of the batch that made it a suspect has counted.
            return times == 1 and keys[0] not in self._suspects
        self._suspects |= dict.fromkeys(keys)
        _trim(self._suspects)
        return True

    def answered(self, release: str, parts: Parts) -> None:
        """Forgets a request that its release can answer: it was not the cause."""
        for known in (self._ends, self._suspects):
            if (key := _find(known, release, parts)) is not None:
                del known[key]

    def times(self, release: str, parts: Parts) -> int:
        """How often this request has ended the worker of this release."""
        key = _find(self._ends, release, parts)
        return 0 if key is None else self._ends[key]

    def suspected(self, release: str, parts: Parts) -> bool:
        """Whether it must run alone, to show whether it is the cause."""
        return any(_find(known, release, parts) is not None for known in (self._ends, self._suspects))


def _find(known: Collection[_Key], release: str, parts: Parts) -> _Key | None:
    """The key of a request, if it is known; a digest is made only for one of the size of another."""
    if not known:
        return None
    size = sum(map(len, parts))
    if not any(each[:2] == (release, size) for each in known):
        return None
    key = _key(release, parts)
    return key if key in known else None


def _key(release: str, parts: Parts) -> _Key:
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        digest.update(part)
    return release, sum(map(len, parts)), digest.digest()


def _trim(known: dict[_Key, int] | dict[_Key, None]) -> None:
    while len(known) > KEPT:
        del known[next(iter(known))]
