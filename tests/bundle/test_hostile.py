"""Hostile and broken bundles, as folders and as single files: all refused with the reason."""

import base64
import gc
import io
import json
import os
import shutil
import stat
import struct
import tempfile
import zlib
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import numpy as np
import pytest

import edgeopt
from edgeopt.bundle.archive import pack
from edgeopt.bundle.deployment import FILE as PROFILE
from edgeopt.bundle.deployment import read_deployment
from edgeopt.bundle.manifest import FILE as MANIFEST
from edgeopt.bundle.manifest import SIGNATURE, write_manifest
from edgeopt.bundle.profile import read_profile
from edgeopt.bundle.runtime.check import check
from edgeopt.bundle.sign import load_public_key, new_key, sign_bundle
from edgeopt.cli.main import run
from edgeopt.errors import BundleError, EdgeoptError, VerificationError
from edgeopt.events import ignore

# What a maker of hostile bundles does to a sound one. Whoever edits a file knows its digest as well, so the
# manifest fits again unless it is what is broken.


def edit(name, change):
    """A change of one file that leaves the manifest as it was."""
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes()))


def profile(change):
    """A profile that is hostile itself: its digest fits."""

    def damage(folder):
        edit(PROFILE, change)(folder)
        write_manifest(folder)

    return damage


def listed(change):
    """A change of what the manifest says."""
    return edit(MANIFEST, lambda content: json.dumps(change(json.loads(content))).encode())


def golden(write):
    def damage(folder):
        write(folder / "golden/inputs.npz")
        write_manifest(folder)

    return damage


def options(**chosen):
    text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in chosen.items())
    return profile(
        lambda content: content.replace(b"[run.options]\nthreads = 1\n", f"[run.options]\n{text}".encode())
    )


def runs(model):
    return profile(lambda content: content.replace(b'model = "model/conv.onnx"', f'model = "{model}"'.encode()))


def swap_one_letter(content):
    return content[:-1] + bytes([content[-1] ^ 1])


def names(name):
    entry = {"sha256": "0" * 64, "size_bytes": 6}
    return listed(lambda m: {**m, "files": {**m["files"], name: entry}})


