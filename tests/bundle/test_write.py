import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from edgeopt.bundle import manifest, write
from edgeopt.bundle.archive import pack_into
from edgeopt.bundle.read import read_bundle
from edgeopt.errors import UsageError


@pytest.fixture
def dead_process():
    """The number of a process that has ended."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def names(folder):
    return sorted(p.name for p in folder.iterdir())


@pytest.mark.parametrize("kind", ["file", "folder", "web app", "one name", "link", "linked bundle", "no parent"])
def test_what_is_no_bundle_is_never_replaced(tmp_path, bundle, kind):
    out = tmp_path / "out"
    if kind == "file":
        out.write_text("mine")
    elif kind in {"folder", "web app", "one name"}:
        out.mkdir()
        name = {"folder": "notes.txt", "web app": "manifest.json", "one name": "deployment.toml"}[kind]
        (out / name).write_text("mine")
    elif kind == "no parent":
        out = tmp_path / "nowhere" / "out"
    else:
        out.symlink_to(bundle if kind == "linked bundle" else tmp_path / "nothing")
    before = names(tmp_path)
    with pytest.raises(UsageError) as raised:
        write.check_target(out)
    assert raised.value.hint
    with write.draft(bundle) as folder, pytest.raises(UsageError):
        write.publish(folder, out)
    assert names(tmp_path) == before
    if kind == "file":
        assert out.read_text() == "mine"
    if kind in {"folder", "web app", "one name"}:
        assert len(names(out)) == 1


@pytest.mark.parametrize("kind", ["absent", "empty", "sound", "damaged"])
def test_what_may_be_replaced(tmp_path, bundle, conv_bundle, kind):
    out = tmp_path / "out.edgeopt"
    if kind == "empty":
        out.mkdir()
    elif kind != "absent":
        bundle.rename(out)
        (out / "model/conv.onnx").write_text(kind)
    write.check_target(out)
    deployment = read_bundle(conv_bundle).deployment
    with write.draft(out) as folder:
        write.fill(folder, {"conv.onnx": conv_bundle / "model/conv.onnx"}, deployment, {"ledger.json": []})
        write.publish(folder, out)
    assert read_bundle(out).deployment == deployment
    assert not [name for name in names(tmp_path) if name.startswith(".")]


def test_the_model_is_copied_and_never_linked(tmp_path, conv_bundle, conv_model):
    deployment = read_bundle(conv_bundle).deployment
    with write.draft(tmp_path / "b.edgeopt") as folder:
        write.fill(folder, {"conv.onnx": conv_model, "deep/w.data": conv_model}, deployment, {})
        for name in ("conv.onnx", "deep/w.data"):
            copy = folder / "model" / name
            assert copy.read_bytes() == conv_model.read_bytes()
            assert not copy.is_symlink()
            assert not copy.samefile(conv_model)


def test_a_draft_is_gone_after_an_error(tmp_path):
    def fail():
        with write.draft(tmp_path / "b.edgeopt") as folder:
            (folder / "deep").mkdir()
            (folder / "deep/file").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert not names(tmp_path)


def test_what_killed_writers_left_is_swept_and_living_writers_are_not(tmp_path, dead_process):
    left = [f".a.edgeopt-partial-{dead_process}-x1", f".b.edgeopt.edgeopt-partial-{dead_process}"]
    kept = [
        f".a.edgeopt-partial-{os.getppid()}",
        ".a.edgeopt-partial-notes",
        "a.edgeopt-partial-1",
        ".a.partial-1",
    ]
    for name in left + kept:
        (tmp_path / name / "model").mkdir(parents=True)
    with write.draft(tmp_path / "c.edgeopt") as folder:
        assert names(tmp_path) == sorted([*kept, folder.name])
    assert names(tmp_path) == sorted(kept)


def test_an_older_bundle_that_was_just_moved_away_is_put_back(tmp_path, dead_process):
    moved = tmp_path / f".a.edgeopt.edgeopt-partial-{dead_process}-x1.old"
    (moved / "model").mkdir(parents=True)
    with write.draft(tmp_path / "c.edgeopt"):
        assert (tmp_path / "a.edgeopt/model").is_dir()
    assert names(tmp_path) == ["a.edgeopt"]


@pytest.mark.parametrize("name", ["x", "file", "allow_pickle", "a/b", "ends.npy", "ünïcode input"])
def test_golden_arrays_of_any_name(tmp_path, bundle, name):
    runs = [{name: np.float32([k, k + 1])} for k in range(3)]
    write.write_golden(tmp_path, "inputs", runs)
    (tmp_path / "golden/inputs.npz").replace(bundle / "golden/inputs.npz")
    manifest.write_manifest(bundle)
    found = read_bundle(bundle).golden("inputs")
    assert [{key: a.tolist() for key, a in run.items()} for run in found] == [
        {name: [float(k), float(k + 1)]} for k in range(3)
    ]


def test_golden_arrays_whose_shape_depends_on_the_sample(tmp_path, bundle):
    runs = [{"boxes": np.ones((k, 4)), "count": np.int64(k)} for k in range(12)]
    write.write_golden(tmp_path, "outputs", runs)
    (tmp_path / "golden/outputs").rename(bundle / "golden/outputs")
    manifest.write_manifest(bundle)
    found = read_bundle(bundle).golden("outputs")
    assert [run["boxes"].shape for run in found] == [(k, 4) for k in range(12)]
    assert [int(run["count"]) for run in found] == list(range(12))


def test_texts_as_golden_arrays(tmp_path, bundle):
    write.write_golden(tmp_path, "outputs", [{"t": np.array(["a", "bc"], dtype=object)}] * 2)
    (tmp_path / "golden/outputs.npz").replace(bundle / "golden/outputs.npz")
    manifest.write_manifest(bundle)
    assert read_bundle(bundle).golden("outputs")[1]["t"].tolist() == ["a", "bc"]


def test_the_same_golden_arrays_make_the_same_file(tmp_path):
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
        write.write_golden(tmp_path / folder, "inputs", [{"x": np.arange(3.0)}])
    one, other = ((tmp_path / f / "golden/inputs.npz").read_bytes() for f in ("one", "other"))
    assert one == other


def test_no_place_that_a_bundle_must_not_take(tmp_path, monkeypatch):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/thesis.txt").write_text("mine")
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    model = tmp_path / "b.edgeopt/model.onnx"
    for out, sources in (
        (tmp_path / "missing/../precious", ()),
        (Path("relative"), ()),
        (here, ()),
        (Path("/proc"), ()),
        (tmp_path / "b.edgeopt", (model,)),
    ):
        with pytest.raises(UsageError):
            write.check_target(out, sources)
    assert (tmp_path / "precious/thesis.txt").read_text() == "mine"


def test_no_bundle_is_written_into_a_bundle(conv_bundle):
    with pytest.raises(UsageError, match="is inside the bundle"):
        write.check_target(conv_bundle / "inner.edgeopt")


@pytest.mark.parametrize("single_file", [False, True])
def test_replaced_document_is_the_only_change_of_a_bundle(tmp_path, bundle, single_file):
    out = bundle
    if single_file:
        out = tmp_path / "one.edgeopt"
        pack_into(bundle, out)
    before = manifest.check_manifest(bundle).files
    write.replace_document(out, "evidence.json", {"figure": 3})
    assert out.is_file() == single_file
    found = read_bundle(out)
    assert json.loads((found.folder / "evidence.json").read_bytes()) == {"figure": 3}
    after = manifest.check_manifest(found.folder).files
    assert {name for name in {*before, *after} if before.get(name) != after.get(name)} == {"evidence.json"}
    assert not [name for name in names(out.parent) if name.startswith(".")]


def test_samples_of_many_megabytes_are_fewer_golden_samples():
    assert write.golden_places(9, write.max_golden(1 << 20)) == [0, 3, 5, 8]
    assert write.golden_places(9, write.max_golden(30 << 20)) == [0, 8]
    assert write.golden_places(9, write.max_golden(1 << 30)) == [0]
