import os
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

import edgeopt
from edgeopt.backends.base import TensorInfo
from edgeopt.bundle.runtime.stream import found_pairs
from edgeopt.errors import DataError, UsageError

pytest.importorskip("onnxruntime")

CORPUS = Path(os.environ.get("EDGEOPT_CORPUS") or Path(__file__).parents[4] / "shared" / "corpus")
RECURRENT = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[batch, 3] x, float[batch, 3] h) => (float[batch, 3] y, float[batch, 3] hn)
    { s = Add(x, h)  hn = Tanh(s)  y = Exp(hn) }"""


@pytest.fixture
def recurrent(tmp_path):
    onnx.save(onnx.parser.parse_model(RECURRENT), tmp_path / "m.onnx")
    with edgeopt.load(tmp_path / "m.onnx") as session:
        yield session


def inputs(count, batch=1):
    return np.random.default_rng(1).standard_normal((count, batch, 3)).astype(np.float32)


def by_hand(session, steps, h):
    for x in steps:
        outputs = session.run({"x": x, "h": h})
        h = outputs["hn"]
        yield outputs["y"], h


@pytest.mark.parametrize("batch", [1, 4])
def test_steps_equal_those_by_hand(recurrent, batch):
    stream = recurrent.stream()
    steps = inputs(6, batch)
    for x, (y, h) in zip(steps, by_hand(recurrent, steps, np.zeros((batch, 3), np.float32)), strict=True):
        outputs = stream.step({"x": x})
        assert outputs.keys() == {"y"}
        np.testing.assert_array_equal(outputs["y"], y)
        np.testing.assert_array_equal(stream.state["h"], h)


@pytest.fixture(params=["onnxruntime-cpu", "openvino-cpu"])
def by_runtime(request, tmp_path):
    pytest.importorskip(request.param.removesuffix("-cpu"))
    onnx.save(onnx.parser.parse_model(RECURRENT), tmp_path / "m.onnx")
    with edgeopt.load(tmp_path / "m.onnx", backend=request.param) as session:
        yield session


@pytest.mark.parametrize(("first", "second"), [(1, 3), (3, 1)])
def test_another_batch_in_a_sequence_is_refused(by_runtime, first, second):
    stream = by_runtime.stream()
    # OpenVINO names no dimensions, so the first state has a batch of 1.
    for x in inputs(2, first):
        stream.step(x)
    state = stream.state["h"]
    with pytest.raises(DataError) as caught:
        stream.step(inputs(1, second)[0])
    assert caught.value.message == (
        f"'x' has the size {second} on axis 0, but the state 'h' of this sequence has {first}."
    )
    assert "stream.reset()" in caught.value.hint
    np.testing.assert_array_equal(stream.state["h"], state)
    stream.step(inputs(1, first)[0])
    stream.reset()
    assert stream.step(inputs(1, second)[0])["y"].shape == (second, 3)


def test_an_initial_state_of_another_batch_is_refused(recurrent):
    stream = recurrent.stream(initial={"h": np.zeros((1, 3), np.float32)})
    with pytest.raises(DataError, match="'x' has the size 3 on axis 0, but the state 'h' of this sequence has 1"):
        stream.step(inputs(1, 3)[0])


GROWING = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[batch, new, 3] x, float[batch, old, 3] past) => (float[batch, all, 3] y, float[batch, all, 3] next)
    { next = Concat <axis = 1> (past, x)  y = Exp(next) }"""


@pytest.mark.parametrize("backend", ["onnxruntime-cpu", "openvino-cpu"])
def test_a_cache_grows_by_steps_of_any_length(tmp_path, backend):
    pytest.importorskip(backend.removesuffix("-cpu"))
    onnx.save(onnx.parser.parse_model(GROWING), tmp_path / "m.onnx")
    with edgeopt.load(tmp_path / "m.onnx", backend=backend) as session:
        stream = session.stream({"past": "next"}, {"past": np.zeros((2, 0, 3), np.float32)})
        lengths = [stream.step(np.ones((2, each, 3), np.float32))["y"].shape[1] for each in (1, 3, 1, 2)]
    assert lengths == [1, 4, 5, 7]


def test_an_initial_state_is_used_and_taken_up_again_by_a_reset(recurrent):
    start = np.full((1, 3), 0.5, np.float32)
    ((wanted, _),) = by_hand(recurrent, inputs(1), start)
    stream = recurrent.stream(initial={"h": start})
    for _ in range(2):
        np.testing.assert_array_equal(stream.step(inputs(1)[0])["y"], wanted)
        stream.step(inputs(1)[0])
        stream.reset()


def test_changing_the_arrays_of_the_initial_state_changes_no_sequence(recurrent):
    start = np.full((1, 3), 0.5, np.float32)
    ((wanted, _),) = by_hand(recurrent, inputs(1), start)
    given = start.copy()
    stream = recurrent.stream(initial={"h": given})
    given[:] = 99
    np.testing.assert_array_equal(stream.step(inputs(1)[0])["y"], wanted)
    given[:] = -99
    stream.reset()
    np.testing.assert_array_equal(stream.step(inputs(1)[0])["y"], wanted)


