"""Cache of the user: its contents, and clearing it."""

import re
import shutil
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from edgeopt.pipeline.cache.store import Store, Stored
from edgeopt.platform.user_folders import user_cache_folder

_FOLDER = "searches"
# Other files in the folder, by their full names: the user may have named a folder with more in it.
_OTHERS = (
    (r"peaks-\d+-[0-9a-f]{32}\.json", "measured peaks (edgeopt probe --deep)"),
    (r"ops-\d+-[0-9a-f]{32}\.json", "timings of operators (edgeopt ops)"),
    (r"runtimes-[0-9a-f]{32}\.json", "available devices of the runtimes"),
    (r"tensorrt/[0-9a-f]{32}", "TensorRT engines"),
    (r"upload-[0-9a-f]{32}\.txt", "addresses of interrupted uploads (edgeopt push)"),
)


class Other(msgspec.Struct, frozen=True):
    """Files of one kind that other commands keep in the cache folder."""

    title: str
    size_bytes: int
    count: int


class Listing(msgspec.Struct, frozen=True):
    folder: str
    limit_bytes: int
    size_bytes: int
    """Size of the entries, to which the limit applies."""
    entries: tuple[Stored, ...]
    others: tuple[Other, ...]


class Cleared(msgspec.Struct, frozen=True):
    folder: str
    entries: tuple[Stored, ...]
    others: tuple[Other, ...]
    freed_bytes: int


def user_store(report: Callable[[str], None] = lambda _: None) -> Store:
    """Returns the store in which searches keep their results."""
    folder = user_cache_folder()
    return Store(folder / _FOLDER if folder else None, report)


def listing() -> Listing:
    store = user_store()
    entries = tuple(store.entries())
    size = sum(entry.size_bytes for entry in entries)
    others = tuple(_measured(title, files) for title, files in _others())
    return Listing(str(store.folder), store.limit_bytes, size, entries, others)


def clear(older_than_days: float | None = None, everything: bool = False) -> Cleared:
    """Drops entries unused for this number of days, or all; those of other commands only with `everything`."""
    store = user_store()
    days = older_than_days or 0.0
    since = datetime.now(UTC) - timedelta(days=days) if older_than_days is not None else None
    entries = tuple(store.clear(since))
    others: list[Other] = []
    for title, files in _others() if everything else ():
        old = [file for file in files if older_than_days is None or _age_s(file) > days * 86_400]
        if old:
            others.append(_measured(title, old))
        for file in old:
            _remove(file)
    freed = sum(each.size_bytes for each in entries) + sum(each.size_bytes for each in others)
    return Cleared(str(store.folder), entries, tuple(others), freed)


def _others() -> Iterator[tuple[str, list[Path]]]:
    root = user_cache_folder()
    if root is None or not root.is_dir():
        return
    here = [*root.iterdir(), *root.glob("tensorrt/*")]
    for pattern, title in _OTHERS:
        files = [place for place in here if re.fullmatch(pattern, place.relative_to(root).as_posix())]
        if files:
            yield title, files


def _measured(title: str, files: list[Path]) -> Other:
    return Other(title, sum(_size(file) for file in files), len(files))


def _size(place: Path) -> int:
    if not place.is_dir():
        return place.stat().st_size
    return sum(file.stat().st_size for file in place.rglob("*") if file.is_file())


def _age_s(place: Path) -> float:
    return time.time() - place.stat().st_mtime


def _remove(place: Path) -> None:
    if place.is_dir():
        shutil.rmtree(place, ignore_errors=True)
    else:
        place.unlink(missing_ok=True)
