"""The public keys in an agent's `trust/`: adding, listing and removing them."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from edgeopt.bundle.sign import key_id, load_public_key
from edgeopt.errors import InputError
from edgeopt_agent.data_dir import DataDir, make_private, sync_folder, write_whole
from edgeopt_agent.trust import SUFFIX, trusted_files


class TrustedKey(msgspec.Struct, frozen=True):
    id: str
    since: str


class TrustedKeys(msgspec.Struct, frozen=True):
    data_dir: str
    keys: tuple[TrustedKey, ...]


def trusted(data_dir: Path) -> TrustedKeys:
    """Returns the keys that are trusted now, by id."""
    files = trusted_files(DataDir(data_dir).trust)
    return TrustedKeys(str(data_dir), tuple(TrustedKey(file.stem, _since(file)) for file in files))


def add(data_dir: Path, file: Path) -> TrustedKeys:
    """Trusts the key in a file; one that is trusted already stays so."""
    key = load_public_key(file)
    folder = DataDir(data_dir).trust
    for each in (data_dir, folder):
        make_private(each)
    place = folder / f"{key_id(key)}{SUFFIX}"
    if not place.exists():
        write_whole(place, key.text())
    return trusted(data_dir)


def remove(data_dir: Path, key: str) -> TrustedKeys:
    """Trusts a key no longer; raises InputError for one that was not trusted."""
    known = {file.stem: file for file in trusted_files(DataDir(data_dir).trust)}
    if key not in known:
        raise InputError(f"No key '{key}' is trusted in {data_dir}.", f"Trusted: {', '.join(known) or 'no key'}.")
    known[key].unlink()
    sync_folder(known[key].parent)
    return trusted(data_dir)


def _since(file: Path) -> str:
    return datetime.fromtimestamp(file.stat().st_mtime, UTC).isoformat(timespec="seconds")
