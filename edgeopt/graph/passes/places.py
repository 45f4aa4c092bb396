"""Passes by where they are, imported when they are wanted: profiles and help need the names alone."""

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgeopt.graph.passes.base import Pass


def passes_at(package: str, places: Iterable[str]) -> "tuple[Pass, ...]":
    """Each place is `file.NAME` within the package, or `folder.file.NAME`."""
    return tuple(_pass_at(package, *place.rsplit(".", 1)) for place in places)


def _pass_at(package: str, file: str, name: str) -> "Pass":
    found: Pass = getattr(import_module(f"{package}.{file}"), name)
    return found
