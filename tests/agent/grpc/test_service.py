"""gRPC as part of the agent: what it loads, its port, and deployments while clients ask."""

import queue
import socket
import threading
import time

import numpy as np
import psutil
import pytest
import tritonclient.grpc as triton

from edgeopt.bundle.read import Bundle
from edgeopt_agent.deployments.states import FINAL
from edgeopt_agent.releases import release_id

CLIENTS = 3
MODEL = "1" * 64
SECONDS = 30


def tensor(array):
    given = triton.InferInput("x", list(array.shape), "FP32")
    given.set_data_from_numpy(array)
    return given


def libraries(agent):
    return [m.path.rsplit("/", 1)[-1] for m in psutil.Process(agent.process.pid).memory_maps()]


@pytest.mark.cold
def test_grpc_brings_no_numbers_and_no_runtime_into_the_agent(start_grpc, connect, old_bundle):
    agent = start_grpc()
    agent.deploy(old_bundle)
    connect(agent).infer("null", [tensor(np.ones((1, 4), np.float32))])
    found = libraries(agent)
    assert [name for name in found if name.startswith("cygrpc")]
    assert not [name for name in found if name.startswith(("_multiarray_umath", "onnxruntime", "libopenvino"))]


@pytest.mark.cold
def test_without_a_port_grpc_is_not_loaded(start_agent, old_bundle):
    agent = start_agent()
    agent.deploy(old_bundle)
    assert not [name for name in libraries(agent) if name.startswith(("cygrpc", "_message."))]


def test_a_taken_port_is_named(start_agent):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(AssertionError, match=rf"Port {port} of 127.0.0.1 is taken by another program"):
            start_agent(grpc_port=port)


def test_requests_by_grpc_are_compared_with_the_predecessor(start_grpc, connect, make_null_bundle):
    agent = start_grpc()
    assert agent.deploy(make_null_bundle(source=MODEL))["state"] == "COMMITTED"
    # Its golden outputs are its own: only its predecessor can tell that it answers wrong.
    status, _, sent = agent.send(make_null_bundle(source=MODEL, model={"noise": 5.0}), soak_s=60)
    assert status == 202, sent
    client = connect(agent)

    def look():
        client.infer("null", [tensor(np.ones((1, 4), np.float32))])
        found = agent.ask("GET", f"/api/v1/deployments/{sent['deployment']['id']}")[2]["deployment"]
        return found if found["state"] in FINAL else None

    done = agent.until(look, "the end of the comparison")
    assert done["state"] == "ROLLED_BACK", done
    assert "agrees with that of the release before it" in done["reason"]


class Client(threading.Thread):
    """Asks by calls and on a stream in turns, and checks that each answer is one release's."""

    def __init__(self, agent, feeds, answers, stop):
        super().__init__(daemon=True)
        self.place, self.feeds, self.answers, self.stopped = agent.grpc, feeds, answers, stop
        self.failures, self.served, self.releases = [], 0, set()

    def run(self):
        with triton.InferenceServerClient(self.place) as client:
            found = queue.Queue()
            client.start_stream(lambda result, error: found.put((result, error)))
            while not self.stopped.is_set():
                try:
                    self.ask(client, found)
                except Exception as error:  # noqa: BLE001 - whatever a client raises is what its user would see
                    self.failures.append(f"{type(error).__name__}: {error}")
                self.served += 1
                self.stopped.wait(0.005)

    def ask(self, client, found):
        given = [tensor(self.feeds["x"])]
        if self.served % 2:
            answer = client.infer("null", given)
        else:
            client.async_stream_infer("null", given)
            answer, error = found.get(timeout=SECONDS)
            if error is not None:
                raise error
        release = answer.get_response().model_version
        self.releases.add(release)
        np.testing.assert_allclose(answer.as_numpy("y"), self.answers[release], rtol=1e-5)


@pytest.mark.timeout(150)
def test_no_call_fails_while_releases_come_and_go(start_grpc, make_null_bundle):
    bundles = [make_null_bundle(model={"noise": noise}) for noise in (0.0, 0.125, 0.25)]
    opened = [Bundle(bundle, None) for bundle in bundles]
    feeds = opened[0].golden("inputs")[0]
    answers = {
        release_id(bundle): each.golden("outputs")[0]["y"] for bundle, each in zip(bundles, opened, strict=True)
    }
    agent = start_grpc(soak_s=0.3, soak_requests=30)
    assert agent.deploy(bundles[0])["state"] == "COMMITTED"
    stop = threading.Event()
    clients = [Client(agent, feeds, answers, stop) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    ends = []
    for bundle in bundles[1:]:
        ends.append(agent.deploy(bundle)["state"])
        ends.append(agent.roll_back()["state"])
    begin = time.monotonic()
    while min(client.served for client in clients) < 50 and time.monotonic() < begin + SECONDS:
        stop.wait(0.05)
    stop.set()
    for client in clients:
        client.join(60)
        assert client.failures == []
    assert ends == ["COMMITTED"] * 4
    assert set().union(*(client.releases for client in clients)) == set(answers)
