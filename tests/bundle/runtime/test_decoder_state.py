"""The cache of decoders as the state of a stream."""

import numpy as np
import onnx.parser
import pytest

from edgeopt.backends.base import TensorInfo
from edgeopt.bundle.runtime.stream import Stream, found_pairs
from edgeopt.errors import UsageError
from edgeopt.graph.accuracy import signal_to_noise_db
from tests.bundle.runtime.decoder import (
    BACKENDS,
    CACHED,
    GROWN,
    HEADS,
    PAIRS,
    VOCABULARY,
    WIDTH,
    load,
    numpy_logits,
    ports,
    weights,
    write_decoder,
)

pytest.importorskip("onnxruntime")

STEPS = 32
MIN_DB = 90


def sequences(count=1, length=STEPS):
    return np.random.default_rng(7).integers(0, VOCABULARY, (count, length))


def feeds(ids, cached=0, mask=None, positions=None):
    count, new = ids.shape
    rows = np.arange(cached, cached + new)[None].repeat(count, 0)
    return {
        "input_ids": ids,
        "attention_mask": np.ones((count, cached + new), np.int64) if mask is None else mask,
        "position_ids": rows if positions is None else positions,
    }


def stepped(stream, ids, lengths):
    """Returns the logits of all tokens, in steps of these lengths."""
    found, cached = [], 0
    for length in lengths:
        found.append(stream.step(feeds(ids[:, cached : cached + length], cached))["logits"])
        cached += length
    assert cached == ids.shape[1]
    return np.concatenate(found, axis=1)


def first_axis_empty(count, length=0):
    return {name: np.zeros((count, HEADS, length, WIDTH), np.float32) for name in PAIRS}


def worst_db(reference, got):
    """Returns the accuracy of the worst step."""
    return min(signal_to_noise_db(reference[:, step], got[:, step]) for step in range(reference.shape[1]))


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("lengths", [[1] * STEPS, [STEPS], [7, 1, 1, 16, 5, 2]], ids=["cached", "full", "chunked"])
def test_every_step_equals_the_whole_sequence_in_numpy(session, count, lengths):
    ids = sequences(count)
    reference = np.stack([numpy_logits(weights(), row) for row in ids])
    assert worst_db(reference, stepped(session.stream(), ids, lengths)) > MIN_DB


def test_left_padded_rows_equal_rows_alone(session):
    ids, padding = sequences(), 3
    alone = stepped(session.stream(), ids, [1] * STEPS)
    stream = session.stream()
    found = []
    for step in range(STEPS):
        new = (
            ids[:, step : step + 1] if step else np.concatenate([np.zeros((1, padding), np.int64), ids[:, :1]], 1)
        )
        mask = np.ones((1, padding + step + 1), np.int64)
        mask[:, :padding] = 0
        positions = np.maximum(np.arange(padding + step + 1) - padding, 0)[None, -new.shape[1] :]
        found.append(stream.step(feeds(new, mask=mask, positions=positions))["logits"][:, -1:])
    assert worst_db(alone, np.concatenate(found, axis=1)) > MIN_DB


@pytest.mark.parametrize("count", [1, 3])
def test_the_cache_of_a_decoder_begins_empty(session, count):
    ids = sequences(count, 4)
    begun = session.stream()
    stepped(begun, ids, [4])
    assert {array.shape for array in begun.state.values()} == {(count, HEADS, 4, WIDTH)}
    assert begun.pairs == PAIRS


def test_a_cache_that_begins_at_one_token_changes_the_results(session):
    ids = sequences()
    right = stepped(session.stream(), ids, [1] * STEPS)
    faulty = session.stream(initial=first_axis_empty(1, length=1))
    found = [
        faulty.step(
            feeds(ids[:, step : step + 1], mask=np.ones((1, step + 2), np.int64), positions=np.full((1, 1), step))
        )
        for step in range(STEPS)
    ]
    assert worst_db(right, np.concatenate([each["logits"] for each in found], axis=1)) < MIN_DB / 2


@pytest.mark.parametrize(("shift", "is_right"), [(0, True), (1, False)])
def test_a_cache_that_is_shifted_by_one_position_changes_the_results(session, shift, is_right):
    ids = sequences()
    right = stepped(session.stream(), ids, [1] * STEPS)
    begun = session.stream()
    stepped(begun, ids[:, :8], [8])
    padded = {name: np.pad(array, ((0, 0), (0, 0), (shift, 0), (0, 0))) for name, array in begun.state.items()}
    shifted = session.stream(initial={name: array[:, :, :8] for name, array in padded.items()})
    found = shifted.step(feeds(ids[:, 8:9], 8))["logits"]
    assert (signal_to_noise_db(right[:, 8:9], found) > MIN_DB) == is_right
    if shift:
        assert signal_to_noise_db(right[:, 8:9], found) < MIN_DB / 2


