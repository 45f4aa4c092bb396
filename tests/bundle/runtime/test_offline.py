import msgspec
import numpy as np
import onnx.parser
import pytest

from edgeopt import events
from edgeopt.backends import null
from edgeopt.bundle.request import RunRequest
from edgeopt.bundle.runtime import offline
from edgeopt.bundle.runtime.offline import run_offline
from edgeopt.bundle.runtime.session import load
from edgeopt.data import demo as samples
from edgeopt.errors import DataError, DiskFullError, ModelError, UsageError

pytest.importorskip("onnxruntime")


@pytest.fixture
def pictures(tmp_path):
    with np.load(samples.DATA) as archive:
        images = archive["image"][:5]
    np.savez(tmp_path / "pictures.npz", image=images)
    return images


def test_every_sample_is_run_and_written(tmp_path, pictures):
    heard = []
    result = run_offline(RunRequest(samples.MODEL, tmp_path / "pictures.npz", tmp_path / "out"), heard.append)
    with np.load(tmp_path / "out" / "outputs.npz") as archive, load(samples.MODEL) as session:
        name = session.outputs[0].name
        expected = np.stack([session.run({"image": image})[name] for image in pictures])
        np.testing.assert_array_equal(archive[name], expected)
    assert result.samples == 5
    assert [e.done for e in heard if isinstance(e, events.Progress)] == [0, 1, 2, 3, 4]


def test_wrong_data_leaves_no_output(tmp_path, pictures):
    np.savez(tmp_path / "wrong.npz", picture=pictures)
    with pytest.raises(DataError, match="image"):
        run_offline(RunRequest(samples.MODEL, tmp_path / "wrong.npz", tmp_path / "out"), events.ignore)
    assert not (tmp_path / "out").exists()


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path, pictures):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(UsageError, match="is a file"):
        run_offline(RunRequest(samples.MODEL, tmp_path / "pictures.npz", tmp_path / "out"), events.ignore)
    assert (tmp_path / "out").read_text() == "mine"


def test_outputs_do_not_replace_the_samples(tmp_path, pictures):
    data = (tmp_path / "pictures.npz").rename(tmp_path / "outputs.npz")
    before = data.read_bytes()
    with pytest.raises(UsageError, match="is an input"):
        run_offline(RunRequest(samples.MODEL, data, tmp_path), events.ignore)
    assert data.read_bytes() == before


def test_outputs_do_not_go_into_a_bundle(tmp_path, pictures, conv_bundle):
    out = conv_bundle / "results"
    with pytest.raises(UsageError, match="is inside the bundle"):
        run_offline(RunRequest(samples.MODEL, tmp_path / "pictures.npz", out), events.ignore)
    assert not out.exists()


def test_what_falls_back_is_said_before_it_runs(tmp_path, null_model):
    model = null_model("half", fallen=["Foo: foo_1"], nodes=4)
    np.savez(tmp_path / "data.npz", x=np.ones((2, 8), np.float32))
    heard = []
    run_offline(RunRequest(model, tmp_path / "data.npz", tmp_path / "out"), heard.append)
    (warning,) = [event for event in heard if isinstance(event, events.Log)]
    assert warning.message.startswith("1 of 4 nodes do not run on null")
    with pytest.raises(ModelError, match="1 of 4 nodes"):
        run_offline(RunRequest(model, tmp_path / "data.npz", tmp_path / "strict", strict=True), events.ignore)
    assert not (tmp_path / "strict").exists()


def test_model_that_sorts_its_rows_is_not_run_in_batches(tmp_path):
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[n, 2] x, int64[n] length) => (float[n, 2] y) {
        k = Shape <start = 0, end = 1> (length)
        sorted, order = TopK <axis = 0, largest = 0> (length, k)
        y = Gather <axis = 0> (x, order) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    lengths = np.arange(32, dtype=np.int64)
    x = np.repeat(lengths, 2).reshape(32, 2).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=x, length=lengths)
    asked = RunRequest(tmp_path / "m.onnx", tmp_path / "data.npz", tmp_path / "out", batch=8)
    with pytest.raises(UsageError, match=r"TopK .*computed from the rows or their number") as raised:
        run_offline(asked, events.ignore)
    assert "--batch 1" in raised.value.hint
    assert not (tmp_path / "out").exists()


@pytest.fixture
def counted(monkeypatch):
    """The first value of each row that null models have run."""
    rows, run = [], null.NullSession.run

    def counting(self, feeds):
        rows.append(feeds["x"][:, 0].tolist())
        return run(self, feeds)

    monkeypatch.setattr(null.NullSession, "run", counting)
    return rows


@pytest.fixture
def request_of(tmp_path, null_model):
    np.savez(tmp_path / "data.npz", x=np.arange(80, dtype=np.float32).reshape(10, 8))

    def made(**changes):
        return RunRequest(null_model("m"), tmp_path / "data.npz", tmp_path / "out", **changes)

    return made


