"""The manifest: the digest of every file in a bundle, and whether they still hold."""

import hashlib
from pathlib import Path, PurePosixPath

import msgspec

from edgeopt.decoding import thread_safe
from edgeopt.errors import BundleError

FILE = "manifest.json"
SIGNATURE = "manifest.sig.json"
"""The signature over the manifest; beside it, so not in it."""
SCHEMA = 1
LARGEST_BYTES = 32 << 20
_RELEASE_DIGITS = 12
_HINT = "Copy the bundle again from its source."


class FileEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sha256: str
    size_bytes: int


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    files: dict[str, FileEntry]
    schema: int = SCHEMA


def file_digest(path: Path) -> str:
    """The SHA-256 of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def release_id(folder: Path) -> str:
    """Returns the agents' name of a bundle: the first digits of the digest of its manifest."""
    return file_digest(folder / FILE)[:_RELEASE_DIGITS]


def write_manifest(folder: Path) -> None:
    """Lists every file of the folder but the manifest itself and its signature."""
    files = {
        path.relative_to(folder).as_posix(): FileEntry(file_digest(path), path.stat().st_size)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path not in {folder / FILE, folder / SIGNATURE}
    }
    (folder / FILE).write_bytes(msgspec.json.format(msgspec.json.encode(Manifest(files)), indent=1))


def check_manifest(folder: Path) -> Manifest:
    """Every listed file must be there with its digest, and no other; raises BundleError naming the file."""
    manifest = check_sizes(folder)
    for name, entry in manifest.files.items():
        if file_digest(folder / name) != entry.sha256:
            raise _changed(folder, name)
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        unlisted = name not in manifest.files and name != FILE and not (name == SIGNATURE and path.is_file())
        if path.is_symlink() or (not path.is_dir() and unlisted):
            raise BundleError(
                f"The bundle '{folder.name}' holds {name}, which its manifest does not list.",
                "Remove that file if it is yours; otherwise do not trust this copy.",
            )
    return manifest


def check_sizes(folder: Path) -> Manifest:
    """Raises BundleError unless every listed file is there with its size; their content is not read."""
    manifest = _read(folder / FILE)
    for name, entry in manifest.files.items():
        path = _inside(folder, name)
        if not path.is_file():
            raise BundleError(f"The bundle '{folder.name}' is damaged: {name} is missing.", _HINT)
        if path.stat().st_size != entry.size_bytes:
            raise _changed(folder, name)
    return manifest


def _changed(folder: Path, name: str) -> BundleError:
    return BundleError(f"The bundle '{folder.name}' is damaged: {name} was changed.", _HINT)


def _read(path: Path) -> Manifest:
    try:
        if path.stat().st_size > LARGEST_BYTES:  # a foreign bundle must not fill the memory before it is checked
            raise BundleError(f"{path} is too large for a manifest.", _HINT)
        manifest = msgspec.json.decode(path.read_bytes(), type=thread_safe(Manifest))
    except FileNotFoundError:
        raise BundleError(f"'{path.parent}' has no {FILE}.", "It is not a bundle, or it is damaged.") from None
    except OSError as error:
        raise BundleError(f"{path} cannot be read: {error.strerror}.", _HINT) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BundleError(f"{path} cannot be read: {error}.", _HINT) from None
    if manifest.schema != SCHEMA:
        raise BundleError(
            f"{path} has schema {manifest.schema}; this edgeopt reads schema {SCHEMA}.",
            "Use the edgeopt that wrote it.",
        )
    return manifest


def _inside(folder: Path, name: str) -> Path:
    """The path of a listed file; a name that leads out of the bundle is refused before anything is opened."""
    parts = PurePosixPath(name)
    if parts.is_absolute() or ".." in parts.parts or "\\" in name or "\0" in name or not parts.parts:
        raise BundleError(
            f"The manifest of '{folder.name}' names '{name}', which is not inside the bundle.", _HINT
        )
    path = folder / parts
    try:
        linked = path.is_symlink() or not path.resolve().is_relative_to(folder.resolve())
    except OSError as error:
        raise BundleError(
            f"The manifest of '{folder.name}' names '{name[:80]}', which is not a valid file name: "
            f"{error.strerror}.",
            _HINT,
        ) from None
    if linked:
        raise BundleError(
            f"'{name}' in the bundle '{folder.name}' is a link, which a bundle may not contain.", _HINT
        )
    return path
