"""The agents that this user has paired with: token and fingerprint by address, readable by the user alone."""

import os
import tempfile
from pathlib import Path

import msgspec

from edgeopt.errors import InputError, writing_to
from edgeopt.hw.user_folders import home_folder


class Pairing(msgspec.Struct, frozen=True):
    token: str = ""
    fingerprint: str = ""


def file() -> Path | None:
    """None for a user without a home folder, who has paired with no agent."""
    if named := os.environ.get("XDG_CONFIG_HOME"):
        return Path(named) / "edgeopt" / "agents.json"
    home = home_folder()
    return None if home is None else home / ".config" / "edgeopt" / "agents.json"


def all_of() -> dict[str, Pairing]:
    """By the address of the agent; raises InputError for a damaged file."""
    if (place := file()) is None:
        return {}
    try:
        return msgspec.json.decode(place.read_bytes(), type=dict[str, Pairing])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(
            f"The pairings in '{place}' cannot be read: {error}.", "Repair or remove it, then pair again."
        ) from None


def keep(url: str, pairing: Pairing) -> Path:
    """Replaces what is known of an agent; returns the file."""
    place, known = file(), {**all_of(), url: pairing}
    if place is None:
        raise InputError(
            "This user has no home folder to keep the pairing in.", "Set XDG_CONFIG_HOME to a folder."
        )
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
