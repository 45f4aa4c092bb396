"""Takes files out of the kernel's page cache before a cold start, and looks whether the kernel did so."""

import ctypes
import importlib.util
import mmap
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from edgeopt.measure.messages import Load

_PAGE_BYTES = mmap.PAGESIZE
# What exporters and OpenVINO call the file with the weights, beside the model's own name.
_WEIGHTS = (".bin", ".data", ".onnx_data", ".weights", ".pb")


class Dropped(NamedTuple):
    """How much of the files lay in memory before and after."""

    size_bytes: int
    before_bytes: int | None
    after_bytes: int | None
    """None where the system does not tell."""


def model_files(load: Load) -> tuple[Path, ...]:
    """What a trial reads of the model: all of a bundle, or the file and those named after it (weights, mostly)."""
    path = Path(load.model_path)
    if path.is_dir():
        return tuple(sorted(p for p in path.rglob("*") if p.is_file()))
    if not path.is_file():
        return ()  # a program or an address
    stem = path.name.removesuffix(path.suffix)
    beside = (p for p in path.parent.iterdir() if p.is_file() and p != path)
    named_after = (p for p in beside if p.name.startswith((path.name, f"{stem}.")) and p.suffix in _WEIGHTS)
    return (path, *sorted(named_after))


def library_files(package: str | None) -> tuple[Path, ...]:
    """The native libraries of a runtime's Python package."""
    found = importlib.util.find_spec(package) if package else None
    folders = [Path(f) for f in (found.submodule_search_locations or ())] if found else []
    return tuple(sorted({p for f in folders for p in f.rglob("*.so*") if p.is_file()}))


def drop(files: Iterable[Path]) -> Dropped:
    """Advises the kernel to forget these files; what other processes use stays, whatever is advised."""
    paths = list(files)
    before = [resident_bytes(path) for path in paths]
    for path in paths:
        with path.open("rb") as file:
            if hasattr(os, "posix_fadvise"):
                os.fsync(file.fileno())  # pages that are not yet on the disk cannot be dropped
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    after = [resident_bytes(path) for path in paths]
    return Dropped(sum(p.stat().st_size for p in paths), _sum(before), _sum(after))


def resident_bytes(path: Path) -> int | None:
    """How much of a file lies in memory, by mincore(2), which reads none of it; None where nothing tells."""
    size = path.stat().st_size
    if size == 0:
        return 0
    try:
        mincore = ctypes.CDLL(None).mincore
    except (OSError, AttributeError):
        return None
    pages = (size + _PAGE_BYTES - 1) // _PAGE_BYTES
    found = (ctypes.c_ubyte * pages)()
    with path.open("rb") as file, mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ) as mapped:
        view = np.frombuffer(mapped, np.uint8)
        failed = mincore(ctypes.c_void_p(view.ctypes.data), ctypes.c_size_t(size), found)
        del view  # or the map could not be closed
    if failed:
        return None
    return min(size, sum(page & 1 for page in found) * _PAGE_BYTES)


def _sum(sizes: list[int | None]) -> int | None:
    known = [s for s in sizes if s is not None]
    return sum(known) if len(known) == len(sizes) else None
