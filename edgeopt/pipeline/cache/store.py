"""Search cache: entries in a folder, written whole or not at all; the longest unused are dropped at a limit."""

import contextlib
import errno
import functools
import hashlib
import importlib.metadata
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

import msgspec

from edgeopt.decoding import thread_safe
from edgeopt.errors import UsageError
from edgeopt.platform.files import rename_path
from edgeopt.version import __version__

# Prefixes of the settings of libraries that run models: like their versions, they affect the speed.
_SETTINGS = (
    *("OMP_", "KMP_", "GOMP_", "MKL_", "OPENBLAS_", "TBB_", "DNNL_", "ONEDNN_", "MALLOC_", "LD_PRELOAD"),
    *("ORT_", "ONNXRUNTIME_", "OV_", "OPENVINO_", "CUDA_", "NVIDIA_", "TRT_"),
)


def key_of(parts: Mapping[str, object]) -> str:
    """Returns one digest of all parts, whatever their order."""
    return hashlib.sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tree_digest(path: Path) -> str:
    """Returns the digest of a file's content; for a folder, of the names and contents of all files in it."""
    if path.is_file():
        return file_digest(path)
    files = [file for file in path.rglob("*") if file.is_file()]
    return key_of({file.relative_to(path).as_posix(): file_digest(file) for file in files})


@functools.cache
def code_digest() -> str:
    """Returns the digest of edgeopt's version and code: in a checkout, code changes without a new version."""
    package = Path(__file__).parents[2]
    files = {file.relative_to(package).as_posix(): file_digest(file) for file in package.rglob("*.py")}
    return key_of({"version": __version__, "files": files})


def versions(distributions: Iterable[str]) -> dict[str, str]:
    """Returns the version of each distribution that is installed."""
    found = {}
    for name in distributions:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def settings_of_libraries() -> dict[str, str]:
    """Returns the environment variables that affect the libraries that run models."""
    return {name: value for name, value in os.environ.items() if name.startswith(_SETTINGS)}


FILE = "record.json"
FILES = "files"
"""Subfolder of an entry with its files."""
SCHEMA = 2


class DamagedError(Exception):
    """Damage of an entry; the message names the part that is not what was written."""


class Piece(msgspec.Struct, frozen=True):
    sha256: str
    size_bytes: int


class CacheRecord(msgspec.Struct, frozen=True):
    kind: str
    title: str
    """Description of the entry for people, in a few words."""
    made_at: datetime
    files: dict[str, Piece]
    document: bytes = b""
    """Data that the owner of the entry needs to use it again."""
    parts: dict[str, str] = {}
    """Parts of the key by their names for people; they explain why another key differs."""
    schema: int = SCHEMA

    @property
    def size_bytes(self) -> int:
        return sum(piece.size_bytes for piece in self.files.values()) + len(self.document)


class _Sealed(msgspec.Struct, frozen=True):
    sha256: str
    record: msgspec.Raw


def write_record(folder: Path, record: CacheRecord) -> None:
    inner = msgspec.json.encode(record)
    sealed = _Sealed(hashlib.sha256(inner).hexdigest(), msgspec.Raw(inner))
    (folder / FILE).write_bytes(msgspec.json.encode(sealed))


def read_record(folder: Path) -> CacheRecord:
    """Returns the record of an entry; raises DamagedError, or FileNotFoundError if there is no record."""
    content = (folder / FILE).read_bytes()
    try:
        sealed = msgspec.json.decode(content, type=thread_safe(_Sealed))
        inner = bytes(sealed.record)
        if hashlib.sha256(inner).hexdigest() != sealed.sha256:
            raise DamagedError(f"{FILE} is not what was written")
        record = msgspec.json.decode(inner, type=thread_safe(CacheRecord))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedError(f"{FILE} cannot be read: {error}") from None
    if record.schema != SCHEMA or not all(_is_plain(name) for name in record.files):
        raise DamagedError(f"{FILE} is of another version")
    return record


