"""Pairing with an agent by a one-time code: both sides prove that they know it and see the same certificate.

A man in the middle has another certificate, so neither proof holds and no token is sent.
"""

import getpass
import hashlib
import hmac
import os
import secrets
import tempfile
from dataclasses import replace
from pathlib import Path

import msgspec

from edgeopt.decoding import thread_safe
from edgeopt.errors import InputError, UsageError, writing_to
from edgeopt.fleet.address import Address, parse
from edgeopt.fleet.request import PairRequest
from edgeopt.fleet.transport import ask, normal_fingerprint, reaching, seen_fingerprint, understood
from edgeopt.platform.files import replace_path
from edgeopt.platform.user_folders import home_folder

LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""Letters of a pairing code: five bits each, none that looks like another."""
GROUPS, GROUP_LETTERS = 3, 4
PATH = "/api/v1/pair"
_TIMEOUT_S = 10.0


def address_of(url: str, token: str = "", fingerprint: str = "") -> Address:
    """Returns an agent's address; token and fingerprint are the given ones, the environment's, or a pairing's."""
    token = token or os.environ.get("EDGEOPT_TOKEN", "").strip()
    plain = url.lower().startswith("http://")
    fingerprint = fingerprint or ("" if plain else os.environ.get("EDGEOPT_FINGERPRINT", "").strip())
    address = parse(url, token, normal_fingerprint(fingerprint) if fingerprint else "")
    paired = known_pairings().get(address.url, Pairing())
    return replace(
        address, token=address.token or paired.token, fingerprint=address.fingerprint or paired.fingerprint
    )


class Pairing(msgspec.Struct, frozen=True):
    token: str = ""
    fingerprint: str = ""


def pairings_file() -> Path | None:
    """Returns the file of the pairings, or None for a user without a home folder, who has no pairings."""
    if named := os.environ.get("XDG_CONFIG_HOME"):
        return Path(named) / "edgeopt" / "agents.json"
    home = home_folder()
    return None if home is None else home / ".config" / "edgeopt" / "agents.json"


def known_pairings() -> dict[str, Pairing]:
    """Returns the pairings by the agent's address; raises InputError for a damaged file."""
    if (place := pairings_file()) is None:
        return {}
    try:
        return msgspec.json.decode(place.read_bytes(), type=thread_safe(dict[str, Pairing]))
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(
            f"The pairings in '{place}' cannot be read: {error}.", "Repair or remove it, then pair again."
        ) from None


def store_pairing(url: str, pairing: Pairing) -> Path:
    """Replaces what is known of an agent; returns the file."""
    place, known = pairings_file(), {**known_pairings(), url: pairing}
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
            replace_path(Path(fresh), place)
        finally:
            Path(fresh).unlink(missing_ok=True)
    return place


class PairProof(msgspec.Struct, frozen=True):
    """Message by which a client proves that it knows the code."""

    nonce: str
    proof: str


class PairAnswer(msgspec.Struct, frozen=True):
    """Answer of an agent to a client whose proof holds."""

    proof: str
    name: str
    role: str
    token: str


class Paired(msgspec.Struct, frozen=True):
    url: str
    name: str
    role: str
    fingerprint: str
    stored_in: str


def key_of(code: str) -> bytes:
    """Returns the key of the proofs, derived from the code; raises UsageError if it cannot be a code."""
    letters = "".join(code.upper().replace("-", " ").split())
    if len(letters) != GROUPS * GROUP_LETTERS or set(letters) - set(LETTERS):
        raise UsageError(
            "This is not a pairing code.",
            "Type it as the device shows it: three groups of four letters and digits.",
        )
    return hashlib.sha256(b"edgeopt pairing " + letters.encode()).digest()


def proof_of(side: str, key: bytes, fingerprint: str, nonce: str) -> str:
    """Returns the proof that a side (`client` or `agent`) knows the code and sees this certificate."""
    message = "\n".join(("edgeopt pairing", side, fingerprint, nonce)).encode()
    return hmac.new(key, message, hashlib.sha256).hexdigest()


def pair(request: PairRequest) -> Paired:
    """Gets a token from an agent and keeps it, with the fingerprint of the agent's certificate."""
    address = parse(request.url)
    with reaching(address, _TIMEOUT_S):
        seen = seen_fingerprint(address, _TIMEOUT_S) if address.scheme == "https" else ""
    key = key_of(request.code or _prompt_for_code())
    known = Address(address.host, address.port, "", address.scheme, seen)
    nonce = secrets.token_hex(16)
    body = msgspec.json.encode(PairProof(nonce, proof_of("client", key, seen, nonce)))
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
    answer = understood(known, ask(known, "POST", PATH, _TIMEOUT_S, [body], headers), PairAnswer)
    if not hmac.compare_digest(answer.proof, proof_of("agent", key, seen, nonce)):
        raise InputError(
            f"The server at {address.url} does not know the code, so it is not the device that shows it.",
            "Check --url and the network. Nothing was stored.",
        )
    place = store_pairing(address.url, Pairing(answer.token, seen))
    return Paired(address.url, answer.name, answer.role, seen, str(place))


def _prompt_for_code() -> str:
    try:
        return getpass.getpass("Code that `edgeopt-agent pair NAME` shows on the device: ")
    except (EOFError, OSError):
        raise UsageError(
            "The code cannot be typed here: the input is not a terminal.", "Pass it with --code."
        ) from None
