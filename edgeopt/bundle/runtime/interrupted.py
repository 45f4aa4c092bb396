"""Outputs that an interrupted offline run leaves behind, for the next one to go on with."""

import contextlib
import hashlib
import os
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from zipfile import BadZipFile

import msgspec
import numpy as np

from edgeopt.backends.base import Array
from edgeopt.bundle.durable import remove
from edgeopt.bundle.manifest import file_digest
from edgeopt.data.samples import write_archive
from edgeopt.errors import writing_to

FOLDER = ".interrupted"
"""In the folder of the outputs, until these are complete."""
_RECORD = "run.json"
_PART = re.compile(r"(\d+)-(\d+)\.npz")


class _Record(msgspec.Struct, frozen=True):
    run: str
    """A digest of all that the outputs depend on."""
    parts: dict[str, str] = {}
    """The SHA-256 of each file, by its name, which says the samples: `FIRST-END.npz`."""


class InterruptedRun:
    """The folder with the outputs so far, and whether they belong to this run."""

    def __init__(self, out: Path, identity: Callable[[], str]) -> None:
        """`identity` reads whole files, so it is called only where there is something to keep or to take up."""
        self._out = out
        self._made = not out.exists()
        self._folder = out / FOLDER
        self._identity = identity
        self._record: _Record | None = None

    @property
    def exists(self) -> bool:
        return self._folder.is_dir()

    def found(self) -> list[dict[str, Array]]:
        """The outputs of the first samples, as far as they are of this run and whole."""
        if not self.exists:
            return []
        try:
            record = msgspec.json.decode((self._folder / _RECORD).read_bytes(), type=_Record)
        except (OSError, msgspec.DecodeError):
            record = _Record("")
        runs: list[dict[str, Array]] = []
        kept: dict[str, str] = {}
        if record.run == self._identity():
            for name in sorted(filter(_PART.fullmatch, record.parts), key=_samples):
                first, end = _samples(name)
                part = self._whole(name, record.parts[name]) if first == len(runs) else None
                if part is None or len(part) != end - first:
                    break
                runs += part
                kept[name] = record.parts[name]
        for file in self._folder.iterdir():
            if file.name not in kept and file.name != _RECORD:
                remove(file)
        self._record = _Record(record.run, kept) if kept else None
        return runs

    def save(self, first: int, runs: Sequence[dict[str, Array]]) -> None:
        """Adds the outputs of the samples from `first` on; nothing is lost where this is interrupted itself."""
        if not runs:
            return
        name = f"{first}-{first + len(runs)}.npz"
        record = self._record or _Record(self._identity())
        with writing_to(self._folder / name, inside=self._out):
            self._folder.mkdir(parents=True, exist_ok=True)
            self._put(name, lambda partial: write_archive(partial, _numbered(runs)))
            self._record = _Record(record.run, {**record.parts, name: file_digest(self._folder / name)})
            self._put(_RECORD, lambda partial: partial.write_bytes(msgspec.json.encode(self._record)))

    def clear(self) -> None:
        remove(self._folder)

    def _put(self, name: str, write: Callable[[Path], object]) -> None:
        partial = self._folder / f".{name}.partial-{os.getpid()}"
        try:
            write(partial)
            partial.replace(self._folder / name)
        except BaseException:
            partial.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                self._folder.rmdir()
                if self._made:
                    self._out.rmdir()
            raise

    def _whole(self, name: str, digest: str) -> list[dict[str, Array]] | None:
        """None where it is damaged, or of a type that numpy does not write."""
        runs: defaultdict[int, dict[str, Array]] = defaultdict(dict)
        try:
            if file_digest(self._folder / name) != digest:
                return None
            with np.load(self._folder / name) as archive:
                for key, array in archive.items():
                    sample, output = key.split("/", 1)
                    runs[int(sample)][output] = array
        except (OSError, ValueError, BadZipFile, zlib.error):
            return None
        if any(array.dtype.kind == "V" for run in runs.values() for array in run.values()):
            return None
        return [runs[k] for k in sorted(runs)]


def digest_of_paths(*paths: Path) -> str:
    """One digest of files, and of all files in folders, by name and content."""
    digest = hashlib.sha256()
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                digest.update(f"{file.relative_to(path.parent)}\0{file_digest(file)}\n".encode())
    return digest.hexdigest()


def _samples(name: str) -> tuple[int, int]:
    first, end = name.removesuffix(".npz").split("-")
    return int(first), int(end)


def _numbered(runs: Sequence[dict[str, Array]]) -> dict[str, Array]:
    return {f"{k}/{name}": array for k, run in enumerate(runs) for name, array in run.items()}