def test_changing_the_arrays_of_the_state_changes_no_sequence(recurrent):
    steps = inputs(3)
    wanted = [y for y, _ in by_hand(recurrent, steps, np.zeros((1, 3), np.float32))]
    stream = recurrent.stream()
    for x, y in zip(steps, wanted, strict=True):
        np.testing.assert_array_equal(stream.step(x)["y"], y)
        stream.state["h"][:] = 99


def test_streams_of_one_session_do_not_disturb_each_other(recurrent):
    steps = inputs(5)
    alone = recurrent.stream()
    wanted = [alone.step(x)["y"] for x in steps]
    first, second = recurrent.stream(state={"h": "hn"}), recurrent.stream()
    for x, y in zip(steps, wanted, strict=True):
        np.testing.assert_array_equal(first.step(x)["y"], y)
        second.step(-x)


def test_a_failed_step_leaves_the_state_alone(recurrent):
    stream = recurrent.stream()
    stream.step(inputs(1)[0])
    before = stream.state["h"]
    with pytest.raises(DataError, match="'x' is missing"):
        stream.step({})
    np.testing.assert_array_equal(stream.state["h"], before)


@pytest.mark.parametrize(
    ("state", "initial", "says"),
    [
        ({"z": "hn"}, None, "no input 'z'"),
        ({"h": "z"}, None, "no output 'z'"),
        ({"h": "hn", "x": "hn"}, None, "'hn' feeds several inputs"),
        ({}, None, "needs state"),
        (None, {"x": np.zeros((1, 3))}, "'x' is not a state"),
    ],
)
def test_wrong_declarations_are_told(recurrent, state, initial, says):
    with pytest.raises(UsageError, match=says):
        recurrent.stream(state, initial)


def test_feeding_the_state_is_refused(recurrent):
    with pytest.raises(UsageError, match="'h' is state"):
        recurrent.stream().step({"x": inputs(1)[0], "h": inputs(1)[0]})


def ports(**shapes):
    return tuple(TensorInfo(name, "float32", tuple(shape)) for name, shape in shapes.items())


@pytest.mark.parametrize(
    ("taken", "given", "pairs"),
    [
        (["x", "state"], ["y", "stateN"], {"state": "stateN"}),
        (["audio", "h", "c"], ["out", "hn", "cn"], {"h": "hn", "c": "cn"}),
        (["audio", "h0", "c0"], ["out", "hn", "cn"], {"h0": "hn", "c0": "cn"}),
        (["audio", "cache_in"], ["y", "cache_out"], {"cache_in": "cache_out"}),
        (["audio", "in_state"], ["y", "out_state"], {"in_state": "out_state"}),
        (["audio", "x"], ["y", "x_out"], {"x": "x_out"}),
        (["audio", "h", "c"], ["hn", "h_out", "cn"], {"c": "cn"}),
    ],
)
def test_pairs_are_found_by_name(taken, given, pairs):
    shape = (1, 4)
    assert found_pairs(ports(**dict.fromkeys(taken, shape)), ports(**dict.fromkeys(given, shape))) == pairs


@pytest.mark.parametrize(
    ("taken", "given"),
    [
        ({"x": (1, 4), "h": (1, 4)}, {"y": (1, 4), "hn": (1, 5)}),
        ({"x": (1, 4), "h": (1, 4)}, {"y": (1, 4), "z": (1, 4)}),
        ({"x": (1, 4), "h": (1, 4)}, {"hn": (1, 4), "h_out": (1, 4)}),
        ({"x": (1, 4)}, {"x_out": (1, 4)}),
    ],
    ids=["shapes", "names", "two outputs", "no other input"],
)
def test_what_is_not_clear_must_be_declared(taken, given):
    with pytest.raises(UsageError, match="state of the model cannot be detected") as raised:
        found_pairs(ports(**taken), ports(**given))
    assert "session.stream(state=" in raised.value.hint


def test_types_that_differ_are_no_pair():
    with pytest.raises(UsageError, match="cannot be detected"):
        found_pairs(ports(x=(1,), h=(1,)), (TensorInfo("hn", "float16", (1,)),))


@pytest.mark.skipif(not (CORPUS / "silero_vad.onnx").is_file(), reason="the corpus is not here")
def test_a_voice_detector_steps_as_by_hand():
    with edgeopt.load(CORPUS / "silero_vad.onnx", "onnxruntime-cpu") as session:
        stream = session.stream()
        assert stream.pairs == {"state": "stateN"}
        rate, state = np.array(16000, np.int64), np.zeros((2, 1, 128), np.float32)
        for audio in np.random.default_rng(0).standard_normal((20, 1, 576)).astype(np.float32) * 0.1:
            wanted = session.run({"input": audio, "state": state, "sr": rate})
            state = wanted["stateN"]
            outputs = stream.step({"input": audio, "sr": rate})
            np.testing.assert_array_equal(outputs["output"], wanted["output"])
            np.testing.assert_array_equal(stream.state["state"], state)
