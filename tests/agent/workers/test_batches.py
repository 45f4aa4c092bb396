"""Requests that a worker runs together, each with its own answer."""

import asyncio
import json
import socket

import numpy as np
import onnx
import onnx.parser
import pytest

from edgeopt.bundle.runtime.session import load
from edgeopt_agent.workers.batches import Batches
from edgeopt_agent.workers.child_io import Frames
from edgeopt_agent.workers.frames import Batching, Infer, Load, Port, Signature, head
from edgeopt_agent.workers.sequences import Sequences
from edgeopt_agent.workers.served import Served
from tests.agent.conftest import Y
from tests.agent.workers.test_process import changed, with_worker

BATCHED = {"batch_max_size": 4, "batch_max_delay_us": 1_000_000}
SLOW = {"latency_ms": 5.0}
"""A run takes as long for one row as for many, so batches pay."""


def rows(seed, count=1):
    return np.random.default_rng(seed).standard_normal((count, 4)).astype(np.float32)


def asked(x):
    given = {"name": "x", "datatype": "FP32", "shape": x.shape, "data": x.ravel().tolist()}
    return json.dumps({"inputs": [given], "id": str(x.sum())}).encode()


def answers(bundle, settings, requests):
    """What the worker makes of these requests, sent at once; and how it judges batches."""

    async def use(worker):
        return await asyncio.gather(*(worker.infer(each) for each in requests)), worker.batching

    return with_worker(bundle, settings, use)


def check_own(bundle, arrays, found):
    with load(bundle) as session:
        for x, answer in zip(arrays, found, strict=True):
            assert answer.status == 200
            document = json.loads(answer.body)
            assert document["id"] == str(x.sum())
            np.testing.assert_allclose(
                document["outputs"][0]["data"], session.run({"x": x})["y"].ravel(), rtol=1e-5
            )


def test_requests_that_wait_together_share_a_run(null_bundle, settings):
    bundle = null_bundle(**SLOW)
    arrays = [rows(seed) for seed in range(8)]
    found, batching = answers(bundle, changed(settings, **BATCHED), map(asked, arrays))
    assert batching.used
    assert "times as fast as two single runs" in batching.reason
    check_own(bundle, arrays, found)
    assert [answer.batched for answer in found] == [4] * 8
    assert sum(answer.executions for answer in found) == 2


def test_other_shapes_run_apart_and_answers_keep_their_order(null_bundle, settings):
    bundle = null_bundle(**SLOW)
    arrays = [rows(0), rows(1, 2), rows(2), rows(3, 3), rows(4)]
    found, _ = answers(bundle, changed(settings, **BATCHED), map(asked, arrays))
    check_own(bundle, arrays, found)
    # Three rows leave no room for others, and what came before them shares a run by shape.
    assert [answer.batched for answer in found] == [2, 1, 2, 1, 1]


def test_a_wrong_request_fails_alone(null_bundle, settings):
    bundle = null_bundle(**SLOW)
    arrays = [rows(0), rows(1)]
    requests = [asked(arrays[0]), b"{}", asked(arrays[1])]
    found, _ = answers(bundle, changed(settings, **BATCHED), requests)
    assert [answer.status for answer in found] == [200, 400, 200]
    check_own(bundle, arrays, [found[0], found[2]])


def test_what_is_no_request_is_answered_behind_the_batch(null_bundle, settings):
    async def use(worker):
        first, golden, last = await asyncio.gather(
            worker.infer(asked(rows(0))), worker.golden(30.0, quick=True), worker.infer(asked(rows(1)))
        )
        assert golden.problem is None
        check_own(bundle, [rows(0), rows(1)], [first, last])

    bundle = null_bundle(**SLOW)
    with_worker(bundle, changed(settings, **BATCHED), use)


FIXED = {"name": "x", "dtype": "float32", "shape": [1, 4]}


@pytest.mark.parametrize(
    ("given", "faults", "reason"),
    [
        ({"inputs": (FIXED,)}, SLOW, "no open first axis, its shape is [1, 4]"),
        ({"outputs": ({**Y, "shape": [1, 2]},)}, SLOW, "the output 'y' has no open first axis"),
        ({}, {"row_ms": 20.0}, "at least 1.05 times is required"),
    ],
)
def test_a_model_without_use_for_batches_runs_each_request_alone(null_bundle, settings, given, faults, reason):
    bundle = null_bundle(**given, **faults)
    arrays = [rows(seed) for seed in range(4)]
    found, batching = answers(bundle, changed(settings, **BATCHED), map(asked, arrays))
    assert not batching.used
    assert reason in batching.reason
    assert [answer.batched for answer in found] == [1] * 4
    check_own(bundle, arrays, found)


def test_batches_are_off_by_default(null_bundle, settings):
    _, batching = answers(null_bundle(**SLOW), settings, [asked(rows(0))])
    assert batching is None


def test_a_request_at_which_the_model_fails_does_not_fail_those_of_its_batch(tmp_path):
    model = """<ir_version: 8, opset_import: ["" : 17]>
        g (int64[batch, 1] x) => (float[batch, 1] y) <float[3, 1] table = {1, 2, 3}>
        { row = Constant<value_ints = [-1]> ()  ids = Reshape(x, row)  y = Gather(table, ids) }"""
    onnx.save(onnx.parser.parse_model(model), tmp_path / "table.onnx")
    mine, theirs = socket.socketpair()
    with load(tmp_path / "table.onnx") as session, mine, theirs:
        ports = (Port("x", "int64", ("batch", 1)),), (Port("y", "float32", ("batch", 1)),)
        served = Served(
            session, Load("", "a", 1 << 20, 1 << 20), "table", Signature(*ports), Sequences(session, {}, 0, 0.0)
        )
        for value in (0, 7, 2):  # there is no row 7
            x = {"name": "x", "datatype": "INT64", "shape": [1, 1], "data": [value]}
            text = json.dumps({"inputs": [x]}).encode()
            mine.sendall(head(Infer(), len(text)) + text)
        frames = Frames(theirs)
        batches = Batches(served, frames, Batching(4, 0, used=True, reason=""))
        found = list(batches.answer(frames.receive()))
    assert [answered.status for answered, _, _ in found] == [200, 500, 200]
    assert [answered.batched for answered, _, _ in found] == [1, 1, 1]
    assert [json.loads(found[k][1])["outputs"][0]["data"] for k in (0, 2)] == [[1.0], [3.0]]
