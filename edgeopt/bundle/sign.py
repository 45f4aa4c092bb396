"""Signatures of bundles: ed25519 over the manifest's raw bytes, in a DSSE envelope beside it.

The manifest holds the digest of every other file, so its signature is one over the bundle. Public keys need no
library to be read and compared; making and checking a signature does (`sign` extra). The sequence number of the
release is a parameter of the payload type, which DSSE signs as well.
"""

import base64
import binascii
import contextlib
import hashlib
import os
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from edgeopt.bundle.archive import OpenedArchive, pack_into
from edgeopt.bundle.deployment import check_outside_bundles
from edgeopt.bundle.durable import publish_file, remove
from edgeopt.bundle.manifest import FILE, SIGNATURE, check_manifest
from edgeopt.decoding import thread_safe
from edgeopt.errors import (
    BundleError,
    EdgeoptError,
    InputError,
    MissingExtraError,
    UsageError,
    error_text,
    writing_to,
)
from edgeopt.platform.files import replace_path

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PAYLOAD_TYPE = "application/vnd.edgeopt.manifest+json"
"""Type of the signed payload; `;sequence=N` follows, except in old signatures, which count as 0."""
_TYPE = re.compile(rf"{re.escape(PAYLOAD_TYPE)}(?:;sequence=([0-9]{{1,16}}))?")
_KEY_BYTES = 32
# A SubjectPublicKeyInfo of ed25519 (RFC 8410) is this, then the 32 bytes of the key.
_DER_HEAD = bytes.fromhex("302a300506032b6570032100")
_PEM_BEGIN, _PEM_END = "-----BEGIN PUBLIC KEY-----", "-----END PUBLIC KEY-----"
_LONGEST_KEY_FILE_BYTES = 16 << 10


@dataclass(frozen=True, slots=True)
class PublicKey:
    raw: bytes

    def text(self) -> str:
        """Returns the key as its file holds it: PEM, which openssl reads too."""
        return f"{_PEM_BEGIN}\n{base64.b64encode(_DER_HEAD + self.raw).decode()}\n{_PEM_END}\n"


class EnvelopeSignature(msgspec.Struct, frozen=True):
    keyid: str
    sig: bytes


class Envelope(msgspec.Struct, frozen=True, rename={"payload_type": "payloadType"}):
    payload: bytes
    payload_type: str
    signatures: list[EnvelopeSignature]


class Signed(msgspec.Struct, frozen=True):
    bundle: str
    key_id: str
    sequence: int = 0


class NewKey(msgspec.Struct, frozen=True):
    key_id: str
    private_key_file: str
    public_key_file: str


def key_id(key: PublicKey) -> str:
    """The name of a key: the first 16 hex digits of its SHA-256."""
    return hashlib.sha256(key.raw).hexdigest()[:16]


def new_key(path: Path) -> NewKey:
    """Writes a new private key, readable by its owner alone, and its public half as PATH.pub; replaces nothing."""
    _check_installed()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    public_file = path.with_name(path.name + ".pub")
    taken = next((each for each in (path, public_file) if os.path.lexists(each)), None)
    if taken is not None:
        raise UsageError(f"'{taken}' already exists; keys are never replaced.", "Choose another name.")
    if not path.parent.is_dir():
        raise UsageError(
            f"The folder '{path.parent}' does not exist.", "Create it first, or choose another place."
        )
    check_outside_bundles(path)
    private = Ed25519PrivateKey.generate()
    text = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = PublicKey(private.public_key().public_bytes_raw())
    _write_pair((path, text, 0o600), (public_file, public.text().encode(), 0o644))
    return NewKey(key_id(public), str(path), str(public_file))


