import base64
import json
import os
import shutil
import subprocess
import time

import msgspec
import pytest

from edgeopt.bundle.manifest import SIGNATURE, check_manifest, write_manifest
from edgeopt.bundle.sign import (
    PAYLOAD_TYPE,
    claimed_key,
    claimed_sequence,
    key_id,
    load_public_key,
    new_key,
    sign_bundle,
    verify_signature,
)
from edgeopt.errors import BundleError, DiskFullError, InputError, MissingExtraError, UsageError


@pytest.fixture
def pair(tmp_path):
    """A key pair: the private key's file, and the public key."""
    made = new_key(tmp_path / "key")
    return tmp_path / "key", load_public_key(tmp_path / made.public_key_file)


@pytest.fixture
def other(tmp_path):
    made = new_key(tmp_path / "other")
    return tmp_path / "other", load_public_key(tmp_path / made.public_key_file)


def test_a_new_key_is_private_and_replaces_nothing(tmp_path):
    made = new_key(tmp_path / "key")
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    assert key_id(load_public_key(tmp_path / "key.pub")) == made.key_id
    assert all(text.isascii() for text in ((tmp_path / "key").read_text(), (tmp_path / "key.pub").read_text()))
    before = (tmp_path / "key").read_bytes()
    with pytest.raises(UsageError, match="already exists"):
        new_key(tmp_path / "key")
    (tmp_path / "key").unlink()
    with pytest.raises(UsageError, match=r"key\.pub' already exists"):
        new_key(tmp_path / "key")
    assert not (tmp_path / "key").exists()
    assert before


def test_no_key_into_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match="does not exist"):
        new_key(tmp_path / "nowhere" / "key")


def test_no_key_into_a_bundle(bundle):
    with pytest.raises(UsageError, match="is inside the bundle"):
        new_key(bundle / "key")
    check_manifest(bundle)


def test_a_signed_bundle_is_vouched_for_and_still_sound(bundle, pair, other):
    private, public = pair
    signed = sign_bundle(bundle, private)
    assert signed.key_id == key_id(public) == claimed_key(bundle)
    assert verify_signature(bundle, [other[1], public]) == key_id(public)
    check_manifest(bundle)


def test_signing_leaves_nothing_beside_the_bundle(bundle, pair):
    before = set(bundle.parent.iterdir())
    sign_bundle(bundle, pair[0])
    assert set(bundle.parent.iterdir()) == before
    assert (bundle / SIGNATURE).stat().st_mode & 0o777 == (bundle / "manifest.json").stat().st_mode & 0o777


def test_a_new_signature_replaces_the_old_one(bundle, pair, other):
    sign_bundle(bundle, pair[0])
    sign_bundle(bundle, other[0])
    assert verify_signature(bundle, [other[1]]) == key_id(other[1])
    with pytest.raises(BundleError, match="not trusted here"):
        verify_signature(bundle, [pair[1]])


