"""The access tokens in an agent's `tokens/`, a file each; only their SHA-256 is on the disk."""

import hmac
import re
import secrets
from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Literal

import msgspec

from edgeopt.decoding import thread_safe
from edgeopt.errors import InputError, UsageError
from edgeopt_agent.data_dir import DataDir, make_private, sync_folder, write_whole
from edgeopt_agent.settings import on_data_dir

Role = Literal["view", "infer", "deploy"]
ROLES: tuple[Role, ...] = ("view", "infer", "deploy")
"""Each may do all that those before it may."""
_SUFFIX = ".json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TOKEN_BYTES = 32


class StoredToken(msgspec.Struct, frozen=True):
    """A token as the disk holds it; its file has the token's name."""

    role: Role
    sha256: str
    since: str


class ListedToken(msgspec.Struct, frozen=True):
    name: str
    role: Role | Literal["unreadable"]
    since: str


class Tokens(msgspec.Struct, frozen=True):
    data_dir: str
    tokens: tuple[ListedToken, ...]


class NewToken(msgspec.Struct, frozen=True):
    name: str
    role: Role
    token: str


def token_files(folder: Path) -> list[Path]:
    """Raises OSError where the folder cannot be read: tokens that cannot be seen are still required."""
    return sorted(file for file in folder.iterdir() if _is_token(file)) if folder.exists() else []


def read_token(file: Path) -> StoredToken | None:
    """Returns the token in a file; None if the file is damaged or unreadable: it gives access to nobody."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=thread_safe(StoredToken))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def matching(token: str, known: Iterable[tuple[str, StoredToken]]) -> tuple[str, StoredToken] | None:
    """Returns the name and record of a token, None for an unknown one; takes the same time in each case."""
    digest = _digest(token)
    found = None
    for name, stored in known:
        if hmac.compare_digest(digest.encode(), stored.sha256.encode()):
            found = (name, stored)
    return found


def tokens_of(data_dir: Path) -> Tokens:
    """Returns all tokens by name."""
    return Tokens(str(data_dir), tuple(_listed(file) for file in token_files(DataDir(data_dir).tokens)))


def check_name(data_dir: Path, name: str) -> Path:
    """Returns the file of a new token; raises UsageError for an unusable name, InputError for a taken one."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"'{name}' cannot be the name of a token.",
            "Use at most 64 letters, digits, '.', '_' and '-', and begin with a letter or digit.",
        )
    folder = DataDir(data_dir).tokens
    place = folder / f"{name}{_SUFFIX}"
    if place.exists():
        remove_it = on_data_dir(f"edgeopt-agent token remove {name}", data_dir)
        raise InputError(
            f"A token named '{name}' already exists.",
            f"Choose another name, or remove it first on the device: {remove_it}",
        )
    return place


def add(data_dir: Path, name: str, role: Role) -> NewToken:
    """Makes a token; raises as `check_name` does."""
    place = check_name(data_dir, name)
    for each in (data_dir, place.parent):
        make_private(each)
    token = secrets.token_hex(_TOKEN_BYTES)
    stored = StoredToken(role, _digest(token), datetime.now(UTC).isoformat(timespec="seconds"))
    write_whole(place, msgspec.json.encode(stored).decode())
    return NewToken(name, role, token)


def remove(data_dir: Path, name: str) -> Tokens:
    """Removes a token; raises InputError if no token has that name."""
    known = {file.stem: file for file in token_files(DataDir(data_dir).tokens)}
    if name not in known:
        raise InputError(
            f"There is no token named '{name}' in {data_dir}.", f"Known: {', '.join(known) or 'none'}."
        )
    known[name].unlink()
    sync_folder(known[name].parent)
    return tokens_of(data_dir)


def _is_token(file: Path) -> bool:
    return file.suffix == _SUFFIX and not file.name.startswith(".")


def _listed(file: Path) -> ListedToken:
    stored = read_token(file)
    return (
        ListedToken(file.stem, stored.role, stored.since) if stored else ListedToken(file.stem, "unreadable", "")
    )


def _digest(token: str) -> str:
    return sha256(token.encode(errors="surrogateescape")).hexdigest()
