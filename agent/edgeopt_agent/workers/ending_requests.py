"""Requests that ended the worker of a release, by digests of their bodies, and the clients that sent them."""

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from hashlib import blake2b

Parts = Sequence[bytes | memoryview]
KEPT = 256
"""Requests that are remembered; further ones replace the oldest."""
_DIGEST_BYTES = 16
_Key = tuple[str, int, bytes]


class EndingRequests:
    """The requests that ended a worker, so that one request cannot count against its release again and again."""

    def __init__(self) -> None:
        self._ends: dict[_Key, int] = {}
        """Number of times that each request ended the worker of its release since the release last answered it."""
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
        """Returns how often this request has ended the worker of this release."""
        key = _find(self._ends, release, parts)
        return 0 if key is None else self._ends[key]

    def suspected(self, release: str, parts: Parts) -> bool:
        """Whether it must run alone, to show whether it is the cause."""
        return any(_find(known, release, parts) is not None for known in (self._ends, self._suspects))


class FailingClients:
    """Clients whose requests end the worker of a release that answers others: each counts once in a while.

    Without it, a client that changes its body each time would count as many different requests.
    """

    def __init__(self, again_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Takes the time after which an end by the same client counts again."""
        self._again_s, self._clock = again_s, clock
        self._answered: OrderedDict[tuple[str, str], None] = OrderedDict()
        """Releases with the clients that they answered last."""
        self._counted: dict[tuple[str, str], float] = {}

    def answered(self, release: str, client: str) -> None:
        if client:
            self._answered[release, client] = None
            self._answered.move_to_end((release, client))
            while len(self._answered) > KEPT:
                self._answered.popitem(last=False)

    def alone(self, release: str, client: str) -> str:
        """Returns the client if the release answers other clients; empty otherwise."""
        others = any(known == release and other != client for known, other in self._answered)
        return client if others else ""

    def counts(self, release: str, clients: Iterable[str]) -> bool:
        """Whether the end of a worker that ran requests of these clients counts against its release."""
        clients = {self.alone(release, client) for client in clients}
        if "" in clients:
            return True
        now_s = self._clock()
        known = [self._counted.get((release, client)) for client in clients]
        if any(last_s is not None and now_s - last_s < self._again_s for last_s in known):
            return False
        if len(clients) == 1:
            self._counted = {
                key: last_s for key, last_s in self._counted.items() if now_s - last_s < self._again_s
            }
            self._counted[release, clients.pop()] = now_s
        return True


def _find(known: Collection[_Key], release: str, parts: Parts) -> _Key | None:
    """Returns the key of a request, if it is known; computes a digest only if a known request has its size."""
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
