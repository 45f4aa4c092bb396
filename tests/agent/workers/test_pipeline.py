"""Processing in a worker: batches, failures of a release, and who answers for it."""

import asyncio
import json

import numpy as np
import pytest

import edgeopt
from edgeopt.bundle.deployment import Part, Processing, Tensor
from edgeopt.bundle.processing.schema import Softmax
from edgeopt_agent.workers.outcomes import WorkerError
from edgeopt_agent.workers.router import BusyError
from tests.agent.workers.test_batches import BATCHED, SLOW, asked, rows
from tests.agent.workers.test_process import changed, with_worker
from tests.bundle.conftest import with_processing

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
        asking = (worker.infer(asked(x), processed=through) for x, through in requests)
        return await asyncio.gather(*asking), worker.batching

    found, batching = with_worker(bundle, changed(settings, **BATCHED), use)
    assert batching.used
    assert [answer.batched for answer in found] == [4] * 4
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
    answer = server.do(server.router.infer("null", None, asked(rows(0))))
    assert json.loads(bytes(answer.body))["model_version"] == OLD


def test_a_standby_without_processing_answers_plain_requests_only(serving, null_bundle, processed):
    server = serving()
    old = null_bundle()
    server.deploy(old, OLD)
    # Softmax keeps the name and the type of its output, so only the processing tells the two apart.
    server.deploy(processed(null_bundle(crash="run")), NEW, keep_old=True)
    plain = server.do(server.router.infer("null.raw", None, asked(rows(0))))
    assert json.loads(bytes(plain.body))["model_version"] == OLD
    server.do(server.router.serving.ended.wait())
    server.deploy(processed(null_bundle(fail="run")), "cccccccccccc")

    async def standby(worker):
        server.router.standby = worker

    server.do(standby(server.start(old, OLD)))
    answer = server.do(server.router.infer("null", None, asked(rows(0))))
    assert (answer.status, answer.fault) == (500, True)


def test_a_request_is_not_answered_by_a_release_with_other_inputs(serving, null_bundle):
    server = serving()
    z = {"name": "z", "dtype": "float32", "shape": ["batch", 4]}
    server.deploy(null_bundle(inputs=(z,)), OLD)
    server.deploy(null_bundle(crash="run"), NEW, keep_old=True)
    # Its standby would call the request wrong: "The model has no input 'x'".
    with pytest.raises(BusyError, match="crashed: SIGSEGV"):
        server.do(server.router.infer("null", None, asked(rows(0))))


def test_processing_counts_neither_as_the_model_nor_as_waiting(serving, null_bundle, processed):
    server = serving()
    server.deploy(processed(null_bundle()), OLD)
    server.do(server.router.infer("null", None, asked(rows(0))))
    totals = server.router.totals[OLD]
    assert totals.processing_s > 0
    assert totals.queue_s + totals.compute_s + totals.processing_s == pytest.approx(totals.success_s)
