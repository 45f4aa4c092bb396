"""Finds the model that a bundle was made from: beside the bundle, or among the files that were opened before."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from edgeopt_gui.pages.optimize.slow import slow


class SourceModel(NamedTuple):
    name: str
    path: Path | None
    """Path of the file; None if no file of this name has the content that the bundle names."""


def source_of(bundle: Path, recent: Iterable[Path]) -> SourceModel:
    """Reads files: for a thread. Raises EdgeoptError for what is no sound bundle."""
    source = slow("edgeopt.bundle.read").read_bundle(bundle).deployment.source
    beside = (folder / source.name for folder in (bundle.parent, bundle.parent.parent))
    places = dict.fromkeys((*beside, *(path for path in recent if path.name == source.name)))
    return SourceModel(source.name, next((path for path in places if _holds(path, source.sha256)), None))


def _holds(path: Path, sha256: str) -> bool:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest() == sha256
    except OSError:
        return False
