import os
import threading
from pathlib import Path

import pytest

from edgeopt.errors import UsageError
from edgeopt.measure.files import check_place, writing


def put(path, content=b"new"):
    with writing(path) as file:
        file.write(content)


def test_a_link_stays_one_and_what_it_leads_to_is_written(tmp_path):
    (tmp_path / "kept").mkdir()
    target = tmp_path / "kept" / "run.json"
    target.write_bytes(b"old")
    link = tmp_path / "link.json"
    link.symlink_to(target)
    put(link)
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    dangling = tmp_path / "dangling.json"
    dangling.symlink_to(tmp_path / "kept" / "later.json")
    put(dangling)
    assert (tmp_path / "kept" / "later.json").read_bytes() == b"new"
    assert sorted(p.name for p in (tmp_path / "kept").iterdir()) == ["later.json", "run.json"]


def test_a_pipe_is_written_to_and_stays(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    put(pipe)
    reader.join(60)
    assert read == [b"new"]
    assert pipe.is_fifo()


def test_a_device_is_written_to_and_stays():
    null = Path(os.devnull)
    put(null)
    assert null.is_char_device()


def test_what_fails_half_way_leaves_the_older_file(tmp_path):
    put(tmp_path / "run.json", b"old")

    def half():
        with writing(tmp_path / "run.json") as file:
            file.write(b"ne")
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        half()
    assert (tmp_path / "run.json").read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"]


def test_a_file_does_not_take_the_place_of_an_input(tmp_path):
    model, link = tmp_path / "model.onnx", tmp_path / "link.json"
    model.write_bytes(b"model")
    link.symlink_to(model)
    for path in (model, link):
        with pytest.raises(UsageError, match="is an input and would be replaced"):
            check_place(path, "The report", [None, tmp_path / "missing.npz", model])
    check_place(tmp_path / "new.json", "The report", [model])


def test_no_file_is_put_into_a_bundle(tmp_path):
    bundle = tmp_path / "model.edgeopt"
    (bundle / "golden").mkdir(parents=True)
    (bundle / "manifest.json").touch()
    check_place(bundle / "golden" / "report.md", "The report")  # a web app has a manifest.json too
    (bundle / "deployment.toml").touch()
    for name in ("evidence.json", "golden/report.md"):
        with pytest.raises(UsageError, match="is inside the bundle"):
            check_place(bundle / name, "The report")
    check_place(tmp_path / "report.md", "The report")
