"""Short JSON documents signed with the keys of bundles: ed25519 in a DSSE envelope around the raw bytes."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from edgeopt.bundle.sign import (
    Envelope,
    EnvelopeSignature,
    PublicKey,
    key_fits,
    key_id,
    load_private_key,
    signed_bytes,
)
from edgeopt.decoding import thread_safe
from edgeopt.errors import InputError


class SignatureError(InputError):
    code = "bad-signature"


def sign_document(payload_type: str, payload: bytes, private_key_file: Path) -> bytes:
    """The envelope around a document; `payload_type` says what it is, and is signed too."""
    private = load_private_key(private_key_file)
    key = PublicKey(private.public_key().public_bytes_raw())
    signature = EnvelopeSignature(key_id(key), private.sign(signed_bytes(payload_type, payload)))
    return msgspec.json.encode(Envelope(payload, payload_type, [signature]))


def opened_document(content: bytes, payload_type: str) -> Envelope | None:
    """The envelope in some JSON, unchecked; None where the JSON is something else."""
    try:
        found = msgspec.json.decode(content, type=thread_safe(Envelope))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found if found.payload_type == payload_type else None


def public_half(private_key_file: Path) -> PublicKey:
    """The public key of a private one."""
    return PublicKey(load_private_key(private_key_file).public_key().public_bytes_raw())


def verify_document(envelope: Envelope, keys: Sequence[PublicKey]) -> str:
    """The id of the key, one of these, that signed it; raises SignatureError otherwise."""
    by_id = {key_id(key): key for key in keys}
    known = [(by_id[each.keyid], each.sig) for each in envelope.signatures if each.keyid in by_id]
    for key, signature in known:
        if key_fits(key, signature, envelope):
            return key_id(key)
    if known:
        raise SignatureError("The signature does not match the document.", "Sign the document again.")
    raise SignatureError(
        "The document is signed by a key that is not trusted here.",
        f"Trusted: {', '.join(by_id) or 'no key'}. Sign it with a trusted key, or trust that one.",
    )
