from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from edgeopt.backends import backend_named
from edgeopt.errors import DataError, ModelError, UsageError

openvino = pytest.importorskip("openvino")
OPENVINO = backend_named("openvino-cpu")
SIZES = {"shapes": {"x": [2, 3]}, "buckets": {"batch": [2, 4]}, "bucket_axes": {"batch:x": [0]}}
FILLED = {**SIZES, "bucket_cuts": {"batch:y": [0]}}


def x(rows, start=0):
    return np.arange(rows * 3, dtype=np.float32).reshape(rows, 3) + np.float32(start)


@pytest.mark.parametrize("options", [SIZES, FILLED])
def test_every_size_is_answered_as_without_buckets(onnx_file, options):
    with_buckets = OPENVINO.load(onnx_file("batch"), options)
    for start, rows in enumerate((2, 4, 3, 1, 3, 2, 9, 4, 4, 9)):
        assert with_buckets.run({"x": x(rows, start)})["y"].tolist() == (2 * x(rows, start)).tolist()


def test_what_may_come_is_compiled_before_the_first_run(onnx_file):
    exact, filled = (OPENVINO.load(onnx_file("batch"), options) for options in (SIZES, FILLED))
    # Between the sizes the one runs with open shapes, which are a program too; the other fills up.
    assert [len(session._programs) for session in (exact, filled)] == [3, 2]
    for session, after in ((exact, 3), (filled, 2)):
        for rows in (1, 2, 3, 4):
            session.run({"x": x(rows)})
        assert len(session._programs) == after


def test_threads_run_different_sizes_at_once(onnx_file):
    session = OPENVINO.load(onnx_file("batch"), FILLED)

    def work(rows):
        return all(np.array_equal(session.run({"x": x(rows, k)})["y"], 2 * x(rows, k)) for k in range(50))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, (1, 2, 3, 4, 5)))


def test_wrong_feeds_and_a_closed_session_are_refused_as_ever(onnx_file):
    session = OPENVINO.load(onnx_file("batch"), FILLED)
    session.run({"x": x(3)})
    with pytest.raises(DataError, match="float32"):
        session.run({"x": x(3).astype(np.float64)})
    with pytest.raises(DataError, match="no input"):
        session.run({"x": x(3), "z": x(3)})
    session.close()
    with pytest.raises(UsageError, match="closed"):
        session.run({"x": x(3)})


def test_a_run_that_fails_between_the_sizes_leaves_nothing_behind(write_model):
    text = "g (float[N,3] x, float[M,3] k) => (float[N,3] y, float[L,3] z) { y = Atan(x)  z = Add(x, k) }"
    options = {
        "shapes": {"x": [2, 3], "k": [2, 3]},
        "buckets": {"batch": [2, 4]},
        "bucket_axes": {"batch:x": [0], "batch:k": [0]},
    }
    session = OPENVINO.load(write_model(text), options)
    feeds = {"x": x(3), "k": x(3)}
    for _ in range(2):
        assert session.run(feeds)["y"].shape == (3, 3)
        with pytest.raises(ModelError, match="could not run"):
            session.run({"x": x(5), "k": x(3)})
        for _ in range(2):
            assert np.allclose(session.run(feeds)["y"], np.arctan(x(3)), atol=1e-4)
