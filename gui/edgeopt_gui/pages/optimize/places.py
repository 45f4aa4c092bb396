"""Folders in the cache for the bundles of searches until the user saves them."""

import os
import shutil
import tempfile
from collections.abc import Collection
from pathlib import Path

from edgeopt.errors import EdgeoptError, is_disk_full, no_room

# Some recent results are kept, so that a bundle that was not saved can still be found.
KEPT = 8


def fresh_place(root: Path, model: Path) -> Path:
    """Returns a path for a bundle in a new folder; raises EdgeoptError if the folder cannot be made."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=f"{model.stem}-", dir=root)) / f"{model.stem}.edgeopt"
    except OSError as error:
        if is_disk_full(error):
            raise no_room(root) from error
        raise EdgeoptError(
            f"The bundle cannot be written to '{root}': {error.strerror}.",
            "Allow writing to it, or start the app with another cache folder: XDG_CACHE_HOME=FOLDER edgeopt-gui.",
        ) from error


def give_back(place: Path) -> None:
    """Removes the folder of a search that left no bundle."""
    if not place.exists():
        shutil.rmtree(place.parent, ignore_errors=True)


def sweep(root: Path, in_use: Collection[Path]) -> None:
    """Removes the oldest results but the latest few, and never one that is in use."""
    if not root.is_dir():
        return
    folders = sorted((f for f in root.iterdir() if f.is_dir()), key=os.path.getmtime, reverse=True)
    for folder in folders[KEPT:]:
        if not any(path.is_relative_to(folder) for path in in_use):
            shutil.rmtree(folder, ignore_errors=True)


def shown_path(path: Path) -> str:
    """Returns a path to show, with `~` for the user's own folder."""
    home = Path.home()
    return str(Path("~") / path.relative_to(home)) if path.is_relative_to(home) else str(path)