def load_public_key(source: Path | str) -> PublicKey:
    """The public key in a file (a path) or in a text; raises InputError when it is none."""
    text, where = (_read_key(source), f"'{source}'") if isinstance(source, Path) else (source, "The text")
    if "PRIVATE KEY" in text:
        raise InputError(
            f"{where} holds a private key; a public one is needed.",
            "Give the .pub file; keep the private key where bundles are signed.",
        )
    body = text.partition(_PEM_BEGIN)[2].partition(_PEM_END)
    try:
        der = base64.b64decode("".join(body[0].split()), validate=True) if body[1] else b""
    except (binascii.Error, ValueError):
        der = b""
    if len(der) != len(_DER_HEAD) + _KEY_BYTES or not der.startswith(_DER_HEAD):
        raise InputError(
            f"{where} holds no ed25519 public key.",
            "Create a key pair with: edgeopt sign --new-key PATH (gives PATH.pub)",
        )
    return PublicKey(der[len(_DER_HEAD) :])


def sign_bundle(bundle: Path, private_key_file: Path, sequence: int | None = None) -> Signed:
    """Signs a sound bundle, a folder or one file; an older signature is replaced.

    Agents refuse a release with a lower sequence number; the default is the time in seconds since 1970.
    """
    if sequence is None:
        sequence = int(time.time())
    if not bundle.is_file():
        return _sign(bundle, private_key_file, sequence)
    # Unpacked for this alone: what others hold stays as it is.
    unpacked = OpenedArchive(bundle)
    try:
        signed = _sign(unpacked.folder, private_key_file, sequence)
        pack_into(unpacked.folder, bundle.resolve())
    except EdgeoptError as error:
        unpacked.name_file_in(error)
        raise
    finally:
        unpacked.close()
    return Signed(str(bundle), signed.key_id, sequence)


def _sign(folder: Path, private_key_file: Path, sequence: int) -> Signed:
    check_manifest(folder)
    private = load_private_key(private_key_file)
    payload = (folder / FILE).read_bytes()
    key = PublicKey(private.public_key().public_bytes_raw())
    payload_type = f"{PAYLOAD_TYPE};sequence={sequence}"
    signature = EnvelopeSignature(key_id(key), private.sign(signed_bytes(payload_type, payload)))
    envelope = Envelope(payload, payload_type, [signature])
    _replace(folder / SIGNATURE, msgspec.json.format(msgspec.json.encode(envelope), indent=1))
    return Signed(str(folder), key_id(key), sequence)


def claimed_key(folder: Path) -> str | None:
    """Returns the id of the key that a signature names, unchecked; None for an unsigned bundle.

    Raises BundleError for the signature of another manifest, which shows without a key.
    """
    if not (folder / SIGNATURE).exists():
        return None
    envelope = _envelope(folder)
    if envelope.payload != (folder / FILE).read_bytes():
        raise _mismatch(folder)
    return envelope.signatures[0].keyid


def claimed_sequence(folder: Path) -> int:
    """The sequence number in a bundle's signature, unchecked; 0 without a signature."""
    if not (folder / SIGNATURE).exists():
        return 0
    found = _TYPE.fullmatch(_envelope(folder).payload_type)
    return int(found[1] or 0) if found else 0


def sequence_in(signature: bytes) -> int:
    """The same of the content of a signature; 0 where it is none."""
    try:
        envelope = msgspec.json.decode(signature, type=thread_safe(Envelope))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return 0
    found = _TYPE.fullmatch(envelope.payload_type)
    return int(found[1] or 0) if found else 0


def verify_signature(folder: Path, keys: Sequence[PublicKey], place: str = "BUNDLE") -> str:
    """The id of the key, one of these, that signed this very manifest; raises BundleError otherwise.

    It vouches for the manifest; `check_manifest` must still say that the files are those of the manifest.
    `place`: the bundle as a command names it.
    """
    if not (folder / SIGNATURE).exists():
        raise BundleError(
            f"The bundle '{folder.name}' is not signed.", f"Sign it with: edgeopt sign {place} --key KEY"
        )
    envelope = _envelope(folder)
    manifest = (folder / FILE).read_bytes()
    by_id = {key_id(key): key for key in keys}
    known = [(by_id[s.keyid], s.sig) for s in envelope.signatures if s.keyid in by_id]
    if not known:
        raise BundleError(
            f"The bundle '{folder.name}' is signed by the key {envelope.signatures[0].keyid[:16]}, "
            "which is not trusted here.",
            f"Trusted: {', '.join(by_id) or 'no key'}. Sign it with a trusted key, or trust that one.",
        )
    for key, signature in known:
        if envelope.payload == manifest and key_fits(key, signature, envelope):
            return key_id(key)
    raise _mismatch(folder)


