"""A bundle as one file: an uncompressed zip, written the same way every time and read without any trust."""

import errno
import io
import os
import secrets
import shutil
import stat
import struct
import weakref
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import BinaryIO
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from edgeopt.bundle.durable import MARK, publish_file
from edgeopt.errors import BundleError, EdgeoptError, error_text, printable, writing_to
from edgeopt.workspace import BUNDLE, fresh_place

_OLDEST = (1980, 1, 1, 0, 0, 0)
_PIECE_BYTES = 1 << 20
_MAX_ENTRIES = 100_000
# zipfile takes the whole list of contents into memory at once, as long as the archive says that it is.
_LONGEST_LIST_BYTES = 32 << 20
_ENCRYPTED = 0x1
_END = struct.Struct("<4s6xH8xH")
"""The last record of an archive: its mark, the number of entries, and the length of the comment behind it."""
_END_MARK = b"PK\5\6"
_COUNTED_ELSEWHERE = 0xFFFF
"""Entry count that refers to the zip64 record, if there is one."""
_LOCATOR = struct.Struct("<4s4xQ4x")
"""Right before the last record of a zip64 archive: its mark, and where the record with the large numbers is."""
_LOCATOR_MARK = b"PK\6\7"
_LARGE_END = struct.Struct("<4s28xQ")
"""The zip64 record: its mark, and the number of entries."""
_LARGE_END_BYTES = 56
_LARGE_END_MARK = b"PK\6\6"
_HINT = "Copy the bundle again from its source."
# What zipfile raises for what is no sound archive.
_UNSOUND = (BadZipFile, EOFError, NotImplementedError, OverflowError, RuntimeError, ValueError, struct.error)


class _RefusedError(Exception):
    """Refusal to unpack an archive; the message is the end of a sentence."""


def holds(path: Path, names: Collection[str]) -> bool:
    """Whether a path is a zip file with all of these in it, sound or not."""
    try:
        with path.open("rb") as raw, ZipFile(_Bounded(raw)) as archive:
            return set(names) <= set(archive.namelist())
    except (OSError, *_UNSOUND):
        return False


def read_member(path: Path, name: str, max_bytes: int) -> bytes:
    """One file of a packed bundle; empty where it is not there, is longer than that, or the archive is unsound."""
    try:
        with path.open("rb") as raw, ZipFile(_Bounded(raw)) as archive:
            info = archive.getinfo(name)
            sound = info.compress_type == ZIP_STORED and info.file_size <= max_bytes
            return archive.read(info) if sound else b""
    except (OSError, KeyError, *_UNSOUND):
        return b""


def pack(folder: Path, out: BinaryIO) -> None:
    """Writes a bundle's folder as one zip; the same folder gives the same bytes."""
    for _ in _packing(folder, out):
        pass


def packed(folder: Path) -> Iterator[bytes]:
    """A bundle's folder as one zip, in pieces: nothing is written, and no more than a piece is in memory."""
    out = _Pieces()
    for _ in _packing(folder, out):
        yield out.taken()
    yield out.taken()


class _Pieces:
    """Keeps what is written until it is taken. zipfile puts sizes behind each file, as this cannot go back."""

    def __init__(self) -> None:
        self._piece = bytearray()

    def write(self, content: bytes, /) -> int:
        self._piece += content
        return len(content)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def taken(self) -> bytes:
        piece, self._piece = bytes(self._piece), bytearray()
        return piece


def _packing(folder: Path, out: BinaryIO | _Pieces) -> Iterator[None]:
    """Stops after each piece."""
    with ZipFile(out, "w", ZIP_STORED) as archive:
        for name, path in sorted(_files(folder)):
            info = ZipInfo(name, _OLDEST)
            info.create_system = 3  # Unix, wherever it is packed
            info.external_attr = (stat.S_IFREG | 0o644) << 16
            info.file_size = path.stat().st_size  # tells zipfile whether 32 bits are enough
            with path.open("rb") as source, archive.open(info, "w") as target:
                while piece := source.read(_PIECE_BYTES):
                    target.write(piece)
                    yield


