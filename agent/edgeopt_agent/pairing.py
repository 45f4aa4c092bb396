"""The one-time code by which a client gets a token: its digest, in a file for the agent's user alone."""

import hmac
import secrets
import time
from pathlib import Path

import msgspec

from edgeopt.decoding import thread_safe
from edgeopt.errors import InputError
from edgeopt.fleet.pairing import GROUP_LETTERS, GROUPS, LETTERS, PairAnswer, PairProof, key_of, proof_of
from edgeopt_agent import tokens
from edgeopt_agent.data_dir import make_private, remove, write_whole
from edgeopt_agent.deployments.refused import RefusedError
from edgeopt_agent.tokens import Role

VALID_S = 300.0
MAX_TRIES = 5


class NewCode(msgspec.Struct, frozen=True):
    name: str
    role: Role
    code: str
    valid_s: float


class _Waiting(msgspec.Struct, frozen=True):
    name: str
    role: Role
    key: str
    expires_s: float
    tries: int = 0


def new_code(data_dir: Path, name: str, role: Role) -> NewCode:
    """Makes a code, which replaces a pending one; raises for a name that no token can have."""
    tokens.check_name(data_dir, name)
    letters = [secrets.choice(LETTERS) for _ in range(GROUPS * GROUP_LETTERS)]
    code = "-".join("".join(letters[k : k + GROUP_LETTERS]) for k in range(0, len(letters), GROUP_LETTERS))
    make_private(data_dir)
    _write(data_dir, _Waiting(name, role, key_of(code).hex(), time.time() + VALID_S))
    return NewCode(name, role, code, VALID_S)


def is_waiting(data_dir: Path) -> bool:
    return _waiting(data_dir) is not None


def redeem(data_dir: Path, fingerprint: str, sent: PairProof) -> PairAnswer:
    """Returns a token for a client that proves the code over this certificate; otherwise counts the try."""
    waiting = _waiting(data_dir)
    if waiting is None:
        raise RefusedError(
            409,
            "no-pairing",
            "No pairing code is pending on this agent.",
            "On the device: edgeopt-agent pair NAME",
        )
    key = bytes.fromhex(waiting.key)
    if not hmac.compare_digest(sent.proof.encode(), proof_of("client", key, fingerprint, sent.nonce).encode()):
        _count(data_dir, waiting)
    remove(_place(data_dir))  # first: it holds once
    try:
        made = tokens.add(data_dir, waiting.name, waiting.role)
    except InputError as error:
        raise RefusedError(409, "name-taken", error.message, error.hint) from None
    return PairAnswer(proof_of("agent", key, fingerprint, sent.nonce), made.name, made.role, made.token)


def _count(data_dir: Path, waiting: _Waiting) -> None:
    tries = waiting.tries + 1
    if tries >= MAX_TRIES:
        remove(_place(data_dir))
    else:
        try:
            _write(data_dir, msgspec.structs.replace(waiting, tries=tries))
        except BaseException:
            remove(_place(data_dir))  # a try that cannot be counted is the last one
            raise
    left = MAX_TRIES - tries
    raise RefusedError(
        403,
        "wrong-code",
        "The code does not match that of the device, or someone intercepts the connection. "
        + (f"{left} more tries." if left else "The code has expired."),
        "Compare code and address with the device."
        if left
        else "Create another one on the device: edgeopt-agent pair NAME",
    )


def _waiting(data_dir: Path) -> _Waiting | None:
    try:
        found = msgspec.json.decode(_place(data_dir).read_bytes(), type=thread_safe(_Waiting))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return found if found.expires_s - VALID_S <= time.time() < found.expires_s else None


def _write(data_dir: Path, waiting: _Waiting) -> None:
    write_whole(_place(data_dir), msgspec.json.encode(waiting).decode())


def _place(data_dir: Path) -> Path:
    return data_dir / "pairing.json"