def test_the_envelope_is_dsse_over_the_raw_bytes(bundle, pair, tmp_path):
    """As others check it: openssl over the pre-authentication encoding, with our files as they are."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    sign_bundle(bundle, pair[0])
    envelope = json.loads((bundle / SIGNATURE).read_bytes())
    payload = base64.b64decode(envelope["payload"])
    assert payload == (bundle / "manifest.json").read_bytes()
    kind = envelope["payloadType"]
    assert kind.startswith(PAYLOAD_TYPE)
    head = f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode()
    (tmp_path / "signed").write_bytes(head + payload)
    (tmp_path / "sig").write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "key.pub", "-rawin", "-in", "signed"]
    done = subprocess.run([*command, "-sigfile", "sig"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_unsigned_bundle(bundle, pair):
    assert claimed_key(bundle) is None
    with pytest.raises(BundleError, match="is not signed"):
        verify_signature(bundle, [pair[1]])


def test_an_unknown_key_is_named(bundle, pair, other):
    sign_bundle(bundle, other[0])
    with pytest.raises(BundleError, match=f"signed by the key {key_id(other[1])}, which is not trusted"):
        verify_signature(bundle, [pair[1]])
    with pytest.raises(BundleError, match="not trusted"):
        verify_signature(bundle, [])


def edit(bundle, change):
    envelope = json.loads((bundle / SIGNATURE).read_bytes())
    change(envelope)
    (bundle / SIGNATURE).write_text(json.dumps(envelope))


def flipped(text):
    return base64.b64encode(bytes([base64.b64decode(text)[0] ^ 1, *base64.b64decode(text)[1:]])).decode()


ALTERED = {
    "manifest": lambda b, _: (b / "manifest.json").write_bytes((b / "manifest.json").read_bytes() + b" "),
    "payload": lambda b, _: edit(b, lambda e: e.update(payload=flipped(e["payload"]))),
    "signature": lambda b, _: edit(b, lambda e: e["signatures"][0].update(sig=flipped(e["signatures"][0]["sig"]))),
    "sequence": lambda b, _: edit(b, lambda e: e.update(payloadType=e["payloadType"] + "0")),
    "no sequence": lambda b, _: edit(b, lambda e: e.update(payloadType=PAYLOAD_TYPE)),
    "short signature": lambda b, _: edit(b, lambda e: e["signatures"][0].update(sig="AAAA")),
    "key id": lambda b, other: edit(b, lambda e: e["signatures"][0].update(keyid=other)),
}


@pytest.mark.parametrize("how", ALTERED)
def test_whatever_was_altered_is_refused(bundle, pair, other, how):
    sign_bundle(bundle, pair[0])
    ALTERED[how](bundle, key_id(other[1]))
    with pytest.raises(BundleError, match="was changed"):
        verify_signature(bundle, [pair[1], other[1]])


def test_the_sequence_number_is_the_time_unless_it_is_given(bundle, pair):
    before = int(time.time())
    signed = sign_bundle(bundle, pair[0])
    assert before <= signed.sequence == claimed_sequence(bundle) <= time.time()
    assert sign_bundle(bundle, pair[0], 7).sequence == claimed_sequence(bundle) == 7


def without_number(bundle, private):
    """Signed as it was before signatures had numbers."""
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    sign_bundle(bundle, private)
    payload = (bundle / "manifest.json").read_bytes()
    signed = f"DSSEv1 {len(PAYLOAD_TYPE)} {PAYLOAD_TYPE} {len(payload)} ".encode() + payload
    signature = base64.b64encode(load_pem_private_key(private.read_bytes(), None).sign(signed)).decode()
    edit(bundle, lambda e: (e.update(payloadType=PAYLOAD_TYPE), e["signatures"][0].update(sig=signature)))


def test_a_signature_without_a_number_holds_and_counts_as_0(bundle, pair):
    without_number(bundle, pair[0])
    assert verify_signature(bundle, [pair[1]]) == key_id(pair[1])
    assert claimed_sequence(bundle) == 0


def test_a_signature_of_another_bundle(bundle, pair, tmp_path):
    sign_bundle(bundle, pair[0])
    (bundle / "ledger.json").write_text("[1]")
    write_manifest(bundle)
    check_manifest(bundle)
    with pytest.raises(BundleError, match="was changed"):
        verify_signature(bundle, [pair[1]])


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[]", b"\xff", b'{"payload": "", "payloadType": "x", "signatures": []}', b" " * 100_000],
)
def test_what_is_no_signature(bundle, pair, content):
    (bundle / SIGNATURE).write_bytes(content)
    with pytest.raises(BundleError, match="not a signature"):
        verify_signature(bundle, [pair[1]])
    with pytest.raises(BundleError, match="not a signature"):
        claimed_key(bundle)


def test_a_signature_of_something_else_with_the_same_key(bundle, pair):
    sign_bundle(bundle, pair[0])
    edit(bundle, lambda e: e.update(payloadType="text/plain"))
    with pytest.raises(BundleError, match="not a signature of an edgeopt bundle"):
        verify_signature(bundle, [pair[1]])


def test_a_linked_signature_is_refused(bundle, pair, tmp_path):
    sign_bundle(bundle, pair[0])
    (bundle / SIGNATURE).rename(tmp_path / "sig")
    (bundle / SIGNATURE).symlink_to(tmp_path / "sig")
    with pytest.raises(BundleError, match="not a signature"):
        verify_signature(bundle, [pair[1]])
    with pytest.raises(BundleError, match="does not list"):
        check_manifest(bundle)


def test_a_damaged_bundle_is_not_signed(bundle, pair):
    (bundle / "ledger.json").write_text("[1]")
    with pytest.raises(BundleError, match="damaged"):
        sign_bundle(bundle, pair[0])
    assert not (bundle / SIGNATURE).exists()


def test_a_failed_signing_leaves_the_old_signature_and_nothing_else(bundle, pair, other, monkeypatch):
    sign_bundle(bundle, pair[0])
    before = set(bundle.parent.iterdir())
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(DiskFullError, match=r"no room for .*manifest\.sig\.json"):
        sign_bundle(bundle, other[0])
    assert verify_signature(bundle, [pair[1]])
    assert set(bundle.parent.iterdir()) == before


@pytest.mark.parametrize("fails_at", [1, 2, 3])
def test_a_key_that_does_not_fit_leaves_nothing_in_the_way_of_another_try(tmp_path, monkeypatch, fails_at):
    calls, real = [], os.fsync

    def fsync(descriptor):
        calls.append(descriptor)
        if len(calls) == fails_at:
            raise OSError(28, "No space left on device")
        real(descriptor)

    monkeypatch.setattr("os.fsync", fsync)
    with pytest.raises(DiskFullError, match=r"no room for .*key"):
        new_key(tmp_path / "key")
    assert list(tmp_path.iterdir()) == []
    new_key(tmp_path / "key")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["key", "key.pub"]
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600


RSA_SIZED = "-----BEGIN PUBLIC KEY-----\n" + base64.b64encode(b"x" * 90).decode() + "\n-----END PUBLIC KEY-----\n"


@pytest.mark.parametrize(
    "text",
    ["", "ssh-ed25519 AAAA", RSA_SIZED, "-----BEGIN PUBLIC KEY-----\n####\n-----END PUBLIC KEY-----"],
)
def test_what_is_no_public_key(text, tmp_path):
    (tmp_path / "k.pub").write_text(text)
    for source in (text, tmp_path / "k.pub"):
        with pytest.raises(InputError, match="no ed25519 public key"):
            load_public_key(source)


def test_the_private_key_given_for_the_public_one(pair):
    with pytest.raises(InputError, match="private key; a public one"):
        load_public_key(pair[0])


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\xff" * 100, b"-----BEGIN PRIVATE KEY-----\nAAAA\n"])
def test_what_is_no_private_key(bundle, tmp_path, content):
    (tmp_path / "k").write_bytes(content)
    with pytest.raises(InputError, match="no private key"):
        sign_bundle(bundle, tmp_path / "k")


def test_private_keys_of_other_kinds_and_locked_ones(bundle, tmp_path):
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ed25519, x25519

    def write(key, lock):
        (tmp_path / "k").write_bytes(key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, lock))

    write(x25519.X25519PrivateKey.generate(), form.NoEncryption())
    with pytest.raises(InputError, match="not ed25519"):
        sign_bundle(bundle, tmp_path / "k")
    write(ed25519.Ed25519PrivateKey.generate(), form.BestAvailableEncryption(b"secret"))
    with pytest.raises(InputError, match="password"):
        sign_bundle(bundle, tmp_path / "k")


def test_keys_that_are_not_there(bundle, tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        sign_bundle(bundle, tmp_path / "k")
    with pytest.raises(InputError, match="cannot be read"):
        load_public_key(tmp_path / "k")


def test_without_the_library_the_extra_is_named_and_public_keys_still_work(bundle, pair, monkeypatch):
    sign_bundle(bundle, pair[0])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "cryptography" else object())
    for call in (lambda: sign_bundle(bundle, pair[0]), lambda: verify_signature(bundle, [pair[1]])):
        with pytest.raises(MissingExtraError, match="'sign' extra"):
            call()
    assert claimed_key(bundle) == key_id(load_public_key(pair[1].text()))


def test_the_results_are_records(bundle, pair, tmp_path):
    signed = msgspec.to_builtins(sign_bundle(bundle, pair[0], 3))
    assert signed == {"bundle": str(bundle), "key_id": key_id(pair[1]), "sequence": 3}
