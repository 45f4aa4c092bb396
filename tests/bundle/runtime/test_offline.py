import numpy as np
import pytest

from edgeopt import events
from edgeopt.bundle.request import RunRequest
from edgeopt.bundle.runtime.offline import run_offline
from edgeopt.bundle.runtime.session import load
from edgeopt.data import demo as samples
from edgeopt.errors import DataError, ModelError, UsageError

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
