"""Clients of another project's library, and deployments and rollbacks while they ask."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton

from edgeopt.backends import backend_named
from edgeopt.bundle import write
from edgeopt.bundle.deployment import Deployment, Evidence, Run, SourceModel, Tensor
from tests.ports import free_port

MODEL = Path(__file__).parents[2] / "edgeopt" / "data" / "demo" / "digits_cnn.onnx"
# While releases change, each client asks a hundred times a second; in between, nothing can go wrong that the
# tests of one release would not see.
PAUSE_CHANGING_S, PAUSE_S = 0.01, 0.1


@pytest.fixture(scope="module")
def samples():
    with np.load(MODEL.with_suffix(".npz")) as archive:
        (name,) = [n for n in archive.files if archive[n].dtype == np.float32]
        return name, archive[name][:16]


@pytest.fixture(scope="module")
def digits_bundles(tmp_path_factory, samples, device_fingerprint):
    """Six releases of the built-in sample; they answer alike, so that an answer can be checked in any of them."""
    name, arrays = samples
    session = backend_named("onnxruntime-cpu").load(MODEL, {"threads": 1})
    feeds = [{name: row.reshape(session.inputs[0].shape[1:])[None]} for row in arrays[:4]]
    answers = [session.run(each) for each in feeds]
    inputs, outputs = [
        [Tensor(t.name, t.dtype, ["?" if d is None else d for d in t.shape]) for t in ports]
        for ports in (session.inputs, session.outputs)
    ]
    session.close()
    made = []
    for number in range(6):
        out = tmp_path_factory.mktemp("digits") / "digits_cnn.edgeopt"
        deployment = Deployment(
            name="digits_cnn",
            created=f"2026-01-0{number + 1}T00:00:00+00:00",
            edgeopt="0",
            target="quick",
            summary="a test",
            source=SourceModel("digits_cnn.onnx", "0" * 64, 1),
            run=Run("onnxruntime-cpu", "model/digits_cnn.onnx", {"threads": 1}),
            inputs=inputs,
            outputs=outputs,
            device=device_fingerprint,
            evidence=Evidence("faster", "source", 2.0, 1.0, 2.0, 1.9, 2.1, 11, 200.0, 30.0, 3),
        )
        with write.draft(out) as folder:
            for kind, runs in (("inputs", feeds), ("outputs", answers), ("reference", answers)):
                write.write_golden(folder, kind, runs)
            write.fill(folder, {"digits_cnn.onnx": MODEL}, deployment, {"ledger.json": []})
            write.publish(folder, out)
        made.append(out)
    return made, feeds, answers


class Client(threading.Thread):
    """Asks by gRPC or HTTP and checks every answer; more often while releases change."""

    def __init__(self, connect, feeds, answers, stop, changing):
        super().__init__(daemon=True)
        self.connect, self.feeds, self.answers, self.stopped = connect, feeds, answers, stop
        self.changing = changing
        self.failures, self.served, self.releases = [], 0, set()

    def run(self):
        with self.connect() as client:
            while not self.stopped.is_set():
                try:
                    self.ask(client, self.served % len(self.feeds), binary=self.served % 2 == 0)
                except Exception as error:  # noqa: BLE001 - whatever a client raises is what its user would see
                    self.failures.append(f"{type(error).__name__}: {error}")
                self.served += 1
                if self.changing.is_set():
                    self.stopped.wait(PAUSE_CHANGING_S)
                else:
                    self.changing.wait(PAUSE_S)

    def ask(self, client, position, binary):
        (name, array), (out, wanted) = (next(iter(m[position].items())) for m in (self.feeds, self.answers))
        if isinstance(client, triton_grpc.InferenceServerClient):
            given = triton_grpc.InferInput(name, list(array.shape), "FP32").set_data_from_numpy(array)
            answer = client.infer("digits_cnn", [given])
            version = answer.get_response().model_version
        else:
            given = triton.InferInput(name, list(array.shape), "FP32")
            given.set_data_from_numpy(array, binary_data=binary)
            asked = triton.InferRequestedOutput(out, binary_data=binary)
            answer = client.infer("digits_cnn", [given], outputs=[asked])
            version = answer.get_response()["model_version"]
        np.testing.assert_allclose(answer.as_numpy(out), wanted, rtol=1e-4, atol=1e-4)
        self.releases.add(version)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("clients_count", "seconds", "deployments", "rolled_back_after"),
    [(2, 1.5, 5, (1, 3)), pytest.param(8, 60.0, 20, (1, 5, 9, 13, 17), marks=pytest.mark.slow)],
)
def test_no_request_fails_while_releases_come_and_go(
    start_agent, digits_bundles, record_property, clients_count, seconds, deployments, rolled_back_after
):
    bundles, feeds, answers = digits_bundles
    grpc_port = free_port()
    agent = start_agent(soak_s=0.2, soak_requests=20, grpc_port=grpc_port)
    assert agent.deploy(bundles[0])["state"] == "COMMITTED"
    stop, changing = threading.Event(), threading.Event()
    ways = (
        lambda: triton.InferenceServerClient(f"127.0.0.1:{agent.port}"),
        lambda: triton_grpc.InferenceServerClient(f"127.0.0.1:{grpc_port}"),
    )
    clients = [Client(ways[k % 2], feeds, answers, stop, changing) for k in range(clients_count)]
    begin = time.monotonic()
    for client in clients:
        client.start()
    ends = []
    for step in range(deployments):
        stop.wait(max(0.0, begin + step * seconds / (deployments + 1) - time.monotonic()))
        changing.set()
        ends.append(agent.deploy(bundles[(step + 1) % len(bundles)])["state"])
        if step in rolled_back_after:
            ends.append(agent.roll_back()["state"])
        changing.clear()
    stop.wait(max(0.0, begin + seconds - time.monotonic()))
    stop.set()
    for client in clients:
        client.join(60)
        assert client.failures == []
    record_property("requests", sum(client.served for client in clients))
    assert ends == ["COMMITTED"] * (deployments + len(rolled_back_after))
    assert sum(client.served for client in clients) > 100
    assert len(set().union(*(client.releases for client in clients))) == len(bundles)
