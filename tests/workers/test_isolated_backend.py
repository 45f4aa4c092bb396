import json
from contextlib import closing

import numpy as np
import psutil
import pytest

from edgeopt.backends import backend_named
from edgeopt.errors import ModelError, UsageError
from edgeopt.workers.arrays import read_arrays, write_arrays
from edgeopt.workers.isolated_backend import IsolatedBackends
from tests.conftest import write_onnx

MODEL = {
    "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 3]}],
    "outputs": [{"name": "y", "dtype": "float32", "shape": ["batch", 2]}],
    "behaviour": "mix",
}
FEEDS = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}


@pytest.fixture
def null(tmp_path):
    """The null backend in a process of its own, and where its models are written."""

    def model(name="model", **behaviour):
        path = tmp_path / f"{name}.null.json"
        path.write_text(json.dumps(MODEL | behaviour))
        return path

    with closing(IsolatedBackends()) as apart:
        yield apart.of(backend_named("null")), model


def children():
    return set(psutil.Process().children())


@pytest.fixture
def begun():
    """Asks for the processes that this test has started: what others left, or lets end, is not theirs."""
    before = children()
    return lambda: children() - before


def test_a_session_gives_what_it_gives_in_this_process(null):
    backend, model = null
    here, apart = backend_named("null").load(model(), {}), backend.load(model(), {})
    assert (apart.inputs, apart.outputs) == (here.inputs, here.outputs)
    np.testing.assert_array_equal(apart.run(FEEDS)["y"], here.run(FEEDS)["y"])


@pytest.mark.parametrize("moment", ["load", "run"])
def test_a_runtime_that_crashes_is_a_reason_and_the_next_model_runs(null, moment):
    backend, model = null
    with pytest.raises(
        ModelError, match=f"crashed: SIGSEGV.*while it {'loaded' if moment == 'load' else 'ran'} the model"
    ):
        backend.load(model("bad", crash=moment), {}).run(FEEDS)
    assert backend.load(model(), {}).run(FEEDS)["y"].shape == (2, 2)


def test_a_process_that_flushed_denormals_takes_no_model_that_must_not(tmp_path):
    pytest.importorskip("onnxruntime", reason="the null backend computes nothing that could be flushed")
    nodes = [("Mul", ["x", "half"], ["y"], {})]
    path = write_onnx(tmp_path / "half.onnx", nodes, {"half": np.full(4, 0.5, np.float32)}, {"x": [4]}, {"y": [4]})
    small = {"x": np.full(4, 1e-40, np.float32)}
    with closing(IsolatedBackends()) as apart:
        backend = apart.of(backend_named("onnxruntime-cpu"))

        def answer(**options):
            with closing(backend.load(path, {"threads": 1, **options})) as session:
                return session.run(small)["y"]

        assert not answer(flush_denormals=True).any()
        assert answer().all()
        assert not answer(flush_denormals=True).any()


def test_one_that_is_killed_between_two_runs_says_so(null, begun):
    backend, model = null
    session = backend.load(model(), {})
    (process,) = begun()
    process.kill()
    with pytest.raises(ModelError, match="killed by the system"):
        session.run(FEEDS)
    session.close()
    assert not begun()  # no other is started to be told that the model is over


def test_one_that_loads_for_too_long_is_ended(tmp_path, null):
    _, model = null
    with closing(IsolatedBackends()) as apart, pytest.raises(ModelError, match="hung"):
        apart.of(backend_named("null"), load_limit_s=1.0).load(model(hang="load"), {})


def test_the_errors_of_a_backend_stay_what_they_are(null):
    backend, model = null
    with pytest.raises(ModelError, match="m"):
        backend.load(model("bad", fail="load"), {})
    with pytest.raises(Exception, match="colour") as found:
        backend.load(model(), {"colour": "red"})
    assert (found.value.code, found.value.exit_code) == (UsageError.code, UsageError.exit_code)


def test_one_process_serves_one_model_after_another_and_ends(null, begun):
    backend, model = null
    for name in "abc":
        backend.load(model(name), {}).close()
    assert len(begun()) == 1


def test_a_closed_session_runs_nothing(null):
    backend, model = null
    session = backend.load(model(), {})
    session.close()
    session.close()
    with pytest.raises(UsageError, match="closed"):
        session.run(FEEDS)


def test_nothing_is_left_behind(tmp_path, monkeypatch, ends, begun):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "m.null.json").write_text(json.dumps(MODEL))
    with closing(IsolatedBackends()) as apart:
        apart.of(backend_named("null")).load(tmp_path / "m.null.json", {}).run(FEEDS)
        processes = begun()
        # A run's arrays may be large, and the next may be hours away.
        assert [*tmp_path.rglob("*-feeds"), *tmp_path.rglob("*-outputs")] == []
    assert processes
    assert ends(*(process.pid for process in processes))
    assert [file.name for file in tmp_path.iterdir()] == ["m.null.json"]


def test_values_of_all_kinds_come_back_as_they_were(tmp_path):
    import ml_dtypes

    given = {
        "plain": np.float32([[1, 2], [3, 4]]),
        "scalar": np.array(True),
        "empty": np.zeros((0, 3), np.int64),
        "half": np.array([1.5], ml_dtypes.bfloat16),
        "texts": np.array(["a", "größer"], object),
        "many": [np.int8([1]), np.int8([2, 3])],
        "maps": [{1: np.float32(0.5), "b": np.float32(2)}],
        "turned": np.arange(6).reshape(2, 3).T,
    }
    write_arrays(tmp_path / "v", given)
    found = read_arrays(tmp_path / "v")
    assert list(found) == list(given)
    for name in ("plain", "scalar", "empty", "half", "texts", "turned"):
        assert found[name].dtype == given[name].dtype
        np.testing.assert_array_equal(found[name], given[name])
    assert [list(each) for each in found["many"]] == [[1], [2, 3]]
    assert {key: float(each) for key, each in found["maps"][0].items()} == {1: 0.5, "b": 2.0}
