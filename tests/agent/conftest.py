"""What tests of the agent share: null bundles, a server in a thread, and agents in processes of their own."""

import asyncio
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, closing, contextmanager, suppress
from hashlib import sha256

import numpy as np
import psutil
import pytest
import uvloop

from edgeopt.backends import null
from edgeopt.bundle import archive, write
from edgeopt.bundle.deployment import Deployment, Evidence, Run, SourceModel, Tensor
from edgeopt.bundle.manifest import release_id
from edgeopt.bundle.read import Bundle
from edgeopt.fleet.address import Address
from edgeopt.fleet.transport import connect as connection_to
from edgeopt_agent.deployments.states import FINAL
from edgeopt_agent.http.app import make_app
from edgeopt_agent.http.server import serve
from edgeopt_agent.settings import Settings
from edgeopt_agent.telemetry.hub import Hub
from edgeopt_agent.workers.models import Models
from edgeopt_agent.workers.process import Worker
from edgeopt_agent.workers.router import Router
from tests import warm

X = {"name": "x", "dtype": "float32", "shape": ["batch", 4]}
Y = {"name": "y", "dtype": "float32", "shape": ["batch", 2]}


@pytest.fixture
def null_bundle(tmp_path):
    """Makes a sound bundle of a null model; faults planted in it come on top of the golden outputs."""

    def make(name="null", inputs=(X,), outputs=(Y,), declared=None, **faults):
        folder = tmp_path / f"bundle-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        return _write_null_bundle(folder, name, inputs, outputs, faults, declared=declared)

    return make


@pytest.fixture(scope="session")
def make_null_bundle(tmp_path_factory, device_fingerprint):
    """The same for this device or another; `model` is there when the golden outputs are made, faults are not."""

    def make(device=None, model=None, source=None, name="null", **faults):
        folder = tmp_path_factory.mktemp("null")
        ports = (X,), (Y,)
        return _write_null_bundle(
            folder, name, *ports, faults, model or {}, device or device_fingerprint, source=source
        )

    return make


@pytest.fixture(scope="session")
def old_bundle(make_null_bundle):
    return make_null_bundle()


@pytest.fixture(scope="session")
def new_bundle(make_null_bundle):
    """As sound as the old one, with other answers."""
    return make_null_bundle(model={"noise": 0.25})


def _write_null_bundle(
    folder, name, inputs, outputs, faults, model=None, device=None, *, declared=None, source=None
):
    file = folder / "model.null.json"
    plain = {"inputs": inputs, "outputs": outputs, "behaviour": "mix", **(model or {})}
    file.write_text(json.dumps(plain))
    feeds = [{port["name"]: _sample(port, k) for port in inputs} for k in range(2)]
    session = null.load(file, {})
    answers = [session.run(each) for each in feeds]
    file.write_text(json.dumps({**plain, **faults}))
    deployment = Deployment(
        name=name,
        created="2026-01-01T00:00:00+00:00",
        edgeopt="0",
        target="quick",
        summary="a test",
        source=SourceModel("model.null.json", source or sha256(json.dumps(plain).encode()).hexdigest(), 1),
        run=Run("null", "model/model.null.json"),
        inputs=[Tensor(p["name"], p["dtype"], p["shape"]) for p in declared or inputs],
        outputs=[Tensor(p["name"], p["dtype"], p["shape"]) for p in outputs],
        device=device or {},
        evidence=Evidence("faster", "source", 2.0, 1.0, 2.0, 1.9, 2.1, 11, 200.0, 30.0, 2),
    )
    out = folder / f"{name}.edgeopt"
    with write.draft(out) as draft:
        for kind, runs in (("inputs", feeds), ("outputs", answers), ("reference", answers)):
            write.write_golden(draft, kind, runs)
        write.fill(draft, {"model.null.json": file}, deployment, {"ledger.json": []})
        write.publish(draft, out)
    return out


def _sample(port, seed):
    shape = [size if isinstance(size, int) else 1 for size in port["shape"]]
    numbers = np.random.default_rng(seed).integers(0, 100, shape)
    if port["dtype"] == "str":
        return np.array([str(n) for n in numbers.flat]).reshape(shape)
    return numbers.astype(port["dtype"])


# A worker on a busy machine does not hang.
PATIENT = {"ready_timeout_s": 30.0, "hang_timeout_s": 60.0}


@pytest.fixture
def settings(tmp_path):
    return Settings(data_dir=tmp_path / "data", port=0, **PATIENT)


