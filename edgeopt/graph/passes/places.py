"""Passes by where they stand, imported when they are wanted: profiles and help need the names alone."""

import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgeopt.graph.passes.base import Pass


def imported_later(package: str, registry: str, places: Iterable[str]) -> "Callable[[str], tuple[Pass, ...]]":
    """The `__getattr__` of a package whose passes are imported when somebody first asks for the registry.

    Each place is `file.NAME` within the package, or `folder.file.NAME`.
    """
    known = tuple(places)

    def passes(name: str) -> "tuple[Pass, ...]":
        if name != registry:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        found = _passes_at(package, known)
        setattr(sys.modules[package], registry, found)
        return found

    return passes


def _passes_at(package: str, places: Iterable[str]) -> "tuple[Pass, ...]":
    return tuple(_pass_at(package, *place.rsplit(".", 1)) for place in places)


def _pass_at(package: str, file: str, name: str) -> "Pass":
    module = import_module(f"{package}.{file}")
    if not hasattr(module, name):  # an AttributeError would say that the registry itself is not there
        raise ImportError(f"The registry of {package} names {file}.{name}, and there is none.")
    found: Pass = getattr(module, name)
    return found
