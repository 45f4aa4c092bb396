"""A served model: by the repository's own agent, and by a scripted server for what that one never does."""

import contextlib
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from edgeopt import events
from edgeopt.bundle.runtime.session import load
from edgeopt.data.read import load_data
from edgeopt.data.samples import open_samples, save_samples
from edgeopt.fleet.client import Agent
from edgeopt.measure.contender import ask
from edgeopt.measure.messages import Describe, Described, Load, Loaded, Outputs, Saved, Time, Timed
from edgeopt.measure.trial import read_outputs
from edgeopt.workers.protocol import Failed

TENSOR = {"datatype": "FP32", "shape": [-1, 3]}
METADATA = {"name": "m", "inputs": [{"name": "x", **TENSOR}], "outputs": [{"name": "y", **TENSOR}]}
ANSWER = {"outputs": [{"name": "y", "datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3]}]}


@pytest.fixture(scope="module")
def agent(tmp_path_factory, conv_bundle):
    """The address of a real agent that serves the convolution."""
    settings = ["--port", "0", "--soak-seconds", "0", "--soak-requests", "0", "--log-level", "error", "--json"]
    with subprocess.Popen(
        [
            *(sys.executable, "-m", "edgeopt_agent.main", "run", *settings),
            *("--data-dir", str(tmp_path_factory.mktemp("agent"))),
        ],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    ) as process:
        try:
            url = events.decode(process.stdout.readline()).message
            Agent(url).deploy(conv_bundle, events.ignore)
            yield url
        finally:
            process.kill()


@pytest.fixture
def conv_samples(tmp_path, conv_bundle, conv_data):
    with load(conv_bundle) as session:
        save_samples(load_data(conv_data, session.inputs), tmp_path / "conv-samples")
    return str(tmp_path / "conv-samples")


@pytest.fixture
def server():
    """Serves what it is told, by `METHOD /path`: (status, document), or bytes that are no HTTP."""
    with contextlib.ExitStack() as stack:

        def start(answers):
            class Handler(BaseHTTPRequestHandler):
                protocol_version = "HTTP/1.1"

                def do_GET(self):
                    self.rfile.read(int(self.headers.get("content-length", 0)))
                    answer = answers.get(f"{self.command} {self.path}", (404, {}))
                    if isinstance(answer, bytes):
                        self.wfile.write(answer)
                        self.close_connection = True
                        return
                    content = json.dumps(answer[1]).encode()
                    self.send_response(answer[0])
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)
                    # As servers do with a connection that rests, at once.
                    self.close_connection = True

                do_POST = do_GET  # noqa: N815 - http.server's name

                def log_message(self, *_):
                    """Says nothing."""

            one = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
            one.daemon_threads = True
            thread = threading.Thread(target=one.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            stack.callback(thread.join)
            stack.callback(one.server_close)
            stack.callback(one.shutdown)
            return f"http://127.0.0.1:{one.server_address[1]}"

        yield start


@pytest.mark.parametrize("path", ["/v2/models/conv", ""], ids=["by name", "the only one"])
def test_a_real_agents_model_is_timed_and_gives_its_outputs(
    start, agent, conv_samples, conv_bundle, tmp_path, path
):
    child = start()
    loaded = ask(child, Load("url", agent + path, {}, conv_samples))
    assert isinstance(loaded, Loaded), loaded
    assert [(i.name, i.dtype, i.shape) for i in loaded.inputs] == [("x", "float32", (None, 3, 16, 16))]
    assert [o.name for o in loaded.outputs] == ["y"]
    assert loaded.memory.peak_bytes is None
    for concurrency in (1, 2):
        taken = ask(child, Time(100, concurrency))
        assert isinstance(taken, Timed)
        assert len(taken.latencies_ms) >= concurrency  # a busy machine has no time for more
    out = tmp_path / "out.npz"
    assert isinstance(ask(child, Outputs(0, 2, str(out))), Saved)
    samples = open_samples(Path(conv_samples))
    with load(conv_bundle) as session:
        for number, outputs in enumerate(read_outputs(out)):
            assert np.allclose(outputs["y"], session.run(samples.feeds(number))["y"], atol=1e-6)


def test_a_model_is_described_without_being_run(start, server):
    url = server({"GET /v2/models/m": (200, METADATA)})
    answer = ask(start(), Describe("url", f"{url}/v2/models/m"))
    assert isinstance(answer, Described)
    assert [o.name for o in answer.outputs] == ["y"]


def test_json_answers_and_connections_that_do_not_last_are_taken(start, server, samples, tmp_path):
    url = server({"GET /v2/models/m": (200, METADATA), "POST /v2/models/m/infer": (200, ANSWER)})
    child = start()
    assert isinstance(ask(child, Load("url", f"{url}/v2/models/m", {}, str(samples))), Loaded)
    assert len(ask(child, Time(400)).latencies_ms) > 1
    assert isinstance(ask(child, Outputs(0, 1, str(tmp_path / "out.npz"))), Saved)
    assert read_outputs(tmp_path / "out.npz")[0]["y"].tolist() == [[1, 2, 3]]


INDEX = "POST /v2/repository/index"
TWO = [{"name": "a", "state": "READY"}, {"name": "b", "state": "READY"}, {"name": "c", "state": "UNAVAILABLE"}]


@pytest.mark.parametrize(
    ("answers", "path", "code", "says"),
    [
        ({}, "/v2/models/m", "missing", "does not speak the Open Inference Protocol v2."),
        ({"GET /v2/models/m": b"SSH-2.0\r\n"}, "/v2/models/m", "missing", "does not speak the Open Inference"),
        ({"GET /v2/models/m": (200, [1])}, "/v2/models/m", "missing", "does not speak the Open Inference"),
        (
            {"GET /v2/models/m": (404, {"error": "unknown model 'm'"})},
            "/v2/models/m",
            "bad-model",
            "unknown model 'm'",
        ),
        ({INDEX: (200, TWO)}, "", "usage", "serves 2 models (a, b); one must be named."),
        ({INDEX: (200, [])}, "/", "usage", "serves 0 models (none)"),
        ({}, "/v2/health", "usage", "is not the address of a served model."),
        (
            {"GET /v2/models/m": (200, METADATA), "POST /v2/models/m/infer": (400, {"error": "bad shape"})},
            "/v2/models/m",
            "bad-model",
            "refused (400): bad shape.",
        ),
        (
            {"GET /v2/models/m": (200, METADATA), "POST /v2/models/m/infer": (200, {"outputs": 3})},
            "/v2/models/m",
            "missing",
            "The server's answer is not one of the Open Inference Protocol v2",
        ),
    ],
)
def test_a_server_that_cannot_be_measured_says_why(any_trial, server, samples, answers, path, code, says):
    answer = ask(any_trial, Load("url", server(answers) + path, {}, str(samples)))
    assert isinstance(answer, Failed), answer
    assert says in answer.message
    assert answer.code == code
    assert answer.hint


def test_where_nobody_listens(any_trial, samples):
    answer = ask(any_trial, Load("url", "http://127.0.0.1:9/v2/models/m", {}, str(samples)))
    assert isinstance(answer, Failed)
    assert answer.message == "No server listens at http://127.0.0.1:9/v2/models/m."


def test_a_rested_connection_that_the_server_closed_is_opened_again(start, server, samples):
    url = server({"GET /v2/models/m": (200, METADATA), "POST /v2/models/m/infer": (200, ANSWER)})
    child = start()
    ask(child, Load("url", f"{url}/v2/models/m", {}, str(samples)))
    for _ in range(3):
        assert isinstance(ask(child, Time(1)), Timed)


def test_what_a_server_does_not_take_is_a_sentence(any_trial, samples):
    answer = ask(any_trial, Load("url", "http://127.0.0.1:9/", {"threads": 1}, str(samples)))
    assert "A served model takes no backend options" in answer.message
