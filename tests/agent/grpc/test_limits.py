"""What an agent takes by gRPC, and what it refuses with which code."""

import contextlib
import queue
import socket
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import grpc
import numpy as np
import psutil
import pytest
import tritonclient.grpc as triton
from tritonclient.grpc import service_pb2 as pb
from tritonclient.utils import InferenceServerException

from edgeopt.hw.load import process_memory_bytes
from edgeopt_agent.grpc.methods import MAX_STREAMS_EACH
from edgeopt_agent.grpc.server import MAX_CONNECTIONS
from tests.agent.conftest import LONG_DRAIN_S

SECONDS = 30
INFER = "/inference.GRPCInferenceService/ModelInfer"
STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"
QUIET = {"soak_s": 0.0, "soak_requests": 0}
LATE_S = 0.5
SLOW_LATER = {"late_s": LATE_S, "late_ms": 200.0}
"""So slow from the first, it would be probed for seconds."""


def tensor(rows=1):
    given = triton.InferInput("x", [rows, 4], "FP32")
    given.set_data_from_numpy(np.ones((rows, 4), np.float32))
    return given


def never_ending(stack):
    """Requests that do not come, until the test ends."""
    waiting = queue.Queue()
    stack.callback(waiting.put, b"")
    return iter(waiting.get, b"")


def test_a_message_may_have_as_many_bytes_as_a_body(start_grpc, connect):
    agent = start_grpc(deployed=True, max_body_bytes=1 << 20, **QUIET)
    client = connect(agent)
    maximum = (1 << 16) - 16
    assert client.infer("null", [tensor(maximum)]).as_numpy("y").shape == (maximum, 2)
    with pytest.raises(InferenceServerException) as caught:
        client.infer("null", [tensor(1 << 16)])
    assert caught.value.status() == "StatusCode.RESOURCE_EXHAUSTED"
    assert client.infer("null", [tensor()]).as_numpy("y").shape == (1, 2)


def test_what_comes_on_top_of_the_queue_is_refused(start_grpc, connect, make_null_bundle):
    agent = start_grpc(queue_length=4, latency_slack_ms=1000.0, **QUIET)
    assert agent.deploy(make_null_bundle(**SLOW_LATER))["state"] == "COMMITTED"
    time.sleep(LATE_S)
    client = connect(agent)

    def ask(_):
        try:
            client.infer("null", [tensor()])
        except InferenceServerException as error:
            return error.status(), "try again" in str(error)
        return "OK", True

    with ThreadPoolExecutor(7) as pool:
        found = sorted(pool.map(ask, range(7)))
    assert found == [("OK", True)] * 4 + [("StatusCode.RESOURCE_EXHAUSTED", True)] * 3
    assert 'nv_inference_request_failure{model="null"' in metrics(agent)
    assert 'reason="REJECTED"} 3.0' in metrics(agent)


def metrics(agent):
    with urllib.request.urlopen(f"http://127.0.0.1:{agent.port}/metrics") as answer:
        return answer.read().decode()


def test_nothing_deployed_is_not_found(start_grpc, connect):
    client = connect(start_grpc())
    assert client.is_server_live()
    assert not client.is_server_ready()
    with pytest.raises(InferenceServerException, match="no release is deployed") as caught:
        client.infer("null", [tensor()])
    assert caught.value.status() == "StatusCode.NOT_FOUND"


def test_a_request_waits_for_the_release_that_is_being_started(start_grpc, connect, make_null_bundle):
    agent = start_grpc(**QUIET)
    assert agent.deploy(make_null_bundle(load_ms=1000.0))["state"] == "COMMITTED"
    agent.stop()
    again = start_grpc(**QUIET)
    client = connect(again)
    assert not client.is_server_ready()
    assert client.infer("null", [tensor()]).as_numpy("y").shape == (1, 2)


def test_a_request_that_does_not_come_is_given_up(start_grpc):
    agent = start_grpc(body_timeout_s=0.2)
    with ExitStack() as stack:
        channel = stack.enter_context(grpc.insecure_channel(agent.grpc))
        with pytest.raises(grpc.RpcError, match="did not arrive in time") as caught:
            channel.stream_unary(INFER)(never_ending(stack), timeout=SECONDS)
    assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED


LIVE = "/inference.GRPCInferenceService/ServerLive"


def silent(stack, agent, method, count, options=()):
    """Calls on one connection that never send their request."""
    channel = stack.enter_context(grpc.insecure_channel(agent.grpc, options))
    calls = [channel.stream_unary(method).future(never_ending(stack), timeout=SECONDS) for _ in range(count)]
    # Taken up after them, and answered without being read.
    with pytest.raises(grpc.RpcError, match="has no method"):
        channel.unary_unary("/none")(b"", timeout=SECONDS)
    return calls


def test_silent_calls_keep_neither_health_nor_inference_waiting(start_grpc, connect):
    agent = start_grpc(deployed=True, silent_call_s=SECONDS, **QUIET)
    with ExitStack() as stack:
        calls = silent(stack, agent, INFER, 8)
        other = connect(agent)
        for _ in range(3):
            assert other.is_server_live(client_timeout=SECONDS / 3)
            assert other.is_server_ready(client_timeout=SECONDS / 3)
            assert other.infer("null", [tensor()], client_timeout=SECONDS / 3).as_numpy("y").shape == (1, 2)
        assert not any(each.done() for each in calls)