def stop_at(done):
    def emit(event):
        if isinstance(event, events.Progress) and event.done == done:
            raise KeyboardInterrupt

    return emit


def written(request):
    with np.load(request.out / "outputs.npz") as archive:
        return dict(archive)


def test_batches_give_the_same_outputs_in_fewer_runs(request_of, counted):
    run_offline(request_of(), events.ignore)
    alone = written(request_of())["y"]
    counted.clear()
    result = run_offline(request_of(batch=4), events.ignore)
    assert [len(rows) for rows in counted[-3:]] == [4, 4, 2]
    assert result.outputs == {"y": [10, 1, 8]}
    np.testing.assert_array_equal(written(request_of())["y"], alone)


def test_a_model_without_a_batch_axis_is_refused_before_it_runs(tmp_path, relu_model):
    np.savez(tmp_path / "data.npz", x=np.ones((3, 4), np.float32))
    with pytest.raises(UsageError, match="the input 'x' has no open first axis"):
        run_offline(RunRequest(relu_model, tmp_path / "data.npz", tmp_path / "out", batch=2), events.ignore)
    assert not (tmp_path / "out").exists()


def test_batches_of_raw_data_are_refused(request_of):
    with pytest.raises(UsageError, match="--batch needs prepared samples"):
        run_offline(request_of(batch=2, process=True), events.ignore)


@pytest.mark.parametrize("batch", [1, 2])
def test_an_interrupted_run_goes_on_where_it_ended(request_of, counted, batch):
    request = request_of(batch=batch)
    with pytest.raises(KeyboardInterrupt):
        run_offline(request, stop_at(6))
    assert not (request.out / "outputs.npz").exists()
    counted.clear()
    heard = []
    result = run_offline(request, heard.append)
    ran = [value for rows in counted for value in rows]
    assert ran[-4:] == [48, 56, 64, 72]
    assert 48 not in ran[:-4]
    assert (result.samples, result.resumed) == (10, 6)
    assert "6 of 10 samples were done before" in next(e.message for e in heard if isinstance(e, events.Log))
    resumed = written(request)["y"]
    assert [each.name for each in request.out.iterdir()] == ["outputs.npz"]
    run_offline(request, events.ignore)
    np.testing.assert_array_equal(written(request)["y"], resumed)


def damage(request):
    (part,) = (request.out / ".interrupted").glob("*.npz")
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 1
    part.write_bytes(content)


def replace(request):
    (part,) = (request.out / ".interrupted").glob("*.npz")
    with np.load(part) as archive:
        arrays = {name: array + 1 for name, array in archive.items()}
    with part.open("wb") as file:
        np.savez(file, **arrays)


def other_data(request):
    np.savez(request.data, x=np.ones((10, 8), np.float32))


def other_model(request):
    request.subject.write_text(request.subject.read_text().replace('"mix"', '"zeros"'))


@pytest.mark.parametrize("change", [damage, replace, other_data, other_model])
def test_outputs_that_are_damaged_or_of_another_run_are_made_again(request_of, counted, change):
    request = request_of()
    with pytest.raises(KeyboardInterrupt):
        run_offline(request, stop_at(6))
    change(request)
    counted.clear()
    heard = []
    assert run_offline(request, heard.append).resumed == 0
    assert len(counted) == 10
    assert "damaged or of another run" in next(e.message for e in heard if isinstance(e, events.Log))
    resumed = written(request)["y"]
    run_offline(request, events.ignore)
    np.testing.assert_array_equal(written(request)["y"], resumed)


def test_a_killed_run_has_saved_what_it_had(request_of, monkeypatch):
    """As far as the last save: what comes after it never runs in a process that is killed."""
    monkeypatch.setattr(offline, "_SAVE_EVERY_S", 0)
    saved, save = [], offline.InterruptedRun.save

    def dying(self, first, runs):
        if first + len(runs) > 6:
            raise KeyboardInterrupt
        saved.append((first, len(runs)))
        save(self, first, runs)

    with monkeypatch.context() as patch:
        patch.setattr(offline.InterruptedRun, "save", dying)
        with pytest.raises(KeyboardInterrupt):
            run_offline(request_of(), events.ignore)
    assert saved
    assert run_offline(request_of(), events.ignore).resumed == sum(saved[-1])


def test_progress_tells_the_time_left(request_of):
    heard = []
    run_offline(request_of(), heard.append)
    left = [event.time_left_s for event in heard if isinstance(event, events.Progress)]
    assert left[0] is None
    assert all(each is not None and each >= 0 for each in left[1:])


def test_a_full_disk_leaves_no_half_saved_outputs(request_of, full_disk, monkeypatch):
    monkeypatch.setattr(offline, "_SAVE_EVERY_S", 0)
    folder, fill = full_disk
    fill()
    with pytest.raises(DiskFullError):
        run_offline(msgspec.structs.replace(request_of(), out=folder / "out"), events.ignore)
    assert [each.name for each in folder.iterdir()] == ["filler"]