def _mismatch(folder: Path) -> BundleError:
    return BundleError(
        f"The signature of the bundle '{folder.name}' does not match its manifest: one of them was changed.",
        "Do not use this copy; fetch the bundle again, or sign it again where it was made.",
    )


def key_fits(key: PublicKey, signature: bytes, envelope: Envelope) -> bool:
    _check_installed()
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    signed = signed_bytes(envelope.payload_type, envelope.payload)
    try:
        Ed25519PublicKey.from_public_bytes(key.raw).verify(signature, signed)
    except InvalidSignature:
        return False
    return True


def signed_bytes(payload_type: str, payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding: https://github.com/secure-systems-lab/dsse/blob/master/protocol.md"""
    return b"DSSEv1 %d %s %d %s" % (len(payload_type), payload_type.encode(), len(payload), payload)


def _envelope(folder: Path) -> Envelope:
    file = folder / SIGNATURE
    try:
        if file.is_symlink() or file.stat().st_size > 2 * (folder / FILE).stat().st_size + 4096:
            raise BundleError(f"{SIGNATURE} of the bundle '{folder.name}' is not a signature.", "Sign it again.")
        envelope = msgspec.json.decode(file.read_bytes(), type=thread_safe(Envelope))
    except OSError as error:
        raise BundleError(f"{file} cannot be read: {error.strerror}.", "Sign the bundle again.") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BundleError(f"{file} is not a signature: {error}.", "Sign the bundle again.") from None
    if not _TYPE.fullmatch(envelope.payload_type) or not envelope.signatures:
        raise BundleError(f"{file} is not a signature of an edgeopt bundle.", "Sign the bundle again.")
    return envelope


def load_private_key(path: Path) -> "Ed25519PrivateKey":
    _check_installed()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    hint = "Create one with: edgeopt sign --new-key PATH"
    try:
        found = load_pem_private_key(_read_key(path).encode(), password=None)
    except TypeError:
        raise InputError(
            f"The key '{path}' is protected by a password, which edgeopt does not support.", hint
        ) from None
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InputError(f"'{path}' holds no private key: {error_text(error)}", hint) from None
    if not isinstance(found, Ed25519PrivateKey):
        raise InputError(f"'{path}' holds a private key that is not ed25519.", hint)
    return found


def _read_key(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_LONGEST_KEY_FILE_BYTES).decode("ascii", errors="replace")
    except OSError as error:
        raise InputError(f"The key '{path}' cannot be read: {error.strerror}.", "Check the path.") from None


def _check_installed() -> None:
    from importlib.util import find_spec

    if find_spec("cryptography") is None:
        raise MissingExtraError("sign", "Signing and checking signatures")


def _write_pair(*files: tuple[Path, bytes, int]) -> None:
    """Writes new files, each with its mode, all of them or none."""
    published: list[Path] = []
    with contextlib.ExitStack() as drafts:
        try:
            ready = [drafts.enter_context(_draft(path, path.parent, text, mode)) for path, text, mode in files]
            for draft, (path, _, _) in zip(ready, files, strict=True):
                with writing_to(path):
                    publish_file(draft, path)
                published.append(path)
        except BaseException:
            for path in published:
                remove(path)
            raise


def _replace(path: Path, content: bytes) -> None:
    """Written beside the bundle first: a file left inside it by a crash would make it damaged."""
    mode = (path.parent / FILE).stat().st_mode & 0o777
    with _draft(path, path.parent.resolve().parent, content, mode) as draft, writing_to(path):
        replace_path(draft, path)


@contextlib.contextmanager
def _draft(path: Path, folder: Path, content: bytes, mode: int) -> Iterator[Path]:
    """Yields a hidden file with the content, synced to disk, to be moved to `path`; removes the file otherwise."""
    with writing_to(path):
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=folder)
    try:
        with writing_to(path), os.fdopen(descriptor, "wb") as file:
            Path(name).chmod(mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield Path(name)
    finally:
        remove(Path(name))
