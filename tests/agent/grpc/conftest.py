"""Agents that serve by gRPC, and clients of another project's library, unmodified."""

import pytest
import tritonclient.grpc as triton

from tests.ports import free_port


@pytest.fixture
def start_grpc(start_agent, start_serving):
    """Starts an agent that serves by gRPC as well; `grpc` is its address there.

    With `deployed`, it serves the old bundle from its first moment.
    """

    def start(deployed=False, **settings):
        port = free_port()
        agent = (start_serving if deployed else start_agent)(grpc_port=port, **settings)
        agent.grpc = f"127.0.0.1:{port}"
        return agent

    return start


@pytest.fixture
def connect():
    """Clients that are closed when the test ends."""
    opened = []

    def to(agent, **options):
        opened.append(triton.InferenceServerClient(agent.grpc, **options))
        return opened[-1]

    yield to
    for client in opened:
        client.close()