def pack_into(folder: Path, file: Path) -> None:
    """Writes a bundle's folder as one file, replacing what was there only once all of it is on the disk."""
    partial = file.with_name(f".{file.name}{MARK}{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with writing_to(file):
            with partial.open("xb") as out:
                pack(folder, out)
            if file.is_file():
                partial.chmod(stat.S_IMODE(file.stat().st_mode))
            publish_file(partial, file)
    finally:
        partial.unlink(missing_ok=True)


def unpack(file: Path, folder: Path, max_bytes: int, called: str = "The packed bundle") -> None:
    """Writes the files of a packed bundle into a new or empty folder.

    Raises BundleError for an archive that is anything but plain uncompressed files inside that folder; nothing
    is written before every entry has been looked at. The caller removes the folder after a failure.
    """
    try:
        _unpack(file, folder, max_bytes)
    except _RefusedError as error:
        raise BundleError(f"{called} is refused: {error}.", _HINT) from error


def _unpack(file: Path, folder: Path, max_bytes: int) -> None:
    try:
        with file.open("rb") as raw, ZipFile(_Bounded(raw)) as archive:
            _check_end(file, archive)
            entries = _checked(archive.infolist(), max_bytes, file.stat().st_size)
            folder.mkdir(exist_ok=True)
            for info in entries:
                _write(archive, info, folder)
    except _UNSOUND as error:
        raise _RefusedError(f"it is not a valid zip archive: {error_text(error)}") from error
    except OSError as error:
        if error.errno != errno.EINVAL:  # a place before the archive's begin
            raise
        raise _RefusedError("it is not a valid zip archive: it points outside itself") from error


def _check_end(file: Path, archive: ZipFile) -> None:
    """Compares the last record with what zipfile found, which ignores its count and the length of its comment."""
    length = _END.size + len(archive.comment)
    with file.open("rb") as raw:
        raw.seek(-length, os.SEEK_END)
        mark, count, comment_bytes = _END.unpack(raw.read(_END.size))
        large = _large_count(raw, length)
    if mark != _END_MARK or comment_bytes != len(archive.comment):
        raise _RefusedError("it is not a valid zip archive: its comment has another length than it says")
    entries = len(archive.infolist())
    if large is not None and count == _COUNTED_ELSEWHERE:
        count = large
    for stated in (count, large):
        if stated not in {None, entries}:
            raise _RefusedError(f"it is not a valid zip archive: it says that it holds {stated} entries")


def _large_count(raw: BinaryIO, end_bytes: int) -> int | None:
    """The number of entries that a zip64 archive states; None for an archive that is none."""
    locator_place = raw.seek(0, os.SEEK_END) - end_bytes - _LOCATOR.size
    place = locator_place - _LARGE_END_BYTES
    if place < 0:
        return None
    raw.seek(locator_place)
    mark, stated_place = _LOCATOR.unpack(raw.read(_LOCATOR.size))
    if mark != _LOCATOR_MARK:
        return None
    raw.seek(place)
    mark, count = _LARGE_END.unpack(raw.read(_LARGE_END.size))
    if mark != _LARGE_END_MARK or stated_place != place:
        raise _RefusedError("it is not a valid zip archive: its zip64 record is not where it says")
    return int(count)


class _Bounded(io.BufferedReader):
    """Reads no more at once than an honest archive needs."""

    def __init__(self, raw: BinaryIO) -> None:
        super().__init__(io.FileIO(raw.fileno(), closefd=False))
        self._size = os.fstat(raw.fileno()).st_size

    def read(self, size: int | None = -1, /) -> bytes:
        max_bytes = self._size - self.tell() if size is None or size < 0 else size
        if max_bytes > _LONGEST_LIST_BYTES:
            raise BadZipFile("its list of contents is too long")
        return super().read(size)


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise BundleError(
                f"'{name}' in the bundle '{folder.name}' is a link or not a plain file.",
                "Copy the bundle again from its source.",
            )
        if path.is_file():
            yield name, path


def _checked(entries: list[ZipInfo], max_bytes: int, archive_bytes: int) -> list[ZipInfo]:
    """The files among the entries, in which nothing is wrong."""
    if len(entries) > _MAX_ENTRIES:
        raise _RefusedError(f"it holds {len(entries)} entries; the maximum is {_MAX_ENTRIES}")
    if min((info.header_offset for info in entries), default=0) > 0:
        # Golden arrays are zips too: in a bundle that was cut off, the last whole one of them looks like the end.
        raise _RefusedError("it is not a valid zip archive: it is truncated, or has data before its first entry")
    names: set[str] = set()
    for info in entries:
        name = _plain_name(info)
        _check_kind(info)
        if name in names:
            raise _RefusedError(f"it holds '{_shown(name)}' twice")
        names.add(name)
    files = [info for info in entries if not info.is_dir()]
    _check_sizes(files, max_bytes, archive_bytes)
    plain = {info.filename for info in files}
    inside = next((n for n in names for p in PurePosixPath(n).parents if str(p) in plain), None)
    if inside is not None:
        raise _RefusedError(f"'{_shown(inside)}' lies inside what is a file")
    return files


def _plain_name(info: ZipInfo) -> str:
    """The entry's name without the slash that ends a folder's; refused when it could lead anywhere else."""
    name = info.orig_filename.removesuffix("/")  # filename is cut at a NUL
    if why := unfit_name(name):
        raise _RefusedError(f"the name '{_shown(info.orig_filename)}' {why}")
    return name


def unfit_name(name: str) -> str:
    """Returns why a packed file cannot have this name, as the end of a sentence; empty if it can."""
    odd = "\0" in name or "\\" in name or PureWindowsPath(name).drive
    if odd or any(part in {"", ".", ".."} for part in name.split("/")):
        return "points outside the archive"
    if any(len(os.fsencode(part)) > 255 for part in name.split("/")) or len(name) > 1000:
        return "is too long"
    return ""


def _check_kind(info: ZipInfo) -> None:
    name = _shown(info.filename)
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in {0, stat.S_IFREG, stat.S_IFDIR} or (kind == stat.S_IFDIR and not info.is_dir()):
        raise _RefusedError(f"'{name}' is a link or not a plain file")
    if info.flag_bits & _ENCRYPTED:
        raise _RefusedError(f"'{name}' is encrypted")
    if info.compress_type != ZIP_STORED:
        raise _RefusedError(f"'{name}' is compressed; bundles are packed without compression (zip -0)")


def _check_sizes(files: list[ZipInfo], max_bytes: int, archive_bytes: int) -> None:
    """Raises an error if the files are compressed, or claim more bytes than `max_bytes` or the archive itself."""
    for info in files:
        if info.file_size != info.compress_size:
            raise _RefusedError(f"'{_shown(info.filename)}' has a wrong size in its header")
    total = sum(info.file_size for info in files)
    if total > max_bytes:
        raise _RefusedError(f"it holds {total} bytes; the maximum is {max_bytes}")
    if total > archive_bytes:
        raise _RefusedError(f"it claims {total} bytes, but is only {archive_bytes} long")


def _write(archive: ZipFile, info: ZipInfo, folder: Path) -> None:
    path = folder / info.filename
    path.parent.mkdir(parents=True, exist_ok=True)
    # Exclusively: where "A" and "a" are one file, the second must not replace the first.
    with archive.open(info) as source, path.open("xb") as target:
        while piece := source.read(_PIECE_BYTES):
            target.write(piece)
        if target.tell() != info.file_size:
            raise _RefusedError(f"'{_shown(info.filename)}' has a wrong size in its header")


def _shown(name: str) -> str:
    plain = printable(name)
    return plain if len(plain) <= 80 else f"{plain[:77]}..."


class OpenedArchive:
    """The folder of an unpacked bundle, as long as this lives; the process's end removes it too."""

    __slots__ = ("__weakref__", "close", "file", "folder")

    def __init__(self, file: Path) -> None:
        private = fresh_place(BUNDLE)
        self.close = weakref.finalize(self, _remove, private, os.getpid())
        """Removes the folder at once, even while an error object still references this."""
        self.file = file
        # The last part is the bundle's own name, which messages use.
        self.folder = private / file.name
        try:
            with writing_to(private):
                private.mkdir(mode=0o700)
                unpack(file, self.folder, file.stat().st_size, f"The bundle '{file.name}'")
        except BaseException:
            self.close()
            raise

    def name_file_in(self, error: EdgeoptError) -> None:
        """Lets it tell of the file, and not of a folder that is gone when it is read."""
        message = error.message.replace(str(self.folder), str(self.file))
        error.message = message.replace(str(self.folder.parent), str(self.file.parent))
        error.args = (error.message,)


_Identity = tuple[Path, int, int, int, int]
_in_use: "weakref.WeakValueDictionary[_Identity, OpenedArchive]" = weakref.WeakValueDictionary()


def opened(file: Path) -> OpenedArchive:
    """The bundle in a file, unpacked once for all who hold it at the same time; raises BundleError."""
    found = file.stat()
    # A file that was replaced or changed meanwhile is another one.
    identity = (file.absolute(), found.st_dev, found.st_ino, found.st_size, found.st_ctime_ns)
    held = _in_use.get(identity)
    if held is None or not held.close.alive:
        held = _in_use[identity] = OpenedArchive(file)
    return held


def _remove(private: Path, owner: int) -> None:
    # A fork of the process that unpacked it ends earlier, and must leave it.
    if os.getpid() == owner:
        shutil.rmtree(private, ignore_errors=True)