def test_silent_calls_of_several_connections_keep_no_inference_waiting(start_grpc, connect):
    agent = start_grpc(deployed=True, silent_call_s=SECONDS, **QUIET)
    with ExitStack() as stack:
        # Not pooled with other channels of the same address.
        own = [("grpc.use_local_subchannel_pool", 1)]
        calls = [each for _ in range(3) for each in silent(stack, agent, INFER, 8, own)]
        other = connect(agent, channel_args=own)
        for _ in range(3):
            assert other.infer("null", [tensor()], client_timeout=SECONDS / 3).as_numpy("y").shape == (1, 2)
        assert not any(each.done() for each in calls)


def test_a_silent_call_ends_though_nobody_waits(start_grpc):
    agent = start_grpc(silent_call_s=0.5, body_timeout_s=10 * SECONDS)
    with ExitStack() as stack:
        (call,) = silent(stack, agent, INFER, 1)
        assert "did not arrive in time" in call.exception(SECONDS).details()


def test_silent_calls_for_health_end(start_grpc):
    agent = start_grpc(silent_call_s=0.5, body_timeout_s=SECONDS)
    with ExitStack() as stack:
        for each in silent(stack, agent, LIVE, 8):
            assert "did not arrive in time" in each.exception(SECONDS).details()


def opened_stream(stack, agent):
    """A stream whose first request was answered."""
    first = pb.ModelInferRequest(model_name="other").SerializeToString()
    channel = stack.enter_context(grpc.insecure_channel(agent.grpc))
    rest = never_ending(stack)
    call = channel.stream_stream(STREAM)(each for part in ([first], rest) for each in part)
    assert "no " in pb.ModelStreamInferResponse.FromString(next(call)).error_message
    return call


def test_an_idle_stream_gives_its_place_to_another(start_grpc):
    agent = start_grpc(silent_call_s=0.0)
    with ExitStack() as stack:
        calls = [opened_stream(stack, agent) for _ in range(MAX_STREAMS_EACH + 1)]
        with pytest.raises(grpc.RpcError, match="another one needed its place") as caught:
            next(calls[0])
        assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert not any(call.done() for call in calls[1:])


def test_an_idle_stream_ends(start_grpc):
    agent = start_grpc(stream_idle_s=0.5)
    with ExitStack() as stack:
        with pytest.raises(grpc.RpcError, match=r"No request came within 0\.5 s") as caught:
            next(opened_stream(stack, agent))
        assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED


def test_idle_streams_are_bounded_and_end_with_the_agent(start_grpc):
    agent = start_grpc(deployed=True, silent_call_s=LONG_DRAIN_S, drain_s=LONG_DRAIN_S, **QUIET)
    worker = psutil.Process(agent.status()["serving"]["pid"])
    first = pb.ModelInferRequest(model_name="other").SerializeToString()
    with ExitStack() as stack:
        channel = stack.enter_context(grpc.insecure_channel(agent.grpc))
        calls = []
        for _ in range(MAX_STREAMS_EACH):
            rest = never_ending(stack)
            calls.append(channel.stream_stream(STREAM)(each for part in ([first], rest) for each in part))
            assert "no model 'other'" in pb.ModelStreamInferResponse.FromString(next(calls[-1])).error_message
        with pytest.raises(grpc.RpcError, match="8 streams from this address are open already") as caught:
            next(channel.stream_stream(STREAM)(never_ending(stack)))
        assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        calls.pop().cancel()
        agent.stop()
        with pytest.raises(grpc.RpcError, match="is stopping") as caught:
            next(calls[0])
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
    assert not psutil.pid_exists(worker.pid)


def test_a_worker_that_hangs_is_noticed_whatever_deadline_the_client_has(start_grpc, connect, old_bundle):
    agent = start_grpc(deployed=True, request_timeout_s=1.0, **QUIET)
    pid = agent.settled()["serving"]["pid"]
    psutil.Process(pid).suspend()
    with pytest.raises(InferenceServerException) as caught:
        connect(agent).infer("null", [tensor()], client_timeout=0.2)
    assert caught.value.status() == "StatusCode.DEADLINE_EXCEEDED"
    agent.until(lambda: (s := agent.status()["serving"]) and s["pid"] != pid, "the next worker")
    agent.serves(old_bundle)


def test_a_connection_on_top_of_the_limit_is_closed(start_grpc):
    agent = start_grpc()
    host, port = agent.grpc.split(":")
    with ExitStack() as stack:
        opened = [
            stack.enter_context(socket.create_connection((host, int(port)), SECONDS))
            for _ in range(MAX_CONNECTIONS + 1)
        ]
        for each in opened[:-1]:
            each.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
            assert each.recv(1)
        assert opened[-1].recv(1) == b""


def test_a_clean_stop_finishes_the_calls_in_flight(start_grpc, connect, make_null_bundle):
    agent = start_grpc(latency_slack_ms=1000.0, **QUIET)
    assert agent.deploy(make_null_bundle(**SLOW_LATER))["state"] == "COMMITTED"
    time.sleep(LATE_S)
    client, answers = connect(agent), queue.Queue()
    for _ in range(2):
        client.async_infer("null", [tensor()], lambda result, error: answers.put((result, error)))
    assert answers.get(timeout=SECONDS)[1] is None  # so the worker is at the other one now
    agent.stop()
    result, error = answers.get(timeout=SECONDS)
    assert error is None
    assert result.as_numpy("y").shape == (1, 2)


@pytest.mark.cold
@pytest.mark.parametrize("name", ["null", "other"])
def test_messages_do_not_stay_in_memory(start_grpc, connect, name):
    agent = start_grpc(deployed=True, **QUIET)
    client, large = connect(agent), tensor(1 << 18)

    def ask(times):
        for _ in range(times):
            with contextlib.suppress(InferenceServerException):
                client.infer(name, [large])
        return process_memory_bytes(agent.process.pid)

    before = ask(8)
    assert ask(24) - before < 50 << 20  # of the 96 MiB that were sent
