import json
import os

import pytest

from edgeopt.bundle.manifest import FILE, SIGNATURE, check_manifest, file_digest, write_manifest
from edgeopt.errors import BundleError

FILES = (
    "deployment.toml",
    "golden/inputs.npz",
    "golden/outputs.npz",
    "golden/reference.npz",
    "ledger.json",
    "model/conv.onnx",
)


@pytest.fixture
def edit(bundle):
    """Changes the manifest itself."""

    def change(function):
        manifest = json.loads((bundle / FILE).read_bytes())
        function(manifest)
        (bundle / FILE).write_text(json.dumps(manifest))

    return change


def test_every_file_is_listed(bundle):
    listed = check_manifest(bundle).files
    assert tuple(sorted(listed)) == FILES
    assert listed["model/conv.onnx"].sha256 == file_digest(bundle / "model/conv.onnx")
    assert listed["model/conv.onnx"].size_bytes == (bundle / "model/conv.onnx").stat().st_size


def test_a_model_file_may_be_named_like_the_manifest(bundle):
    (bundle / "model" / FILE).write_text("weights")
    write_manifest(bundle)
    assert f"model/{FILE}" in check_manifest(bundle).files


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("bit", [0, -1], ids=["first", "last"])
def test_a_flipped_bit(bundle, name, bit):
    content = bytearray((bundle / name).read_bytes())
    content[bit] ^= 1
    (bundle / name).write_bytes(content)
    with pytest.raises(BundleError, match=f"damaged: {name} was changed"):
        check_manifest(bundle)


@pytest.mark.parametrize("name", FILES)
def test_a_truncated_file(bundle, name):
    os.truncate(bundle / name, (bundle / name).stat().st_size - 1)
    with pytest.raises(BundleError, match=name):
        check_manifest(bundle)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file(bundle, name):
    (bundle / name).unlink()
    with pytest.raises(BundleError, match=f"{name} is missing"):
        check_manifest(bundle)


def test_a_folder_instead_of_a_file(bundle):
    (bundle / "ledger.json").unlink()
    (bundle / "ledger.json").mkdir()
    with pytest.raises(BundleError, match=r"ledger\.json is missing"):
        check_manifest(bundle)


@pytest.mark.parametrize("name", ["notes.txt", "model/more.bin", ".hidden"])
def test_a_file_too_many(bundle, name):
    (bundle / name).write_text("")
    with pytest.raises(BundleError, match=f"holds {name}"):
        check_manifest(bundle)


def test_a_pipe_too_many(bundle):
    os.mkfifo(bundle / "model/pipe")
    with pytest.raises(BundleError, match="holds model/pipe"):
        check_manifest(bundle)


@pytest.mark.parametrize(
    "name",
    ["../outside", "model/../../outside", "/etc/hostname", "..", "", ".", "model\\x", "model/\0x", "C:\\x"],
)
def test_a_name_that_leads_outside_is_refused_before_it_is_opened(bundle, edit, tmp_path, name):
    (tmp_path / "outside").write_text("secret")
    edit(lambda manifest: manifest["files"].update({name: {"sha256": "0" * 64, "size_bytes": 6}}))
    with pytest.raises(BundleError, match="not inside the bundle"):
        check_manifest(bundle)


def test_a_name_that_no_file_system_takes(bundle, edit):
    edit(lambda manifest: manifest["files"].update({"x" * 5000: {"sha256": "0" * 64, "size_bytes": 6}}))
    with pytest.raises(BundleError, match="is not a valid file name"):
        check_manifest(bundle)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda m: m.update(schema=2), "schema 2"),
        (lambda m: m.update(colour="red"), "colour"),
        (lambda m: m["files"]["ledger.json"].update(colour="red"), "colour"),
        (lambda m: m["files"]["ledger.json"].pop("sha256"), "sha256"),
        (lambda m: m.pop("files"), "files"),
        (lambda m: m["files"]["ledger.json"].update(size_bytes="3"), "size_bytes"),
        (lambda m: m["files"]["ledger.json"].update(sha256="0" * 64), "ledger.json"),
    ],
)
def test_what_is_wrong_in_the_manifest_is_named(bundle, edit, change, says):
    edit(change)
    with pytest.raises(BundleError, match=says):
        check_manifest(bundle)


@pytest.mark.parametrize("content", [b"", b"not JSON", b"[]", b"{", b"\xff\xfe", b'{"files": {"\xff": 1}}'])
def test_a_manifest_that_cannot_be_read(bundle, content):
    (bundle / FILE).write_bytes(content)
    with pytest.raises(BundleError, match=FILE):
        check_manifest(bundle)


def test_a_folder_in_the_place_of_the_manifest(bundle):
    (bundle / FILE).unlink()
    (bundle / FILE).mkdir()
    with pytest.raises(BundleError, match="cannot be read"):
        check_manifest(bundle)


def test_the_signature_beside_the_manifest_is_no_file_too_many(bundle):
    (bundle / SIGNATURE).write_text("{}")
    check_manifest(bundle)
    write_manifest(bundle)
    assert SIGNATURE not in check_manifest(bundle).files
    (bundle / "model" / SIGNATURE).write_text("{}")
    with pytest.raises(BundleError, match=f"holds model/{SIGNATURE}"):
        check_manifest(bundle)
