"""Types that threads may decode at once: every type that edgeopt passes to msgspec goes through `thread_safe`.

msgspec shows other threads what it knows of a type before that is complete, and a thread that reads it crashes
(docs/upstream.md). `tests/structure/test_decoding.py` checks the rule.
"""

import threading
from functools import cache
from typing import TypeVar, cast

import msgspec

T = TypeVar("T")
_lock = threading.Lock()


def thread_safe(kind: T) -> T:
    """Returns the type, about which msgspec then knows everything, the types within it included."""
    return cast("T", _complete(kind))


@cache  # keeps the type too: msgspec's knowledge of a generic is a part of the object that names it
def _complete(kind: object) -> object:
    with _lock:
        msgspec.msgpack.Decoder(kind)  # unlike one for JSON, takes every type that `convert` does
    return kind
