"""Threads that decode a type for the first time, all at once.

`python -m tests.first_use safe|bare [MODULE:TYPE ...]` prints how many types it tried, and those that crash.
Without names it tries all structs of the core, the agent and the app. Each has a child process of its own, in
which msgspec has not met it.
"""

import faulthandler
import importlib
import os
import pkgutil
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import FrameType
from typing import Any, TypeVar

import msgspec

from edgeopt.decoding import thread_safe

THREADS = 16
T = TypeVar("T")


def _bare(kind: T) -> T:
    return kind


def _structs() -> Iterator[type[msgspec.Struct]]:
    for package in ("edgeopt", "edgeopt_agent", "edgeopt_gui"):
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            # Children of imports run beside another framework, which is not installed here.
            if not module.name.endswith(".__main__") and ".children" not in module.name:
                importlib.import_module(module.name)
    found: list[type[msgspec.Struct]] = [msgspec.Struct]
    for kind in found:
        found += [each for each in kind.__subclasses__() if each not in found]
    return (each for each in found if each.__module__.startswith("edgeopt"))


def _crashes(kind: type[msgspec.Struct], ready: Callable[[Any], Any]) -> bool:
    pid = os.fork()
    if pid:
        return os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.disable()
    sys.setswitchinterval(1e-6)
    threading.setprofile(_let_others_run)
    # A field by its own: the decoder asks for its type at once, and the last ones become known last.
    documents = [b'{"%s": {}}' % field.encode() for field in reversed(kind.__struct_encode_fields__)]
    together = threading.Barrier(THREADS)

    def decode() -> None:
        together.wait()
        for document in documents:
            # It is no document of that type, and some types are never decoded.
            with suppress(Exception):
                msgspec.json.decode(document, type=ready(kind))

    threads = [threading.Thread(target=decode) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os._exit(0)


def _let_others_run(frame: FrameType, event: str, argument: object) -> None:
    """Lets other threads run while msgspec has half of what it must know: it asks for annotations in Python."""
    if event == "call" and frame.f_code.co_name == "get_class_annotations":
        time.sleep(0)


def main() -> None:
    way, *names = sys.argv[1:]
    ready = {"safe": thread_safe, "bare": _bare}[way]
    named = (name.split(":") for name in names)
    kinds = [getattr(importlib.import_module(module), kind) for module, kind in named] or list(_structs())
    crashed = [each.__qualname__ for each in kinds if _crashes(each, ready)]
    sys.stdout.write(" ".join([str(len(kinds)), *crashed]))


if __name__ == "__main__":
    main()
