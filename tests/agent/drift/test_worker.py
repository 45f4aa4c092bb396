"""Statistics on their way from the worker: of single requests and of batches, one answer later."""

import asyncio
import json

import pytest

from edgeopt_agent.drift.settings import DriftSettings
from edgeopt_agent.drift.watch import DriftWatch
from tests.agent.infer_request import infer_request

ROW = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1.0, 2.0, 3.0, 0.0]}
REQUEST = json.dumps({"inputs": [ROW]}).encode()


@pytest.mark.parametrize("batch", [0, 4])
def test_statistics_come_with_a_later_answer(serving, null_bundle, batch):
    server = serving(drift=DriftSettings(), batch_max_size=batch)
    server.deploy(null_bundle())
    seen = []

    class Listening(DriftWatch):
        def note(self, release, figures):
            seen.append((release, {each.name: each.values for each in figures}))

    server.router.drift = Listening(DriftSettings())

    async def ask(count):
        return await asyncio.gather(*(server.router.infer(infer_request(REQUEST)) for _ in range(count)))

    assert [each.status for each in server.do(ask(1))] == [200]
    assert seen == []
    assert {each.status for each in server.do(ask(8))} == {200}
    release, values = seen[0]
    assert release == "0123456789ab"
    assert values["x"] == pytest.approx((1.5, 1.25**0.5, 0.0, 3.0, 0.25, 0.0))
    assert "y" in values


@pytest.mark.parametrize(("size", "noted"), [("found", {0: 1}), ("batch", {})])
def test_sizes_of_the_outputs_come_unless_they_follow_the_request(serving, null_bundle, size, noted):
    server = serving(drift=DriftSettings())
    server.deploy(null_bundle(outputs=({"name": "y", "dtype": "float32", "shape": [size, 2]},)))
    answers = [server.do(server.router.infer(infer_request(REQUEST))) for _ in range(2)]
    assert {each.name: each.sizes for each in answers[1].run.looked} == {"x": {}, "y": noted}


def test_no_statistics_are_taken_where_nobody_wants_them(serving, null_bundle):
    server = serving()
    server.deploy(null_bundle())
    answers = [server.do(server.router.infer(infer_request(REQUEST))) for _ in range(3)]
    assert [each.run.looked for each in answers] == [(), (), ()]
