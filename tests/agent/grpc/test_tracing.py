"""Traces of calls, as a collector of OpenTelemetry receives them."""

import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from tests.agent.telemetry.collector import (
    PARENT,
    SAMPLED,
    SECONDS,
    TRACE,
    TRACES,
    UNSAMPLED,
    collecting,
    receive,
    spans_of,
    values,
)


@pytest.fixture
def start(start_grpc, old_bundle):
    """Starts an agent that serves the null model and traces to `url`."""

    def start(url):
        agent = start_grpc(otlp_endpoint=url, otlp_interval_s=0.05, soak_s=0.0, soak_requests=0)
        agent.deploy(old_bundle)
        return agent

    return start


def test_call_continues_the_trace_of_its_caller(start, connect):
    with collecting(path=TRACES) as (received, url):
        client = connect(start(url))
        given = triton.InferInput("x", [1, 4], "FP32").set_data_from_numpy(np.ones((1, 4), np.float32))
        client.infer("null", [given], headers=UNSAMPLED)
        client.infer("null", [given], headers=SAMPLED)
        found = receive(received, 3)
        server = found["inference.GRPCInferenceService/ModelInfer"]
        with pytest.raises(InferenceServerException):
            client.infer("other", [given], headers=SAMPLED)
        failed = receive(received, 1)["inference.GRPCInferenceService/ModelInfer"]
    assert {span["traceId"] for span in found.values()} == {TRACE}
    assert server["parentSpanId"] == PARENT
    assert found["queue"]["parentSpanId"] == found["compute"]["parentSpanId"] == server["spanId"]
    told = values(server["attributes"])
    assert (told["rpc.system"], told["rpc.service"]) == ("grpc", "inference.GRPCInferenceService")
    assert (told["rpc.method"], told["rpc.grpc.status_code"]) == ("ModelInfer", 0)
    assert told["edgeopt.model.name"] == "null"
    assert told["edgeopt.request.bytes"] > 16
    assert told["edgeopt.response.bytes"] > 8
    assert values(failed["attributes"])["rpc.grpc.status_code"] == 5
    assert values(failed["attributes"])["edgeopt.error"].startswith("There is no model 'other'")


def test_messages_of_a_stream_are_spans_of_their_own(start, connect):
    answers = []
    with collecting(path=TRACES) as (received, url):
        client = connect(start(url))
        given = triton.InferInput("x", [1, 4], "FP32").set_data_from_numpy(np.ones((1, 4), np.float32))
        client.start_stream(lambda **answer: answers.append(answer), headers=SAMPLED)
        for name in ("null", "other"):
            client.async_stream_infer(name, [given])
        client.stop_stream()
        spans = []
        while len(spans) < 4:
            spans += spans_of(received.get(timeout=SECONDS)[3])
    codes = [
        values(span["attributes"])["rpc.grpc.status_code"]
        for span in spans
        if span["name"] == "inference.GRPCInferenceService/ModelStreamInfer"
    ]
    assert codes == [0, 5]
