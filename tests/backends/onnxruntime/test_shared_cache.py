import os

import numpy as np
import pytest

import edgeopt
from edgeopt.backends import backend_named
from edgeopt.backends.onnxruntime import shared_cache
from edgeopt.bundle.cache import found_cache
from edgeopt.bundle.runtime.generation import DecoderPorts
from edgeopt.bundle.runtime.stream import Stream, decoder_steps
from edgeopt.errors import UsageError
from tests.bundle.runtime.decoder import PAIRS as PLAIN_PAIRS
from tests.bundle.runtime.decoder import write_decoder
from tests.bundle.runtime.grouped import PAIRS, VOCABULARY, write_grouped

pytest.importorskip("onnxruntime")
IDS = np.random.default_rng(1).integers(0, VOCABULARY, 24)


@pytest.fixture
def grouped(tmp_path):
    return write_grouped(tmp_path / "grouped.onnx")


def logits(steps, session, counts, batch=1):
    """Logits of some steps of a text; each row of a batch begins with another token."""
    cache = found_cache(session.inputs, session.outputs)
    ports = DecoderPorts(cache, session.inputs, session.outputs)
    rows = np.stack([np.roll(IDS, row) for row in range(batch)])
    found, begin = [], 0
    for count in counts:
        found.append(np.array(steps.step(ports.feeds(rows[:, begin : begin + count], begin))["logits"]))
        begin += count
    return np.concatenate(found, 1)


@pytest.mark.parametrize(("counts", "batch"), [((24,), 1), ((5, *[1] * 19), 1), ((9, 15), 1), ((5, *[1] * 19), 3)])
@pytest.mark.parametrize("room", [2, 256])
def test_states_kept_in_the_runtime_give_the_logits_of_fed_ones(grouped, monkeypatch, counts, batch, room):
    monkeypatch.setattr(shared_cache, "_FIRST_TOKENS", room)  # 2: the buffers grow again and again
    session = backend_named("onnxruntime-cpu").load(grouped, {})
    cache = found_cache(session.inputs, session.outputs)
    shared = decoder_steps(session, cache)
    assert not isinstance(shared, Stream)
    fed = Stream(session.run, session.inputs, session.outputs, None, None, cache)
    np.testing.assert_allclose(
        logits(shared, session, counts, batch), logits(fed, session, counts, batch), atol=1e-4
    )


def test_two_sequences_of_a_session_do_not_disturb_each_other(grouped):
    with edgeopt.load(grouped) as session:
        alone = list(session.generate([5, 6, 7], max_tokens=9))
        first, second = session.generate([5, 6, 7], max_tokens=9), session.generate([9, 8], max_tokens=9)
        mixed = [(next(first), next(second))[0] for _ in range(9)]
    assert mixed == alone


def test_a_state_that_another_node_reads_is_fed_at_each_step(tmp_path):
    models = (
        (write_grouped(tmp_path / "reads.onnx", reads_past=True), PAIRS),
        (
            write_decoder(tmp_path / "plain.onnx"),
            PLAIN_PAIRS,
        ),
    )
    for path, pairs in models:
        session = backend_named("onnxruntime-cpu").load(path, {})
        assert session.shared_cache(pairs) is None


def test_bound_memory_and_other_pairs_are_fed_at_each_step(grouped):
    assert backend_named("onnxruntime-cpu").load(grouped, {"io_binding": True}).shared_cache(PAIRS) is None
    some = dict(list(PAIRS.items())[:2])
    assert backend_named("onnxruntime-cpu").load(grouped, {}).shared_cache(some) is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_sequence_of_another_process_is_refused(grouped, monkeypatch):
    session = backend_named("onnxruntime-cpu").load(grouped, {})
    steps = decoder_steps(session, found_cache(session.inputs, session.outputs))
    logits(steps, session, (3,))
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(UsageError, match="another process"):
        logits(steps, session, (3,))


def test_a_closed_session_ends_its_sequences(grouped):
    session = edgeopt.load(grouped)
    answer = session.generate([5, 6, 7], max_tokens=9)
    next(answer)
    session.close()
    with pytest.raises(UsageError, match="closed"):
        next(answer)


def test_a_model_whose_file_is_gone_still_generates(grouped):
    with edgeopt.load(grouped) as session:
        alone = list(session.generate([5, 6, 7], max_tokens=9))
        grouped.unlink()
        assert list(session.generate([5, 6, 7], max_tokens=9)) == alone
    session = backend_named("onnxruntime-cpu").load(write_grouped(grouped), {})
    grouped.unlink()
    assert session.shared_cache(PAIRS) is None
