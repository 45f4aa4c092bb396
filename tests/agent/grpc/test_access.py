"""Tokens, roles and TLS by gRPC."""

import queue
import socket

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from edgeopt.bundle.sign import new_key
from edgeopt_agent import certificate, tokens, trusted_keys
from edgeopt_agent.http.access import MAX_FAILURES

SECONDS = 30


def tensor():
    given = triton.InferInput("x", [1, 4], "FP32")
    given.set_data_from_numpy(np.ones((1, 4), np.float32))
    return given


def bearer(token):
    return {"authorization": f"Bearer {token}"}


@pytest.fixture
def guarded(start_grpc, old_bundle):
    """An agent with a token of each role."""
    agent = start_grpc(soak_s=0.0, soak_requests=0)
    agent.made = {role: tokens.add(agent.data_dir, f"for-{role}", role).token for role in tokens.ROLES}
    agent.token = agent.made["deploy"]
    assert agent.deploy(old_bundle)["state"] == "COMMITTED"
    return agent


def test_each_role_may_do_what_it_may_do_over_http(guarded, connect):
    client = connect(guarded)
    for role in tokens.ROLES:
        assert client.is_server_ready(headers=bearer(guarded.made[role]))
        assert client.get_model_metadata("null", headers=bearer(guarded.made[role])).name == "null"
    for role in ("infer", "deploy"):
        assert client.infer("null", [tensor()], headers=bearer(guarded.made[role])).as_numpy("y").shape == (1, 2)
    with pytest.raises(InferenceServerException, match="needs the role 'infer'") as caught:
        client.infer("null", [tensor()], headers=bearer(guarded.made["view"]))
    assert caught.value.status() == "StatusCode.PERMISSION_DENIED"


@pytest.mark.parametrize("method", ["ServerLive", "ModelInfer", "Nothing"])
def test_without_a_token_nothing_is_read_or_answered(guarded, method):
    with grpc.insecure_channel(guarded.grpc) as channel:
        never = queue.Queue()
        call = channel.stream_unary(f"/inference.GRPCInferenceService/{method}")
        with pytest.raises(grpc.RpcError) as caught:
            call(iter(never.get, b""), timeout=SECONDS)
        never.put(b"")
    assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED
    assert "edgeopt-agent token add" in caught.value.details()


def test_wrong_tokens_are_counted_together_with_those_over_http(guarded, connect):
    client = connect(guarded)
    for number in range(MAX_FAILURES):
        if number % 2:
            with pytest.raises(InferenceServerException) as caught:
                client.is_server_live(headers=bearer("wrong"))
            assert caught.value.status() == "StatusCode.UNAUTHENTICATED"
        else:
            assert guarded.ask("GET", "/v2", headers={"Authorization": "Bearer wrong"})[0] == 401
    with pytest.raises(InferenceServerException, match="Too many requests with a wrong access token") as caught:
        client.is_server_live(headers=bearer("wrong"))
    assert caught.value.status() == "StatusCode.RESOURCE_EXHAUSTED"


def test_a_stream_ends_when_its_token_is_removed(guarded, connect):
    answers = queue.Queue()
    client = connect(guarded)
    client.start_stream(lambda result, error: answers.put((result, error)), headers=bearer(guarded.made["infer"]))
    client.async_stream_infer("null", [tensor()])
    assert answers.get(timeout=SECONDS)[1] is None
    tokens.remove(guarded.data_dir, "for-infer")
    client.async_stream_infer("null", [tensor()])
    assert "unknown to this agent" in str(answers.get(timeout=SECONDS)[1])


def has_ipv6():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_all_of_ipv4_is_not_ipv6(start_grpc, connect, tmp_path):
    folder = tmp_path / "agent"
    new_key(folder.parent / "key")
    trusted_keys.add(folder, folder.parent / "key.pub")
    token = tokens.add(folder, "two", "view").token
    agent = start_grpc(host="0.0.0.0", tls="off")  # noqa: S104 - with a token and a key
    assert connect(agent).is_server_live(headers=bearer(token))
    agent.grpc = agent.grpc.replace("127.0.0.1", "[::1]")
    with pytest.raises(InferenceServerException, match="listens on IPv4 only") as caught:
        connect(agent).is_server_live(headers=bearer(token))
    assert caught.value.status() == "StatusCode.PERMISSION_DENIED"


def test_the_same_certificate_is_used_and_a_new_one_at_the_next_connection(start_grpc, connect):
    agent = start_grpc(tls="on")
    file = agent.data_dir / "tls" / "agent.pem"

    def alive(trusted):
        credentials = grpc.ssl_channel_credentials(trusted)
        # Not pooled with other channels of the same address.
        with grpc.secure_channel(agent.grpc, credentials, [("grpc.use_local_subchannel_pool", 1)]) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            return stub.ServerLive(service_pb2.ServerLiveRequest(), timeout=SECONDS).live

    def public():
        _, begin, rest = file.read_bytes().partition(b"-----BEGIN CERT")
        return begin + rest

    first = public()
    assert alive(first)
    certificate.renew(agent.data_dir)
    assert alive(public())
    with pytest.raises(grpc.RpcError) as caught:
        alive(first)
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE


def test_tritonclient_reaches_it_by_tls_and_not_without(start_grpc, connect):
    agent = start_grpc(tls="on")
    file = str(agent.data_dir / "tls" / "agent.pem")
    assert connect(agent, ssl=True, root_certificates=file).is_server_live()
    with pytest.raises(InferenceServerException) as caught:
        connect(agent).is_server_live(client_timeout=SECONDS)
    assert caught.value.status() == "StatusCode.UNAVAILABLE"
