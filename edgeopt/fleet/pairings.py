"""The agents that this user has paired with: token and fingerprint by address, readable by the user alone."""

import os
import tempfile
from pathlib import Path

import msgspec

from edgeopt.errors import InputError, writing_to


class Pairing(msgspec.Struct, frozen=True):
    token: str = ""
    fingerprint: str = ""


def file() -> Path:
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(home) / "edgeopt" / "agents.json"


def all_of() -> dict[str, Pairing]:
    """By the address of the agent; raises InputError for a damaged file."""
    try:
        return msgspec.json.decode(file().read_bytes(), type=dict[str, Pairing])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(
            f"The pairings in '{file()}' cannot be read: {error}.", "Repair or remove it, then pair again."
        ) from None


def keep(url: str, pairing: Pairing) -> Path:
    """Replaces what is known of an agent; returns the file."""
    place, known = file(), {**all_of(), url: pairing}
    with writing_to(place):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, fresh = tempfile.mkstemp(prefix=".agents-", dir=place.parent)  # for its owner alone
        try:
            with os.fdopen(descriptor, "wb") as written:
                written.write(msgspec.json.format(msgspec.json.encode(known), indent=1))
                written.flush()
                os.fsync(written.fileno())
            Path(fresh).replace(place)
        finally:
            Path(fresh).unlink(missing_ok=True)
    return place