@pytest.mark.parametrize("stack", ["", "decoder__", "encoder__"])
def test_pairs_of_decoders_are_found_by_name(stack):
    past, present = f"past_key_values__11__{stack}key", f"present__11__{stack}key"
    found = found_pairs(ports(input_ids=(1, 1), **{past: CACHED}), ports(logits=(1, 1), **{present: GROWN}))
    assert found == {past.replace("__", "."): present.replace("__", ".")}


CROSS = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[batch, new, 3] x, float[batch, 2, old, 3] past, float[batch, 2, far, 3] cross)
    => (float[batch, total] y, float[batch, 2, all, 3] present, float[batch, 2, source, 3] kept)
    { axes = Constant <value_ints = [1]> ()
      one = Unsqueeze(x, axes)
      both = Concat <axis = 1> (one, one)
      present = Concat <axis = 2> (past, both)
      kept = Concat <axis = 2> (cross, both)
      shape = Constant <value_ints = [0, -1]> ()
      y = Reshape(kept, shape) }"""
CROSS_NAMES = {
    "past": "past_key_values.0.decoder.key",
    "present": "present.0.decoder.key",
    "cross": "past_key_values.0.encoder.key",
    "kept": "present.0.encoder.key",
}


@pytest.fixture(params=BACKENDS)
def cross(request, tmp_path):
    model = onnx.parser.parse_model(CROSS)
    for node in (*model.graph.input, *model.graph.output):
        node.name = CROSS_NAMES.get(node.name, node.name)
    for node in model.graph.node:
        for names in (node.input, node.output):
            names[:] = [CROSS_NAMES.get(name, name) for name in names]
    onnx.save(model, tmp_path / "m.onnx")
    with load(tmp_path / "m.onnx", request.param) as session:
        yield session


def shapes_after_steps(stream, lengths):
    """Returns the shapes of the decoder's and the encoder's cache after each step."""
    found = []
    for length in lengths:
        stream.step(np.ones((2, length, 3), np.float32))
        found.append(tuple(stream.state[CROSS_NAMES[name]].shape for name in ("past", "cross")))
    return found


def test_cross_attention_stays_as_the_first_step_returned_it(cross):
    found = shapes_after_steps(cross.stream(), (4, 1, 1))
    assert found == [((2, 2, total, 3), (2, 2, 4, 3)) for total in (4, 5, 6)]


def test_cross_attention_stays_as_it_was_given(cross):
    given = np.ones((2, 2, 7, 3), np.float32)
    found = shapes_after_steps(cross.stream(initial={CROSS_NAMES["cross"]: given}), (4, 1))
    assert found == [((2, 2, total, 3), given.shape) for total in (4, 5)]


def test_a_cache_may_have_the_dimension_name_of_the_new_tokens(tmp_path):
    ids = sequences(2, 6)
    reference = np.stack([numpy_logits(weights(), row) for row in ids])
    with load(write_decoder(tmp_path / "m.onnx", sequence="past")) as session:
        assert worst_db(reference, stepped(session.stream(), ids, [3, 1, 2])) > MIN_DB


@pytest.mark.parametrize(
    ("past", "present"),
    [
        (("batch", "heads", "past", 8), ("batch", "heads", "total", 8)),
        (("batch", "heads", "past", 8), ("batch", "heads", "past", 8)),
        ((None, None, None, 8), (None, None, None, 8)),
        ((), ()),
    ],
)
def test_open_sizes_of_a_cache_are_not_guessed(past, present):
    ports = (("past_key_values.0.key", past), ("present.0.key", present))
    taken, given = (TensorInfo(name, "float32", shape, bool(shape)) for name, shape in ports)
    stream = Stream(dict, (TensorInfo("x", "float32", ("batch", 4)), taken), (given,), None, None)
    with pytest.raises(UsageError, match=r"first size of the state 'past_key_values.0.key' is unknown"):
        stream.step(np.zeros((1, 4), np.float32))


def test_a_cache_of_fixed_length_begins_as_zeros_of_its_batch():
    past = TensorInfo("past_key_values.0.key", "float32", (None, 2, 16, 8))
    present = TensorInfo("present.0.key", "float32", (None, 2, 16, 8))
    ran = []

    def run(feeds):
        ran.append(feeds[past.name])
        return {present.name: feeds[past.name] + 1}

    stream = Stream(run, (TensorInfo("x", "float32", (None, 4)), past), (present,), None, None)
    stream.step(np.zeros((3, 4), np.float32))
    np.testing.assert_array_equal(ran[0], np.zeros((3, 2, 16, 8), np.float32))