def _is_plain(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


VARIABLE = "EDGEOPT_CACHE_LIMIT"
USUAL_BYTES = 2_000_000_000
# Share of the free disk space: a small device needs its disk for other things.
_SHARE = 0.1
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


def limit_bytes(folder: Path) -> int:
    """Returns the limit: `$EDGEOPT_CACHE_LIMIT` (0: no cache), or 2 GB but at most a tenth of the free space."""
    setting = os.environ.get(VARIABLE, "").strip()
    if setting:
        return _bytes(setting)
    place = next((one for one in (folder, *folder.parents) if one.exists()), folder)
    return min(USUAL_BYTES, int(_SHARE * shutil.disk_usage(place).free))


def _bytes(text: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmg]i?)?b?", text.lower())
    if found is None:
        raise UsageError(
            f"{VARIABLE} is '{text}', which is not a size.",
            "Give a size such as 500MB, or 0 to turn the cache off.",
        )
    return int(float(found[1]) * _UNITS[found[2] or ""])


_NAME = re.compile(r"[a-z]+-[0-9a-f]{64}")
_NOWHERE = Path(os.devnull)
_PART, _GONE = ".part-", ".gone-"
"""Prefixes of folders that are not complete yet, or are being removed; the process number of the owner follows."""
_FULL = (errno.ENOSPC, errno.EDQUOT)
# Times that an incomplete entry is read again: another process may replace it meanwhile.
_REPLACED_MEANWHILE = 5


class Stored(msgspec.Struct, frozen=True):
    """Entry of the cache, as it is listed."""

    kind: str
    title: str
    size_bytes: int
    made_at: datetime
    used_at: datetime
    name: str
    """Name of the entry's folder: the kind and the digest of all that the entry depends on."""


