"""A bundle as one file works wherever a folder does, and leaves nothing behind."""

import gc
import os
import shutil
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import edgeopt
from edgeopt.bundle import write
from edgeopt.bundle.archive import OpenedArchive, opened, pack_into
from edgeopt.bundle.manifest import SIGNATURE
from edgeopt.bundle.read import is_bundle, read_bundle
from edgeopt.bundle.sign import claimed_key, key_id, load_public_key, new_key, sign_bundle
from edgeopt.cli.main import run
from edgeopt.commands.bench.naming import NamedSide
from edgeopt.commands.bench.sides import Settings, prepare
from edgeopt.commands.compare.compare import named
from edgeopt.errors import EdgeoptError, UsageError
from edgeopt.events import ignore


@pytest.fixture
def file(conv_bundle, tmp_path):
    """In a folder whose name needs care, under a name that needs care."""
    home = tmp_path / "a folder"
    home.mkdir()
    pack_into(conv_bundle, home / "my model.edgeopt")
    return home / "my model.edgeopt"


def unpacked():
    return sorted(Path(tempfile.gettempdir()).glob(f"edgeopt-bundle-{os.getpid()}-*"))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_it_answers_like_the_folder_and_is_gone_when_the_session_is_closed(file, conv_bundle):
    golden = read_bundle(conv_bundle)
    with edgeopt.load(str(file)) as session:
        (private,) = unpacked()
        assert private.stat().st_mode & 0o777 == 0o700
        assert session.deployment == golden.deployment
        for feeds, wanted in zip(golden.golden("inputs"), golden.golden("outputs"), strict=True):
            np.testing.assert_allclose(session.run(feeds)["y"], wanted["y"], rtol=1e-4, atol=1e-5)
    assert not unpacked()
    assert names(file.parent) == [file.name]


def test_moved_renamed_and_where_nobody_may_write(file, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    moved = shutil.move(file, tmp_path / "elsewhere/plain.zip")
    moved.chmod(0o400)
    moved.parent.chmod(0o500)
    try:
        assert is_bundle(moved)
        edgeopt.load(moved).close()
    finally:
        moved.parent.chmod(0o700)


def test_it_is_unpacked_once_for_all_who_hold_it(file):
    first, second = read_bundle(file), edgeopt.load(file)
    assert len(unpacked()) == 1
    second.close()
    assert first.golden("inputs")
    del first
    assert not unpacked()


def test_a_file_that_took_its_place_is_another_one(file, bundle):
    first = read_bundle(file)
    new_key(bundle.parent / "key")
    sign_bundle(bundle, bundle.parent / "key")
    pack_into(bundle, file)
    second = read_bundle(file)
    assert not (first.folder / SIGNATURE).exists()
    assert (second.folder / SIGNATURE).exists()


def test_what_a_killed_process_left_is_swept(file):
    program = "import os, sys; from edgeopt.bundle.read import read_bundle; b = read_bundle(sys.argv[1])"
    kill = f"{program.replace('sys.argv[1]', '__import__(`pathlib`).Path(sys.argv[1])').replace('`', chr(34))}; "
    left = subprocess.run(
        [sys.executable, "-c", f"{kill}print(b.folder.parent, flush=True); os.kill(os.getpid(), 9)", str(file)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    folder = Path(left.stdout.strip())
    assert folder.is_dir()
    read_bundle(file)
    assert not folder.exists()


def test_no_room_is_told(file, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("edgeopt.bundle.archive.unpack", full)
    with pytest.raises(EdgeoptError, match="no room for temporary files in") as raised:
        opened(file)
    assert "TMPDIR" in raised.value.hint
    assert not unpacked()


def test_a_large_one_is_never_in_memory(tmp_path):
    folder = tmp_path / "large"
    folder.mkdir()
    with (folder / "weights").open("wb") as out:
        out.truncate(96 << 20)
    gc.collect()
    tracemalloc.start()
    pack_into(folder, tmp_path / "large.edgeopt")
    held = OpenedArchive(tmp_path / "large.edgeopt")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (held.folder / "weights").stat().st_size == 96 << 20
    assert peak < 8 << 20


def test_it_is_signed_in_its_place(file, tmp_path):
    new_key(tmp_path / "key")
    file.chmod(0o640)
    signed = sign_bundle(file, tmp_path / "key")
    assert signed.bundle == str(file)
    assert claimed_key(read_bundle(file).folder) == key_id(load_public_key(tmp_path / "key.pub"))
    assert names(file.parent) == [file.name]
    assert file.stat().st_mode & 0o777 == 0o640
    assert not unpacked()


def test_commands_take_it(file, conv_data, tmp_path, capsys):
    assert run(["verify", str(file)]) == 0
    assert "my model.edgeopt: all 6 files match the manifest" in capsys.readouterr().out
    assert run(["run", str(file), "--data", str(conv_data), "-o", str(tmp_path / "out")]) == 0
    assert np.load(tmp_path / "out/outputs.npz")["y"].shape == (32, 1, 10)
    assert not unpacked()


def test_what_is_measured_or_compared_stays_until_then(file, tmp_path):
    side = named(file, None)
    prepared = prepare([NamedSide("bundle", str(file))], Settings(), tmp_path, ignore)
    gc.collect()
    assert side.path.is_file()
    assert Path(prepared.sides[0].load.model_path).is_file()
    del side, prepared
    assert not unpacked()


@pytest.mark.parametrize("before", ["nothing", "a folder", "a file"])
@pytest.mark.parametrize("single_file", [True, False], ids=["file", "folder"])
def test_written_as_one_or_the_other(tmp_path, conv_bundle, before, single_file):
    out = tmp_path / "out.edgeopt"
    if before == "a folder":
        shutil.copytree(conv_bundle, out)
    elif before == "a file":
        pack_into(conv_bundle, out)
    with write.draft(out) as folder:
        shutil.copytree(conv_bundle, folder, dirs_exist_ok=True)
        write.publish(folder, out, single_file=single_file)
    assert out.is_file() == single_file
    assert read_bundle(out).deployment == read_bundle(conv_bundle).deployment
    assert names(tmp_path) == ["out.edgeopt"]


def test_a_file_that_is_no_bundle_is_never_replaced(tmp_path):
    out = tmp_path / "out.edgeopt"
    np.savez(tmp_path / "mine.npz", x=[1])
    (tmp_path / "mine.npz").rename(out)
    with pytest.raises(UsageError, match="is not a bundle"):
        write.check_target(out)


def test_what_a_killed_writer_left_is_swept(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    (tmp_path / f".a.edgeopt.edgeopt-partial-{child.pid}-x1").write_text("half")
    with write.draft(tmp_path / "b.edgeopt"):
        pass
    assert not names(tmp_path)
