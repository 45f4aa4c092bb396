import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from edgeopt.backends import backend_named
from edgeopt.backends.openvino import model as openvino_model
from edgeopt.backends.openvino.session import Lane, OpenVinoSession
from edgeopt.errors import DataError, MissingExtraError, ModelError, UsageError

openvino = pytest.importorskip("openvino")
OPENVINO = backend_named("openvino-cpu")


@pytest.fixture
def compiled(monkeypatch):
    """How often, and how, models were compiled."""
    seen = []
    real = OpenVinoSession._compile

    def compile_and_note(self, model, shapes):
        seen.append(shapes)
        return real(self, model, shapes)

    monkeypatch.setattr(OpenVinoSession, "_compile", compile_and_note)
    return seen


def x(rows, start=0):
    return np.arange(rows * 3, dtype=np.float32).reshape(rows, 3) + np.float32(start)


def test_static_shapes_fall_back_to_dynamic_ones_once(onnx_file, compiled):
    session = OPENVINO.load(onnx_file("batch"), {"shapes": {"x": [2, 3]}})
    assert session.inputs[0].shape == (None, 3)
    assert compiled == [{"x": (2, 3)}]
    for rows in (2, 5, 2, 1, 2, 2, 5):
        assert session.run({"x": x(rows, rows)})["y"].tolist() == (2 * x(rows, rows)).tolist()
    assert compiled == [{"x": (2, 3)}, {}]


def test_static_shapes_alone_need_no_second_compilation(onnx_file, compiled):
    session = OPENVINO.load(onnx_file("batch"), {"shapes": {"x": [2, 3]}})
    for start in range(3):
        session.run({"x": x(2, start)})
    assert len(compiled) == 1


def test_threads_compile_the_program_for_other_shapes_once(onnx_file, compiled):
    session = OPENVINO.load(onnx_file("batch"), {"shapes": {"x": [2, 3]}})
    together = threading.Barrier(4)

    def work(rows):
        together.wait()
        return np.array_equal(session.run({"x": x(rows)})["y"], 2 * x(rows))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, (5, 6, 7, 8)))
    assert compiled == [{"x": (2, 3)}, {}]


def test_a_run_under_way_does_not_open_a_closed_session_again(onnx_file, monkeypatch):
    session = OPENVINO.load(onnx_file("batch"), {})
    real = Lane.infer

    def close_meanwhile(self):
        results = real(self)
        session.close()
        return results

    monkeypatch.setattr(Lane, "infer", close_meanwhile)
    assert session.run({"x": x(2)})["y"].tolist() == (2 * x(2)).tolist()
    monkeypatch.undo()
    with pytest.raises(UsageError, match="closed"):
        session.run({"x": x(2)})


def test_a_shape_that_the_file_forbids_stays_forbidden(onnx_file):
    session = OPENVINO.load(onnx_file("batch"), {"shapes": {"x": [2, 3]}})
    with pytest.raises(DataError, match="shape"):
        session.run({"x": np.ones((2, 4), np.float32)})


@pytest.mark.parametrize(
    ("shapes", "sentence"),
    [
        ({"z": [1, 3]}, "'z', which the model does not have"),
        ({"x": [1, 4]}, "does not fit"),
        ({"x": [3]}, "does not fit"),
    ],
)
def test_shapes_that_cannot_be(onnx_file, shapes, sentence):
    with pytest.raises(UsageError, match=sentence):
        OPENVINO.load(onnx_file("batch"), {"shapes": shapes})


def test_a_large_static_output_may_be_let_go_before_the_next_run(onnx_file):
    session = OPENVINO.load(onnx_file("large"), {})
    for start in range(4):
        feed = np.full((1, 200_000), start, np.float32)
        results = session.run({"x": feed})
        assert (results["y"] == start).all()
        assert results["total"].tolist() == [[start]]
        del feed, results


def test_a_large_feed_may_be_let_go_before_the_next_run(onnx_file):
    session = OPENVINO.load(onnx_file("batch"), {})
    for start in range(4):
        feed = x(50_000, start)
        feed.flags.writeable = start % 2 == 0
        assert np.array_equal(session.run({"x": feed})["y"], 2 * x(50_000, start))
        del feed


def test_bfloat16_goes_in_and_out(onnx_file):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    session = OPENVINO.load(onnx_file("bfloat16"), {})
    assert session.inputs[0].dtype == "bfloat16"
    for size in (2, 2, 100_000):
        feed = np.linspace(-2, 2, size).astype(ml_dtypes.bfloat16)
        result = session.run({"x": feed})["y"]
        assert result.dtype.name == "bfloat16"
        assert np.array_equal(result, feed)


def test_strings_are_refused_when_loading(onnx_file):
    with pytest.raises(ModelError, match="tensor of string"):
        OPENVINO.load(onnx_file("str"), {})


