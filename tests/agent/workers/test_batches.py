"""Requests that a worker runs together, each with its own answer."""

import asyncio
import json
import socket

import numpy as np
import onnx
import onnx.parser
import pytest

import edgeopt
from edgeopt.bundle.deployment import Part, Processing, Tensor
from edgeopt.bundle.processing.schema import Softmax
from edgeopt.bundle.runtime.session import load
from edgeopt.fleet.records import ServerBatching
from edgeopt_agent.workers.batches import Batches
from edgeopt_agent.workers.child_io import Frames
from edgeopt_agent.workers.frames import Infer, Load, Port, Signature, head
from edgeopt_agent.workers.outcomes import WorkerError
from edgeopt_agent.workers.router import BusyError
from edgeopt_agent.workers.sequences import Sequences
from edgeopt_agent.workers.served import Served
from tests.agent.conftest import Y
from tests.agent.infer_request import infer_request
from tests.agent.workers.test_process import changed, with_worker
from tests.bundle.conftest import with_processing

BATCHED = {"batch_max_size": 4, "batch_max_delay_us": 400_000}
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
        return await asyncio.gather(*(worker.infer(infer_request(each)) for each in requests)), worker.batching

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
    assert [answer.run.batched for answer in found] == [4] * 8
    assert sum(answer.run.executions for answer in found) == 2


def test_other_shapes_run_apart_and_answers_keep_their_order(null_bundle, settings):
    bundle = null_bundle(**SLOW)
    arrays = [rows(0), rows(1, 2), rows(2), rows(3, 3), rows(4)]
    found, _ = answers(bundle, changed(settings, **BATCHED), map(asked, arrays))
    check_own(bundle, arrays, found)
    # Three rows leave no room for others, and what came before them shares a run by shape.
    assert [answer.run.batched for answer in found] == [2, 1, 2, 1, 1]


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
            worker.infer(infer_request(asked(rows(0)))),
            worker.golden(30.0, quick=True),
            worker.infer(infer_request(asked(rows(1)))),
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
    assert [answer.run.batched for answer in found] == [1] * 4
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
        batches = Batches(served, frames, ServerBatching(4, 0, used=True, reason=""))
        found = list(batches.answer(frames.receive()))
    assert [answered.status for answered, _, _ in found] == [200, 500, 200]
    assert [answered.batched for answered, _, _ in found] == [1, 1, 1]
    assert [json.loads(found[k][1])["outputs"][0]["data"] for k in (0, 2)] == [[1.0], [3.0]]


NEW, OLD = "bbbbbbbbbbbb", "aaaaaaaaaaaa"
STEPS = '[[steps]]\ndo = "{}"\non = "y"\n'


@pytest.fixture
def processed(tmp_path):
    """Adds declared postprocessing to a bundle."""

    def make(bundle, kind="softmax"):
        steps = tmp_path / f"{bundle.parent.name}.toml"
        steps.write_text(STEPS.format(kind))
        return with_processing(bundle, tmp_path / f"{bundle.parent.name}.edgeopt", post=steps)

    return make


def outputs(answer):
    (output,) = json.loads(bytes(answer.body))["outputs"]
    return output["data"]


def test_processed_and_plain_requests_share_a_run_of_the_model(null_bundle, processed, settings):
    bundle = processed(null_bundle(**SLOW))
    arrays = [rows(seed) for seed in range(4)]

    async def use(worker):
        requests = zip(arrays, (True, False, True, False), strict=True)
        asking = (worker.infer(infer_request(asked(x)), processed=through) for x, through in requests)
        return await asyncio.gather(*asking), worker.batching

    found, batching = with_worker(bundle, changed(settings, **BATCHED), use)
    assert batching.used
    assert [answer.run.batched for answer in found] == [4] * 4
    with edgeopt.load(bundle) as session:
        for x, answer, run in zip(arrays, found, (session.process, session.run) * 2, strict=True):
            np.testing.assert_allclose(outputs(answer), run({"x": x})["y"].ravel(), rtol=1e-5)


def test_a_type_that_the_protocol_does_not_have_is_not_loaded(null_bundle, settings, change_deployment):
    bundle = null_bundle()
    made = Tensor("z", "complex64", ["batch", 2])
    part = Part([Tensor("y", "float32", ["batch", 2])], [made], steps=[Softmax(on="y", to="z")])
    change_deployment(bundle, processing=Processing(post=part))

    async def use(_worker):
        raise AssertionError

    with pytest.raises(WorkerError, match="The processing names the type 'complex64' of 'z'"):
        with_worker(bundle, settings, use)


@pytest.mark.parametrize("kind", ["softmax", "sigmoid"])
def test_a_standby_with_processing_answers_for_one_with_processing(serving, null_bundle, processed, kind):
    server = serving()
    server.deploy(processed(null_bundle(), kind), OLD)
    server.deploy(processed(null_bundle(fail="run")), NEW, keep_old=True)
    answer = server.do(server.router.infer(infer_request(asked(rows(0)))))
    assert json.loads(bytes(answer.body))["model_version"] == OLD


def test_a_standby_without_processing_answers_plain_requests_only(serving, null_bundle, processed):
    server = serving()
    old = null_bundle()
    server.deploy(old, OLD)
    # Softmax keeps the name and the type of its output, so only the processing tells the two apart.
    server.deploy(processed(null_bundle(crash="run")), NEW, keep_old=True)
    plain = server.do(server.router.infer(infer_request(asked(rows(0)), "null.raw")))
    assert json.loads(bytes(plain.body))["model_version"] == OLD
    server.do(server.router.serving.ended.wait())
    server.deploy(processed(null_bundle(fail="run")), "cccccccccccc")

    async def standby(worker):
        server.router.standby = worker

    server.do(standby(server.start(old, OLD)))
    answer = server.do(server.router.infer(infer_request(asked(rows(0)))))
    assert (answer.status, answer.run.fault) == (500, True)


def test_a_request_is_not_answered_by_a_release_with_other_inputs(serving, null_bundle):
    server = serving()
    z = {"name": "z", "dtype": "float32", "shape": ["batch", 4]}
    server.deploy(null_bundle(inputs=(z,)), OLD)
    server.deploy(null_bundle(crash="run"), NEW, keep_old=True)
    # Its standby would call the request wrong: "The model has no input 'x'".
    with pytest.raises(BusyError, match="crashed: SIGSEGV"):
        server.do(server.router.infer(infer_request(asked(rows(0)))))


def test_processing_counts_neither_as_the_model_nor_as_waiting(serving, null_bundle, processed):
    server = serving()
    server.deploy(processed(null_bundle()), OLD)
    server.do(server.router.infer(infer_request(asked(rows(0)))))
    totals = server.router.totals[OLD]
    assert totals.processing_s > 0
    assert totals.queue_s + totals.compute_s + totals.processing_s == pytest.approx(totals.success_s)
