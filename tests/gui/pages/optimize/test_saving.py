"""A bundle saved elsewhere: whole or not at all, and never over what is none."""

import errno
import shutil

import pytest

from edgeopt.bundle.manifest import check_manifest
from edgeopt.bundle.read import read_bundle
from edgeopt.errors import BundleError, EdgeoptError, UsageError
from edgeopt_gui.pages.optimize.saving import export_deployment, save_bundle


def test_the_copy_is_a_sound_bundle_and_the_first_one_stays(bundle, tmp_path):
    target = tmp_path / "saved" / "mine.edgeopt"
    target.parent.mkdir()
    assert save_bundle(bundle, target) == target
    check_manifest(target)
    check_manifest(bundle)
    assert [p.name for p in target.parent.iterdir()] == ["mine.edgeopt"]


def test_it_can_be_saved_as_one_file(bundle, tmp_path):
    target = save_bundle(bundle, tmp_path / "mine.edgeopt", single_file=True)
    assert target.is_file()
    assert read_bundle(target).deployment.source.name == "conv.onnx"


def test_an_older_bundle_is_replaced(bundle, tmp_path):
    target = shutil.copytree(bundle, tmp_path / "old.edgeopt")
    (target / "deployment.toml").write_text("damaged")
    save_bundle(bundle, target)
    check_manifest(target)


def test_what_is_no_bundle_is_not_replaced(bundle, tmp_path):
    target = tmp_path / "papers"
    target.mkdir()
    (target / "thesis.txt").write_text("precious")
    with pytest.raises(UsageError) as raised:
        save_bundle(bundle, target)
    assert "-o" not in raised.value.hint
    assert (target / "thesis.txt").read_text() == "precious"


def test_a_bundle_is_not_saved_into_the_place_of_its_own_folder(bundle):
    with pytest.raises(UsageError):
        save_bundle(bundle, bundle.parent)
    check_manifest(bundle)
    assert save_bundle(bundle, bundle) == bundle


def test_a_damaged_bundle_is_not_handed_on(bundle, tmp_path):
    (bundle / "model" / "conv.onnx").write_bytes(b"cut off")
    with pytest.raises(BundleError):
        save_bundle(bundle, tmp_path / "new.edgeopt")
    assert not (tmp_path / "new.edgeopt").exists()


def test_a_full_disk_leaves_what_was_there(bundle, tmp_path, monkeypatch):
    target = shutil.copytree(bundle, tmp_path / "old.edgeopt")
    before = (target / "manifest.json").read_bytes()

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copytree", full)
    with pytest.raises(EdgeoptError) as raised:
        save_bundle(bundle, target)
    assert "The disk is full" in raised.value.message
    assert "Free some space" in raised.value.hint
    assert (target / "manifest.json").read_bytes() == before
    assert {p.name for p in tmp_path.iterdir() if p.name.startswith(".")} == set()


def test_the_profile_alone_is_exported_as_it_is(bundle, tmp_path):
    target = tmp_path / "out.toml"
    target.write_text("older")
    export_deployment(bundle, target)
    assert target.read_bytes() == (bundle / "deployment.toml").read_bytes()
    assert [p.name for p in tmp_path.glob(".*")] == []


def test_an_export_to_nowhere_says_so(bundle, tmp_path):
    with pytest.raises(EdgeoptError, match="was not saved"):
        export_deployment(bundle, tmp_path / "missing" / "out.toml")
