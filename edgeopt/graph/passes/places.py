"""Passes by where they stand, imported when they are wanted: profiles and help need the names alone."""

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgeopt.graph.passes.base import Pass


def passes_at(package: str, places: Iterable[str]) -> "tuple[Pass, ...]":
    """Each place is `file.NAME` within the package, or `folder.file.NAME`."""
    split = (place.rpartition(".") for place in places)
    return tuple(getattr(import_module(f"{package}.{file}"), name) for file, _, name in split)