def lying_shape(file):
    """An array that claims a terabyte of numbers and holds four bytes."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (1, 1 << 40)})
    with ZipFile(file, "w") as archive:
        archive.writestr("x.npy", header.getvalue() + bytes(4))


def external(location):
    """A model whose weights lie elsewhere on the disk."""
    import onnx

    def damage(folder):
        path = folder / "model/conv.onnx"
        model = onnx.load(path)
        weight = model.graph.initializer[0]
        size = len(weight.raw_data)
        (folder.parent / "secret").write_bytes(bytes(size))
        weight.ClearField("raw_data")
        weight.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", location), ("length", str(size))):
            entry = weight.external_data.add()
            entry.key, entry.value = key, value
        path.write_bytes(model.SerializeToString())
        write_manifest(folder)

    return damage


CASES = {
    # The files and their list.
    "an edited model": (edit("model/conv.onnx", swap_one_letter), r"model/conv\.onnx was changed"),
    "a cut model": (edit("model/conv.onnx", lambda c: c[:-1]), r"model/conv\.onnx was changed"),
    "an edited golden array": (edit("golden/reference.npz", swap_one_letter), r"reference\.npz was changed"),
    "an edited profile": (edit(PROFILE, lambda c: c + b"\n"), r"deployment\.toml was changed"),
    "a missing model": (lambda f: (f / "model/conv.onnx").unlink(), r"model/conv\.onnx is missing"),
    "a missing profile": (lambda f: (f / PROFILE).unlink(), r"deployment\.toml is missing"),
    "no manifest": (lambda f: (f / MANIFEST).unlink(), r"has no manifest\.json"),
    "nothing at all": (lambda f: [shutil.rmtree(f), f.mkdir()], r"has no manifest\.json"),
    "a file too many": (lambda f: (f / "model/more.so").write_bytes(b"x"), r"holds model/more\.so, which its man"),
    "another bundle's manifest": (listed(lambda m: {**m, "files": {}}), "which its manifest does not list"),
    "a manifest of a later schema": (listed(lambda m: {**m, "schema": 99}), "has schema 99"),
    "a manifest with an unknown key": (listed(lambda m: {**m, "run_first": "x"}), "unknown field `run_first`"),
    "a manifest that is no JSON": (edit(MANIFEST, lambda c: c[: len(c) // 2]), r"manifest\.json cannot be read"),
    "a manifest of deep nesting": (edit(MANIFEST, lambda _: b'{"files":' + b"[" * 99_999), r"cannot be read"),
    "a huge manifest": (lambda f: os.truncate(f / MANIFEST, 33 << 20), "too large for a manifest"),
    "an absolute path in the manifest": (names("/etc/hostname"), "which is not inside the bundle"),
    "a way out in the manifest": (names("model/../../secret"), "which is not inside the bundle"),
    # The deployment profile.
    "a profile with an unknown key": (profile(lambda c: c + b"[hooks]\nrun = 'x'\n"), "unknown field `hooks`"),
    "a profile without a backend": (profile(lambda c: c.replace(b"backend =", b"# ")), "field `backend`"),
    "a profile of a later schema": (profile(lambda c: c.replace(b"schema = ", b"schema = 9")), "has schema 9"),
    "a profile that is no UTF-8": (profile(lambda c: b"\xff\xfe" + c), "not readable TOML: 'utf-8' codec"),
    "a huge profile": (profile(lambda c: c + b"#" * (5 << 20)), "too large for a deployment profile"),
    "a profile of deep nesting": (profile(lambda _: b"a = " + b"[" * 50_000), "not readable TOML"),
    "a key of 200,000 parts": (profile(lambda _: b"a." * 200_000 + b"a = 1"), "more than 32 parts"),
    "the same inside a table": (profile(lambda _: b"x = {'''}=''' = {" + b"'a'. " * 9_999), "more than 32 parts"),
    "a number of a million digits": (profile(lambda _: b"schema = " + b"9" * 1_000_000), "not readable TOML"),
    "a model outside": (runs("../secret"), r"runs '\.\./secret', which its manifest does not list"),
    "a model that is a system file": (runs("/etc/hostname"), "which its manifest does not list"),
    "an unknown backend": (profile(lambda c: c.replace(b"onnxruntime-cpu", b"toaster")), "'toaster'"),
    "an option that names a folder": (options(cache_dir="x"), "'cache_dir', which names a path"),
    "an entry that names a file": (options(entries="ep.context_file_path=/x"), "the runtime option 'entries'"),
    # What the runtimes would read.
    "weights outside the bundle": (external("../../secret"), "outside|escapes"),
    "weights at an absolute place": (external("/etc/hostname"), "[Aa]bsolute|outside"),
}  # fmt: skip

GOLDEN = {
    "pickled objects": lambda file: np.savez(file, x=np.array([{"a": 1}], dtype=object)),
    "a compressed bomb": lambda file: np.savez_compressed(file, x=np.zeros((1, 1 << 20), np.float32)),
    "a lying shape": lying_shape,
    "an array without samples": lambda file: np.savez(file, x=np.float32(1)),
    "a single array": lambda file: file.write_bytes(b"\x93NUMPY\x01\x00" + bytes(100)),
    "nothing": lambda file: file.unlink(),
}


@pytest.fixture(autouse=True)
def nothing_stays():
    """What was unpacked is gone, whatever was wrong with it."""
    yield
    own = f"edgeopt-bundle-{os.getpid()}-*"
    if any(Path(tempfile.gettempdir()).glob(own)):
        gc.collect()  # an error that was caught holds what it was about
    assert not any(Path(tempfile.gettempdir()).glob(own))


@pytest.fixture(params=["folder", "file"])
def formed(request, bundle):
    """The bundle as it is, or packed into one file of the same name."""

    def form():
        return bundle if request.param == "folder" else one_file(bundle)

    return form


def one_file(folder):
    home = folder.parent / "packed here"
    home.mkdir()
    with (home / folder.name).open("wb") as out:
        pack(folder, out)
    return home / folder.name


@pytest.mark.parametrize("damage", CASES)
def test_a_damaged_or_hostile_bundle(bundle, formed, damage):
    change, says = CASES[damage]
    change(bundle)
    path = formed()
    with pytest.raises(EdgeoptError, match=says) as raised:
        edgeopt.load(path)
    assert raised.value.exit_code == 3
    if isinstance(raised.value, BundleError):
        assert "edgeopt-bundle-" not in raised.value.message, "a folder that nobody knows"
    del raised  # what it holds goes without a search through all that there is


@pytest.mark.parametrize("kind", GOLDEN)
def test_golden_arrays_that_are_none(bundle, formed, kind):
    golden(GOLDEN[kind])(bundle)
    with pytest.raises(BundleError, match=r"golden/inputs\.npz"):
        check(formed(), ignore)


def test_answers_that_are_not_the_model_s_own(bundle, formed):
    np.savez(bundle / "golden/reference.npz", y=np.ones((3, 1, 10), np.float32))
    write_manifest(bundle)
    path = formed()
    with pytest.raises(VerificationError, match="it needs"):
        check(path, ignore)
    assert run(["verify", str(path)]) == 6


def no_signature(folder, _):
    (folder / SIGNATURE).unlink()


def of_another_bundle(folder, key):
    other = shutil.copytree(folder, folder.parent / "other")
    (other / "ledger.json").write_text("[1]")
    write_manifest(other)
    sign_bundle(other, key)
    shutil.copy(other / SIGNATURE, folder / SIGNATURE)


def edited_afterwards(folder, _):
    (folder / "ledger.json").write_text("[1]")
    write_manifest(folder)


def of_another_key(folder, key):
    new_key(key.with_name("theirs"))
    sign_bundle(folder, key.with_name("theirs"))


def nested(folder, _):
    text = json.loads((folder / SIGNATURE).read_bytes())
    (folder / SIGNATURE).write_text(json.dumps(text)[:-1] + ',"more":' + "[" * 3000 + "]" * 3000 + "}")


SIGNATURES = {
    no_signature: "is not signed",
    of_another_bundle: "does not match its manifest",
    edited_afterwards: "does not match its manifest",
    of_another_key: "is not trusted here",
    nested: "not a signature",
}


@pytest.mark.parametrize("damage", SIGNATURES, ids=lambda damage: damage.__name__)
def test_a_signature_that_does_not_vouch(bundle, formed, tmp_path, damage):
    new_key(tmp_path / "key")
    sign_bundle(bundle, tmp_path / "key")
    damage(bundle, tmp_path / "key")
    with pytest.raises(BundleError, match=SIGNATURES[damage]):
        check(formed(), ignore, [load_public_key(tmp_path / "key.pub")])


# A deployment profile alone, as `edgeopt profile export` writes it.


def record(**told):
    text = "".join(f'{name} = "{value}"\n' for name, value in {"sha256": "0" * 64, **told}.items())
    return lambda content: content + f"\n[quantization]\n{text}".encode()


PROFILES = {
    "nothing": (lambda _: b"", "missing required field"),
    "no TOML": (lambda c: b"PK\x03\x04" + c, "not readable TOML"),
    "no UTF-8": (lambda c: c + b"# \xff", "not readable TOML"),
    "cut off": (lambda c: c[: c.index(b"[run]") + 4], "not readable TOML"),
    "a key twice": (lambda c: c.replace(b"[run]\n", b'[run]\nbackend = "x"\n'), "not readable TOML"),
    "an unknown key": (lambda c: c.replace(b"[run]\n", b'[run]\nhook = "x"\n'), "unknown field `hook`"),
    "deep nesting": (lambda _: b"a = " + b"{a = " * 20_000, "not readable TOML"),
    "a key of too many parts": (lambda c: c + b"[" + b"a." * 100_000 + b"a]", "more than 32 parts"),
    "a huge one": (lambda c: c + b"#" * (5 << 20), "too large"),
    "a later schema": (lambda c: c.replace(b"schema = ", b"schema = 9"), "has schema 9"),
    "a place": (lambda c: c.replace(b"threads = 1", b'cache_dir = "x"'), "the runtime option 'cache_dir'"),
    "a record elsewhere": (record(file="../../secret"), r"names '\.\./\.\./secret'"),
    "a record that is none": (record(embedded="!"), "is damaged"),
    "a changed record": (record(embedded=base64.b64encode(zlib.compress(b"x")).decode()), "digest differs"),
}


@pytest.mark.parametrize("kind", PROFILES)
def test_a_profile_alone(bundle, tmp_path, kind):
    change, says = PROFILES[kind]
    alone = tmp_path / "alone.toml"
    alone.write_bytes(change((bundle / PROFILE).read_bytes()))
    with pytest.raises(BundleError, match=says) as raised:
        read_profile(alone)
    assert "alone.toml" in raised.value.message


# What only a folder, or only a file, can be.


@pytest.mark.parametrize("name", ["model/conv.onnx", MANIFEST, "model", "model/more"])
def test_a_link_in_a_folder(bundle, tmp_path, name):
    outside = tmp_path / "outside"
    if (bundle / name).exists():
        (bundle / name).rename(outside)
    (bundle / name).symlink_to(outside)
    with pytest.raises(BundleError, match=r"link|does not list"):
        edgeopt.load(bundle)


def entry(name, content=b"x", mode=stat.S_IFREG | 0o644, compression=ZIP_STORED, **more):
    info = ZipInfo("placeholder")
    info.filename = info.orig_filename = name
    info.external_attr, info.compress_type = mode << 16, compression
    for key, value in more.items():
        setattr(info, key, value)
    return info, content


ENTRIES = {
    "an absolute path": ((entry("/etc/hostname"),), "'/etc/hostname' points outside"),
    "a way out": ((entry("../../secret"),), r"'\.\./\.\./secret' points outside"),
    "another system's path": ((entry("C:\\secret"),), "points outside"),
    "a link": ((entry("model/more", b"/etc/hostname", stat.S_IFLNK | 0o777),), "'model/more' is a link"),
    "a device": ((entry("model/more", b"", stat.S_IFCHR | 0o666),), "not a plain file"),
    "a name that comes twice": ((entry("ledger.json"),), "holds 'ledger.json' twice"),
    "a file inside a file": ((entry("ledger.json/x"),), "lies inside what is a file"),
    "a compressed bomb": ((entry("more", bytes(1 << 20), compression=ZIP_DEFLATED),), "'more' is compressed"),
    "too many entries": (tuple(entry(f"e/{k}", b"") for k in range(300)), "holds 307 entries; the maximum is"),
    "a file that is not listed": ((entry("model/more"),), "holds model/more, which its manifest does not list"),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("kind", ENTRIES)
def test_an_entry_that_no_bundle_has(bundle, monkeypatch, kind):
    monkeypatch.setattr("edgeopt.bundle.archive._MAX_ENTRIES", 300)
    more, says = ENTRIES[kind]
    file = one_file(bundle)
    with ZipFile(file, "a") as archive:
        for info, content in more:
            archive.writestr(info, content)
    refused(file, says)


def first_in_the_list(content, place, value, size=4):
    """The archive with one field of the first entry in its list of contents replaced."""
    start = content.rindex(b"PK\x01\x02", 0, content.index(b"PK\x01\x02", content.rindex(b"PK\x03\x04")) + 4)
    return content[: start + place] + value.to_bytes(size, "little") + content[start + place + size :]


BYTES = {
    "no archive": (lambda _: b"x" * 999, "not a valid zip archive"),
    "an empty file": (lambda _: b"", "not a valid zip archive"),
    "cut off at its list": (lambda c: c[:-30], "not a valid zip archive"),
    "cut in half": (lambda c: c[: len(c) // 2], "not a valid zip archive"),
    "cut after the first bytes": (lambda c: c[:10], "not a valid zip archive"),
    "something before it": (lambda c: b"#!/bin/sh\n" + c, "has data before its first entry"),
    "a size that is not true": (lambda c: first_in_the_list(c, 24, 1 << 31), "has a wrong size in its header"),
    "an encrypted entry": (lambda c: first_in_the_list(c, 8, 1, 2), "is encrypted"),
    "a wrong checksum": (lambda c: first_in_the_list(c, 16, 7), "not a valid zip archive: Bad CRC-32"),
    "a list of 4 GB": (lambda c: c[:-10] + struct.pack("<II", (1 << 32) - 2, 0) + b"\0\0", "not a valid zip"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BYTES)
def test_bytes_that_are_no_sound_archive(bundle, kind):
    change, says = BYTES[kind]
    file = one_file(bundle)
    file.write_bytes(change(file.read_bytes()))
    refused(file, says)


def refused(file, says):
    before = set(file.parent.parent.rglob("*"))
    with pytest.raises(BundleError, match=says) as raised:
        edgeopt.load(file)
    assert file.name in raised.value.message
    assert raised.value.hint
    assert set(file.parent.parent.rglob("*")) == before, "nothing was written outside"


@pytest.mark.parametrize(
    "command", [["verify"], ["run", "--data", "x.npz", "-o", "out"], ["analyze"], ["bench"], ["compare"], ["sign"]]
)
def test_every_command_leaves_with_3_and_the_reason(bundle, command, capsys, tmp_path):
    file = one_file(bundle)
    file.write_bytes(file.read_bytes()[:-30])
    new_key(tmp_path / "key")
    more = {"compare": [str(bundle)], "sign": ["--key", str(tmp_path / "key")]}.get(command[0], [])
    assert run([command[0], str(file), *more, *command[1:]]) == 3
    assert "'conv.edgeopt' is refused: it is not a valid zip archive" in capsys.readouterr().err


def test_the_table_is_of_what_is_there(bundle):
    """That the sound bundle is taken: else every refusal above could have another reason."""
    for path in (bundle, one_file(bundle)):
        with edgeopt.load(path) as session:
            assert session.deployment == read_deployment(bundle / PROFILE)