def test_an_unknown_rank_is_refused_in_the_runtimes_words(onnx_file):
    nodes = [("Add", ["x", "x"], ["y"], {})]
    path = onnx_file(nodes=nodes, inputs=[("x", "float32", None)], outputs=[("y", "float32", None)])
    with pytest.raises(ModelError, match="dynamic rank"):
        OPENVINO.load(path, {})


def test_what_fails_inside_the_model_is_told_in_the_runtimes_words(onnx_file):
    ports = [("a", "float32", ["n"]), ("b", "float32", ["m"])]
    path = onnx_file(nodes=[("Add", ["a", "b"], ["y"], {})], inputs=ports, outputs=[("y", "float32", [None])])
    session = OPENVINO.load(path, {})
    two, three = np.ones(2, np.float32), np.ones(3, np.float32)
    with pytest.raises(ModelError, match="could not run"):
        session.run({"a": two, "b": three})
    assert session.run({"a": two, "b": two})["y"].tolist() == [2, 2]


def test_openvinos_own_format_keeps_the_names(onnx_file, tmp_path):
    path = tmp_path / "own.xml"
    openvino.save_model(openvino.Core().read_model(onnx_file("two")), path)
    session = OPENVINO.load(path, {})
    results = session.run({"b": np.ones((1, 2), np.float32), "a": np.array([[1, 2]])})
    assert {name: array.tolist() for name, array in results.items()} == {"z": [[2, 3]], "m": [[0, -1]]}


def test_a_model_with_state_starts_afresh_each_time(tmp_path):
    from openvino import opset13 as ops

    start = ops.constant(np.zeros(2, np.float32))
    feed = ops.parameter([2], np.float32, name="x")
    kept = ops.read_value(start, "state")
    total = ops.add(kept, feed)
    total.output(0).set_names({"y"})
    model = openvino.Model([ops.result(total)], [ops.assign(total, "state")], [feed])
    feed.output(0).set_names({"x"})
    openvino.save_model(model, tmp_path / "state.xml", compress_to_fp16=False)
    session = OPENVINO.load(tmp_path / "state.xml", {})
    for _ in range(3):
        assert session.run({"x": np.ones(2, np.float32)})["y"].tolist() == [1, 1]


def test_without_the_package_the_extra_is_named(onnx_file, monkeypatch):
    path = onnx_file("batch")
    openvino_model.core.cache_clear()
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(MissingExtraError) as raised:
        OPENVINO.load(path, {})
    assert raised.value.extra == "openvino"


DROPOUTS = (
    "g (float[2,3] x) => (float[2,3] y) { v = Dropout(x) y = Neg(v) }",
    "g (float[2,3] x) => (float[2,3] y) { y = Dropout(x) }",
    "g (float[2,3] b, float[2,3] x) => (float[2,3] y, float[2,3] z) { y = Dropout(x) z = Dropout(b) }",
    "g (float[2,3] w, float[2,3] x) => (float[2,3] y) { v = Dropout(x) y = Add(v, w) }",
    "g (float[2,3] unused, float[2,3] x) => (float[2,3] y) { u = Dropout(x) v = Dropout(u) y = Neg(v) }",
)


@pytest.mark.parametrize("text", DROPOUTS)
def test_inputs_that_go_through_a_dropout_keep_their_names(write_model, text):
    # The weight is listed among the inputs, as old exporters do.
    path = write_model(text, **({"w": np.full((2, 3), 7, np.float32)} if " w" in text else {}))
    wanted, got = (backend_named(name).load(path, {}) for name in ("onnxruntime-cpu", "openvino-cpu"))
    names = [info.name for info in wanted.inputs if info.name != "w"]
    assert [info.name for info in got.inputs] == names
    feeds = {name: x(2, 10 * place) for place, name in enumerate(names)}
    right = wanted.run(feeds)
    for _ in range(2):  # the second run takes the quick way
        found = got.run(feeds)
        assert found.keys() == right.keys()
        assert all(np.array_equal(found[name], right[name]) for name in right)


FAILING = "g (float[N,4] x) => (float[N,4] y, float[2,4] z) { y = Atan(x)  z = MatMul(w, x) }"


@pytest.mark.parametrize("options", [{}, {"shapes": {"x": [2, 4]}}, {"threads": 1}])
def test_a_run_that_fails_leaves_nothing_behind_for_the_next(write_model, options):
    session = OPENVINO.load(write_model(FAILING, w=np.eye(2, dtype=np.float32)), dict(options))
    feeds = {"x": np.arange(8, dtype=np.float32).reshape(2, 4)}
    for rows in (1, 5):
        right = session.run(feeds)
        with pytest.raises(ModelError, match="could not run"):
            session.run({"x": np.ones((rows, 4), np.float32)})
        for _ in range(2):
            found = session.run(feeds)
            assert {name: array.tolist() for name, array in found.items()} == {
                name: array.tolist() for name, array in right.items()
            }
            assert found["y"].shape == (2, 4)
