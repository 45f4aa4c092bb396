import os
import shutil
import sys
import threading

import pytest

from edgeopt.bundle import durable
from edgeopt.bundle.manifest import write_manifest
from edgeopt.bundle.read import read_bundle


@pytest.fixture
def ready(bundle, tmp_path):
    """A new version of the bundle, complete, beside its place."""

    def make(version):
        folder = shutil.copytree(bundle, tmp_path / f".ready-{version}")
        (folder / "model/conv.onnx").write_text(f"version {version}")
        (folder / "ledger.json").write_text("[]" + " " * version)
        write_manifest(folder)
        return folder

    return make


def test_a_first_one(ready, tmp_path):
    durable.publish_folder(ready(1), tmp_path / "out.edgeopt")
    assert read_bundle(tmp_path / "out.edgeopt").model.read_text() == "version 1"


@pytest.mark.parametrize("exchange", [True, False], ids=["in one step", "in two steps"])
def test_a_replacement_leaves_nothing_behind(ready, tmp_path, monkeypatch, exchange):
    if not exchange:
        monkeypatch.setattr(sys, "platform", "elsewhere")
    out = tmp_path / "out.edgeopt"
    durable.publish_folder(ready(1), out)
    durable.publish_folder(ready(2), out)
    assert read_bundle(out).model.read_text() == "version 2"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["conv.edgeopt", "out.edgeopt"]


def test_every_file_and_folder_is_synced_before_it_is_put_in_place(ready, tmp_path, monkeypatch):
    synced, real = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(os.fstat(fd).st_ino), real(fd)))
    folder = ready(1)
    inside = {p.stat().st_ino for p in (folder, *folder.rglob("*"))}
    durable.publish_folder(folder, tmp_path / "out.edgeopt")
    assert inside <= set(synced)
    assert synced[-1] == tmp_path.stat().st_ino


@pytest.mark.parametrize("times", [20, pytest.param(1000, marks=pytest.mark.slow)])
def test_readers_always_see_a_complete_bundle(ready, tmp_path, times):
    """A reader polls during many replacements; it never meets a missing, a half or a mixed one."""
    out = tmp_path / "out.edgeopt"
    durable.publish_folder(ready(0), out)
    wrong, reads, done = [], [0], threading.Event()

    def poll():
        while not done.is_set():
            try:
                read_bundle(out)
            except Exception as error:  # noqa: BLE001 - the thread's edge: the test tells it
                wrong.append(error)
                return
            reads[0] += 1

    reader = threading.Thread(target=poll)
    reader.start()
    try:
        for version in range(1, times + 1):
            durable.publish_folder(ready(version), out)
            assert (out / "manifest.json").is_file()
    finally:
        done.set()
        reader.join(60)
    assert not wrong
    assert reads[0] > times / 10