class Serving:
    """A server on a free port, in an event loop of its own."""

    def __init__(self, settings, loop, router, hub):
        self.settings = settings
        self.loop = loop
        self.router = router
        self.hub = hub
        self.port = 0
        self.state = "COMMITTED"
        self.workers = []

    @property
    def place(self):
        return f"127.0.0.1:{self.port}"

    def do(self, coroutine, timeout_s=20):
        """Runs a coroutine in the server's event loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(timeout_s)

    def start(self, bundle, release_id="0123456789ab"):
        """A worker that serves nothing yet."""
        worker = self.do(Worker.start(bundle, release_id, self.settings))
        self.workers.append(worker)
        return worker

    def deploy(self, bundle, release_id="0123456789ab", keep_old=False):
        worker = self.start(bundle, release_id)

        async def switch():
            return self.router.switch(worker, keep_old)

        self.do(switch())
        return worker


@contextmanager
def _serving(settings, drain_s=5.0, trust=lambda: "unsigned", tls=None):
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        loop = runner.get_loop()
        router = Router(settings)
        served = Serving(settings, loop, router, Hub(router))
        live, stop = threading.Event(), asyncio.Event()
        failed = []

        def on_live(port):
            served.port = port
            live.set()

        async def run():
            app = make_app(Models(router), lambda _model: served.hub, settings, lambda _router: served.state)
            try:
                await serve(app, "127.0.0.1", settings.port, on_live, stop, drain_s, trust=trust, tls=tls)
            except BaseException as error:
                failed.append(error)
                live.set()
                raise
            finally:
                # The router has replaced some: their processes would keep the loop from closing.
                for worker in served.workers:
                    if not worker.ended.is_set():
                        await worker.stop(1.0)

        served.stop = lambda: loop.call_soon_threadsafe(stop.set)
        thread = threading.Thread(target=runner.run, args=(run(),))
        thread.start()
        served.thread = thread
        try:
            assert live.wait(60)
            assert not failed
            yield served
        finally:
            served.stop()
            thread.join(60)
            assert not thread.is_alive()


@pytest.fixture
def serving(settings):
    """Starts servers: `serving(**settings)` gives one, stopped when the test ends."""
    with _servers(settings) as start:
        yield start


@pytest.fixture(scope="module")
def serving_all(tmp_path_factory):
    """The same for tests that only ask: stopped after the last one of the file."""
    with _servers(Settings(data_dir=tmp_path_factory.mktemp("serving") / "data", port=0, **PATIENT)) as start:
        yield start


@contextmanager
def _servers(settings):
    import msgspec

    with ExitStack() as stack:

        def start(drain_s=5.0, trust=lambda: "unsigned", tls_context=None, **changes):
            changed = msgspec.structs.replace(settings, **changes)
            return stack.enter_context(_serving(changed, drain_s, trust, tls_context))

        yield start


DEADLINE_S = 30.0
LONG_DRAIN_S = 4 * DEADLINE_S
"""With it, a stop that waits for a request that never ends misses the deadline, however busy the machine is."""
# Soaks of a moment, and waits that a test can bear.
QUICK = {
    "soak_compare_s": 0.0,
    "port": 0,
    "soak_s": 0.05,
    "soak_requests": 3,
    "self_request_s": 0.02,
    "probe_timeout_s": 20.0,
    "restart_delay_s": 0.01,
    "restart_delay_most_s": 0.2,
    "disk_reserve_bytes": 0,
    "memory_reserve_bytes": 0,
    **PATIENT,
}


class Running:
    """An agent in a process of its own."""

    def __init__(self, data_dir, kill=None, broken=None, **settings):
        self.data_dir = data_dir
        self.token = ""
        self.fingerprint = ""
        """Of its certificate, where it speaks TLS."""
        given = {**QUICK, **settings, "data_dir": str(data_dir)}
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        plan = (json.dumps(each) for each in (given, kill, broken))
        command = [sys.executable, "-m", "tests.agent.mortal", *plan]
        self.process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        line = self.process.stdout.readline()
        self.port = int(line or 0)
        assert self.port, self.process.communicate()[1]

    def workers(self):
        """The processes that it has started."""
        found = []
        for each in psutil.Process(self.process.pid).children():
            with suppress(psutil.NoSuchProcess):  # it has just ended
                if each.name() != warm.NAME:
                    found.append(each)
        return found

    def ask(self, method, path, body=None, headers=None):
        """The status, the headers and the document of one answer."""
        with closing(connection_to(self.address, DEADLINE_S)) as connection:
            access = {"Authorization": f"Bearer {self.token}"} if self.token else {}
            connection.request(method, path, body=body, headers={**access, **(headers or {})})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), json.loads(answer.read() or b"null")

    @property
    def address(self):
        scheme = "https" if self.fingerprint else "http"
        return Address("127.0.0.1", self.port, self.token, scheme, self.fingerprint)

    def status(self, model=""):
        return self.ask("GET", f"/api/v1/status?model={model}" if model else "/api/v1/status")[2]

    def send(self, bundle, **query):
        """Sends a bundle, or bytes in its place; the answer, whatever it is."""
        asked = "&".join(f"{name}={value}" for name, value in query.items())
        content = bundle if isinstance(bundle, bytes) else packed(bundle)
        return self.ask("POST", f"/api/v1/deploy?{asked}", content, {"Content-Type": "application/zip"})

    def deploy(self, bundle, **query):
        """Sends a bundle and waits for the end of its deployment."""
        status, _, answer = self.send(bundle, **query)
        assert status == 202, answer
        return self.ended(answer["deployment"]["id"], answer["deployment"]["model"])

    def roll_back(self, to=""):
        status, _, answer = self.ask("POST", f"/api/v1/rollback?to={to}")
        assert status == 202, answer
        return self.ended(answer["deployment"]["id"])

    def ended(self, number, model=""):
        # Each of its states is an event: nothing is to be seen between two.
        found = self.until(lambda: self._final(number, model), f"the end of deployment {number}", 5.0, model)
        self.until(lambda: self.status(model)["state"] != "deploying", f"the state after deployment {number}")
        return found

    def _final(self, number, model):
        found = self.ask("GET", f"/api/v1/deployments/{number}?model={model}")[2]["deployment"]
        return found if found["state"] in FINAL else None

    def until(self, ready, what, wait_s=0.02, model=""):
        """What `ready` gives, once it gives something.

        Looked at again when the journal of the model has something new, at least once in `wait_s`.
        """
        deadline = time.monotonic() + DEADLINE_S
        after = 0
        while not (found := ready()):
            assert time.monotonic() < deadline, f"{what} did not come: {self.status()}"
            after = self.ask("GET", f"/api/v1/events?model={model}&after={after}&wait_s={wait_s}")[2]["next"]
        return found

    def settled(self):
        """The status once a start is over: something serves and nothing is going on."""
        return self.until(lambda: (s := self.status())["state"] == "serving" and s, "something that serves")

    def serves(self, bundle):
        """Asserts that exactly this release serves, and that it answers its golden inputs."""
        assert self.settled()["serving"]["release"] == release_id(bundle)
        ready = [m for m in self.ask("POST", "/v2/repository/index")[2] if m["state"] == "READY"]
        assert [m["name"] for m in ready] == ["null"]
        opened = Bundle(bundle, None)
        for feeds, golden in zip(opened.golden("inputs"), opened.golden("outputs"), strict=True):
            x = {"name": "x", "datatype": "FP32", "shape": feeds["x"].shape, "data": feeds["x"].ravel().tolist()}
            status, _, answer = self.ask("POST", "/v2/models/null/infer", json.dumps({"inputs": [x]}))
            assert status == 200, answer
            np.testing.assert_allclose(answer["outputs"][0]["data"], golden["y"].ravel(), rtol=1e-5)

    def stop(self, within_s=DEADLINE_S):
        """Stops it cleanly, within this time."""
        self.process.send_signal(signal.SIGTERM)
        _, errors = self.process.communicate(timeout=within_s)
        assert self.process.returncode == 0, errors

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def packed(bundle):
    content = io.BytesIO()
    archive.pack(bundle, content)
    return content.getvalue()


@pytest.fixture
def start_agent(tmp_path):
    """Starts an agent; on the same data folder each time, unless another is given."""
    with ExitStack() as stack:

        def start(data_dir=tmp_path / "agent", **more):
            running = Running(data_dir, **more)
            stack.callback(running.close)
            return running

        yield start


@pytest.fixture(scope="session")
def served_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("served") / "agent"


@pytest.fixture
def serving_folder(served_folder, start_agent, old_bundle):
    """The data folder of a stopped agent that has the old bundle in service; made once, to be copied."""
    if not served_folder.exists():
        agent = start_agent(served_folder)
        done = agent.deploy(old_bundle)
        assert done["state"] == "COMMITTED", done["reason"]
        agent.stop()
    return served_folder


@pytest.fixture
def start_serving(start_agent, serving_folder, tmp_path):
    """Starts an agent that serves the old bundle from its first moment; once in a test."""

    def start(**settings):
        agent = start_agent(shutil.copytree(serving_folder, tmp_path / "agent", symlinks=True), **settings)
        agent.settled()
        return agent

    return start


@pytest.fixture(scope="module")
def idle_agent(tmp_path_factory):
    """One that nothing was ever sent to, for all tests of a file that only ask."""
    running = Running(tmp_path_factory.mktemp("idle") / "agent")
    yield running
    running.close()


@pytest.fixture
def pack():
    return packed
