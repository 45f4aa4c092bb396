"""Clients of another project's library, and deployments and rollbacks while they ask."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest
import tritonclient.http as triton

from edgeopt.backends import backend_named
from edgeopt.bundle import write
from edgeopt.bundle.deployment import Deployment, Evidence, Run, Source, Tensor

MODEL = Path(__file__).parents[2] / "edgeopt" / "data" / "demo" / "digits_cnn.onnx"
CLIENTS = 4
SECONDS = 10.0
# While releases change, each client asks two hundred times a second; in between, nothing can go wrong that the
# tests of one release would not see.
PAUSE_CHANGING_S, PAUSE_S = 0.005, 0.1


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
            source=Source("digits_cnn.onnx", "0" * 64, 1),
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
    """Asks in binary and in JSON in turns, and checks every answer; more often while releases change."""

    def __init__(self, place, feeds, answers, stop, changing):
        super().__init__(daemon=True)
        self.place, self.feeds, self.answers, self.stopped = place, feeds, answers, stop
        self.changing = changing
        self.failures, self.served, self.releases = [], 0, set()

    def run(self):
        with triton.InferenceServerClient(self.place) as client:
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
        given = triton.InferInput(name, list(array.shape), "FP32")
        given.set_data_from_numpy(array, binary_data=binary)
        asked = triton.InferRequestedOutput(out, binary_data=binary)
        answer = client.infer("digits_cnn", [given], outputs=[asked])
        np.testing.assert_allclose(answer.as_numpy(out), wanted, rtol=1e-4, atol=1e-4)
        self.releases.add(answer.get_response()["model_version"])


@pytest.mark.timeout(150)
def test_no_request_fails_while_releases_come_and_go(start_agent, digits_bundles):
    bundles, feeds, answers = digits_bundles
    agent = start_agent(soak_s=0.5, soak_requests=50)
    assert agent.deploy(bundles[0])["state"] == "COMMITTED"
    stop, changing = threading.Event(), threading.Event()
    clients = [Client(f"127.0.0.1:{agent.port}", feeds, answers, stop, changing) for _ in range(CLIENTS)]
    begin = time.monotonic()
    for client in clients:
        client.start()
    ends = []
    for step, bundle in enumerate(bundles[1:]):
        stop.wait(max(0.0, begin + step * SECONDS / 6 - time.monotonic()))
        changing.set()
        ends.append(agent.deploy(bundle)["state"])
        if step in {1, 3}:
            ends.append(agent.roll_back()["state"])
        changing.clear()
    stop.wait(max(0.0, begin + SECONDS - time.monotonic()))
    stop.set()
    for client in clients:
        client.join(60)
        assert client.failures == []
    assert ends == ["COMMITTED"] * 7
    assert sum(client.served for client in clients) > 100
    assert len(set().union(*(client.releases for client in clients))) == len(bundles)