class Store:
    """Entries by name; several processes may use one folder at a time.

    Nothing is synchronized to the disk: after a power cut, an entry that is not whole does not bear its digests.
    """

    def __init__(self, folder: Path | None, report: Callable[[str], None] = lambda _: None) -> None:
        """Opens the store; `report` receives, once each, why nothing is kept and which entries were damaged."""
        self._report = report
        self._total: int | None = None
        self.folder = folder or _NOWHERE
        self.limit_bytes = 0
        self.on = False
        try:
            self.limit_bytes = limit_bytes(folder) if folder else 0
            if self.limit_bytes:
                self.folder.mkdir(parents=True, exist_ok=True)
                _sweep(self.folder)
                if not os.access(self.folder, os.W_OK):
                    raise PermissionError(errno.EACCES, "it cannot be written to")
                self.on = True
        except OSError as error:
            self._turn_off(error)

    def has(self, kind: str, key: str) -> bool:
        """Whether there is such an entry, intact or not."""
        return self.on and (self.folder / f"{kind}-{key}" / FILE).exists()

    def get(self, kind: str, key: str, into: Path) -> CacheRecord | None:
        """Copies the files of an entry into a folder and checks them; None if there is no intact entry.

        Raises OSError if there is no room for them.
        """
        if not self.on:
            return None
        place = self.folder / f"{kind}-{key}"
        why = ""
        for _ in range(_REPLACED_MEANWHILE):
            try:
                return self._taken(place, into)
            except FileNotFoundError:
                why = "a file is missing"
            except DamagedError as error:
                why = str(error)
            if not (place / FILE).exists():  # dropped by another process meanwhile, or never there
                return None
        self._drop_damaged(place, why)
        return None

    def _taken(self, place: Path, into: Path) -> CacheRecord | None:
        """Copies an entry's files; raises FileNotFoundError or DamagedError if it is damaged, or replaced."""
        copied: list[Path] = []
        complete = False
        try:
            found = read_record(place)
            for name, piece in found.files.items():
                target = into / name
                target.parent.mkdir(parents=True, exist_ok=True)
                copied.append(target)
                shutil.copyfile(place / FILES / name, target)
                # Checks the copy, so that the caller gets exactly what was checked.
                if file_digest(target) != piece.sha256:
                    raise DamagedError(f"{name} is not what was written")
            with contextlib.suppress(OSError):
                os.utime(place / FILE)
            complete = True
            return found
        except (DamagedError, FileNotFoundError):
            raise
        except OSError as error:
            if error.errno in _FULL:
                raise
            self._drop_damaged(place, error.strerror or str(error))
        finally:
            for target in () if complete else copied:
                target.unlink(missing_ok=True)
        return None

    def put(self, kind: str, key: str, kept: CacheRecord, files: Mapping[str, Path]) -> None:
        """Replaces the entry of the key by copies of these files; if that fails, the cache is turned off."""
        if not self.on:
            return
        place = self.folder / f"{kind}-{key}"
        part = self.folder / f"{_PART}{os.getpid()}-{secrets.token_hex(6)}"
        try:
            if sum(file.stat().st_size for file in files.values()) > self.limit_bytes:
                return
            pieces = {}
            (part / FILES).mkdir(parents=True)
            for name, file in files.items():
                target = part / FILES / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
                pieces[name] = Piece(file_digest(target), target.stat().st_size)
            whole = msgspec.structs.replace(kept, files=pieces)
            write_record(part, whole)
            _drop(place)
            try:
                rename_path(part, place)
            except OSError as error:
                if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:  # another process kept the same just now
                    raise
            self._make_room(place.name, whole.size_bytes)
        except OSError as error:
            self._turn_off(error)
        finally:
            shutil.rmtree(part, ignore_errors=True)

    def entries(self) -> list[Stored]:
        """Returns all readable entries, the most recently used first."""
        found = []
        for place in self._places():
            with contextlib.suppress(OSError, DamagedError):
                record, used = read_record(place), (place / FILE).stat().st_mtime
                at = datetime.fromtimestamp(used, UTC)
                found.append(Stored(record.kind, record.title, record.size_bytes, record.made_at, at, place.name))
        return sorted(found, key=lambda entry: entry.used_at, reverse=True)

    def records(self, kind: str) -> list[CacheRecord]:
        """Returns the readable records of one kind, the latest first."""
        found = []
        for place in self._places():
            with contextlib.suppress(OSError, DamagedError):
                if place.name.startswith(f"{kind}-"):
                    found.append(read_record(place))
        return sorted(found, key=lambda one: one.made_at, reverse=True)

    def drop(self, kind: str, key: str) -> None:
        _drop(self.folder / f"{kind}-{key}")

    def clear(self, unused_since: datetime | None = None) -> list[Stored]:
        """Drops all entries, or those unused since then, also unreadable ones; returns the readable ones."""
        entries = {entry.name: entry for entry in self.entries()}
        dropped = []
        for place in self._places():
            entry = entries.get(place.name)
            if entry is None or unused_since is None or entry.used_at < unused_since:
                _drop(place)
                if entry is not None:
                    dropped.append(entry)
        return dropped

    def _places(self) -> list[Path]:
        if not self.folder.is_dir():
            return []
        # The user may have named a folder with other files, which must not be dropped.
        return [one for one in self.folder.iterdir() if _NAME.fullmatch(one.name) and one.is_dir()]

    def _make_room(self, newest: str, added_bytes: int) -> None:
        """Drops the least recently used entries while the cache exceeds its limit.

        The total is counted once, as reading all records takes a while; entries that other processes add meanwhile
        are counted by the next process.
        """
        self._total = self._counted() if self._total is None else self._total + added_bytes
        if self._total <= self.limit_bytes:
            return
        self._total = self._counted()
        for entry in reversed(self.entries()):
            if self._total <= self.limit_bytes:
                return
            if entry.name != newest:
                _drop(self.folder / entry.name)
                self._total -= entry.size_bytes

    def _counted(self) -> int:
        return sum(entry.size_bytes for entry in self.entries())

    def _drop_damaged(self, place: Path, why: str) -> None:
        _drop(place)
        self._report(f"A cache entry was damaged ({why}) and dropped; it is made again.")

    def _turn_off(self, error: OSError) -> None:
        self.on = False
        self._report(f"The search cache {self.folder} is not used: {error.strerror or error}.")


def _drop(place: Path) -> None:
    """Removes an entry: renames it first, so that it disappears in one step."""
    gone = place.with_name(f"{_GONE}{os.getpid()}-{secrets.token_hex(6)}")
    with contextlib.suppress(OSError):
        rename_path(place, gone)
        shutil.rmtree(gone, ignore_errors=True)


def _sweep(folder: Path) -> None:
    """Removes the incomplete entries of processes that were killed."""
    import psutil

    for mark in (_PART, _GONE):
        for place in folder.glob(f"{mark}*"):
            owner = place.name.removeprefix(mark).partition("-")[0]
            if owner.isdigit() and not psutil.pid_exists(int(owner)):
                shutil.rmtree(place, ignore_errors=True)
