"""Deployments while the agent, its worker and its standby are killed at random, with clients that go on asking.

Two releases of the built-in sample are deployed again and again. After each deployment exactly one release must
serve; every answer is checked. A supervisor starts a killed agent again, as systemd does. With socket activation,
the supervisor keeps the agent's port open meanwhile, so that connections wait.

    python benchmarks/agent_kills.py
    python benchmarks/agent_kills.py --deployments 10 --seed 3 --only with
"""

import argparse
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

import edgeopt
from edgeopt.data.demo import DATA, MODEL
from edgeopt.errors import EdgeoptError
from edgeopt.fleet.client import Agent, DeployOptions
from edgeopt.fleet.records import FINAL

CLIENTS = 4
RESTART_S = 0.2
"""As in the unit: RestartSec."""
_ACTIVATED = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ |= {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid()), "LISTEN_FDNAMES": "http"}
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""
_AT_ONCE_S = 60.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deployments", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause", type=float, default=1.5, help="mean seconds between two kills")
    parser.add_argument("--only", choices=("with", "without"), help="socket activation; default: both")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bundles = [_bundle(Path(folder), scale) for scale in (1.0, 1.001)]
        for activated in (False, True):
            if given.only in {None, "with" if activated else "without"}:
                place = Path(folder) / f"agent-{activated}"
                _wave(bundles, place, given.deployments, given.pause, random.Random(given.seed), activated)  # noqa: S311


def _wave(
    bundles: list[Path], data_dir: Path, count: int, pause_s: float, chance: random.Random, activated: bool
) -> None:
    feeds, expected = _expected(bundles)
    with _Supervisor(data_dir, activated) as supervisor:
        agent = Agent(supervisor.url)
        agent.deploy(bundles[0], lambda _: None, DeployOptions(soak_s=0, soak_requests=0))
        clients = [_Client(supervisor.port, feeds, expected) for _ in range(CLIENTS)]
        killer = _Killer(supervisor, pause_s, chance)
        for each in (*clients, killer):
            each.start()
        ends: Counter[str] = Counter()
        for number in range(count):
            ends[_deploy(agent, bundles[(number + 1) % 2])] += 1
        killer.stop.set()
        killer.join()
        serving = _serving(agent)
        for each in clients:
            each.stop.set()
        for each in clients:
            each.join()
    total = sum((each.found for each in clients), Counter[str]())
    print(f"{'with' if activated else 'without'} socket activation, {count} deployments: {dict(ends)}")
    print(f"  kills: {dict(killer.kills)}; serves at the end: {serving}")
    print(f"  agent back, s: live {_spread(supervisor.live_s)}, ready {_spread(supervisor.ready_s)}")
    failed = sum(total.values()) - total["right"]
    print(f"  {sum(total.values())} requests, {failed} failed: {dict(total)}", flush=True)


def _spread(times_s: list[float]) -> str:
    return f"{np.median(times_s):.2f} (at most {max(times_s):.2f})" if times_s else "none"


def _deploy(agent: Agent, bundle: Path) -> str:
    """How a deployment ended, whatever was killed meanwhile; checks that exactly one release serves afterwards."""
    number = None
    for _ in range(100):
        with suppress(EdgeoptError, OSError):
            options = DeployOptions(force=True, soak_s=1.0, soak_requests=10)
            number = agent.deploy(bundle, lambda _: None, options, wait=False).id
            break
        time.sleep(0.1)
    if number is None:
        return "refused"
    deadline = time.monotonic() + _AT_ONCE_S
    while time.monotonic() < deadline:
        with suppress(EdgeoptError, OSError):
            deployment = agent.deployment(number)
            if deployment.state in FINAL:
                _serving(agent)
                return deployment.state
        time.sleep(0.1)
    return "never ended"


def _serving(agent: Agent) -> str:
    """The release that serves; raises SystemExit if none does within a minute."""
    deadline = time.monotonic() + _AT_ONCE_S
    while time.monotonic() < deadline:
        with suppress(EdgeoptError, OSError):
            if (serving := agent.status().serving) is not None:
                return serving.release
        time.sleep(0.1)
    raise SystemExit("no release serves")


class _Supervisor:
    """Starts the agent again when it ends; the port is its own where sockets are activated."""

    def __init__(self, data_dir: Path, activated: bool) -> None:
        self.live_s: list[float] = []
        self.ready_s: list[float] = []
        self._data_dir = data_dir
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._activated = activated
        if not activated:
            self._listener.close()
        self._stop = threading.Event()
        self._process = self._start()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "_Supervisor":
        self._wait("/v2/health/live")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._process.terminate()
        self._thread.join()

    def pids(self) -> dict[str, int]:
        """The processes to kill, by their part."""
        found = {"agent": self._process.pid}
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        with suppress(OSError, EdgeoptError):
            serving = Agent(self.url, timeout_s=2.0).status().serving
            for pid in map(int, children.read_text(encoding="ascii").split()):
                found["worker" if serving is not None and pid == serving.pid else "standby"] = pid
        return found

    def _start(self) -> subprocess.Popen[bytes]:
        run = ["-m", "edgeopt_agent.main", "run", "--port", str(self.port), "--data-dir", str(self._data_dir)]
        command = [sys.executable, *run]
        passed = []
        if self._activated:
            passed = [self._listener.fileno()]
            command = [sys.executable, "-c", _ACTIVATED, str(passed[0]), *run]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=passed)

    def _watch(self) -> None:
        while True:
            self._process.wait()
            if self._stop.is_set():
                return
            time.sleep(RESTART_S)
            begin_s = time.monotonic()
            self._process = self._start()
            for path, times_s in (("/v2/health/live", self.live_s), ("/v2/health/ready", self.ready_s)):
                if self._wait(path):
                    times_s.append(time.monotonic() - begin_s)

    def _wait(self, path: str) -> bool:
        """Whether the path answers 200 before the process ends."""
        while self._process.poll() is None:
            with suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5.0)
                connection.request("GET", path)
                if connection.getresponse().status == 200:
                    return True
            time.sleep(0.02)
        return False


class _Killer(threading.Thread):
    def __init__(self, supervisor: _Supervisor, pause_s: float, chance: random.Random) -> None:
        super().__init__(daemon=True)
        self.stop = threading.Event()
        self.kills: Counter[str] = Counter()
        self._supervisor, self._pause_s, self._chance = supervisor, pause_s, chance

    def run(self) -> None:
        while not self.stop.wait(self._chance.uniform(0.2, 2 * self._pause_s)):
            pids = self._supervisor.pids()
            part = self._chance.choice(sorted(pids))
            with suppress(ProcessLookupError):
                os.kill(pids[part], signal.SIGKILL)
                self.kills[part] += 1


class _Client(threading.Thread):
    """Asks on a new connection each time, so that refused connections count."""

    def __init__(self, port: int, feeds: list[bytes], expected: list[list[NDArray[np.float64]]]) -> None:
        super().__init__(daemon=True)
        self.stop = threading.Event()
        self.found: Counter[str] = Counter()
        self._port, self._feeds, self._expected = port, feeds, expected

    def run(self) -> None:
        number = 0
        while not self.stop.wait(0.02):
            number = (number + 1) % len(self._feeds)
            self.found[self._ask(number)] += 1

    def _ask(self, number: int) -> str:
        try:
            with self._connected() as connection:
                connection.request("POST", "/v2/models/digits_cnn/infer", self._feeds[number])
                answer = connection.getresponse()
                body = json.loads(answer.read())
        except ConnectionRefusedError:
            return "refused"
        except TimeoutError:
            return "timeout"
        except (OSError, http.client.HTTPException):
            return "cut off"
        if answer.status != 200:
            return f"status {answer.status}"
        found = np.array(body["outputs"][0]["data"])
        scale = float(np.abs(self._expected[0][number]).max())
        near = [float(np.abs(found - each[number]).max()) < 1e-4 * scale for each in self._expected]
        return "right" if any(near) else "WRONG"

    @contextmanager
    def _connected(self) -> Iterator[http.client.HTTPConnection]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30.0)
        try:
            yield connection
        finally:
            connection.close()


def _expected(bundles: list[Path]) -> tuple[list[bytes], list[list[NDArray[np.float64]]]]:
    """Requests, and what each bundle answers to them."""
    with np.load(DATA) as archive:
        samples = archive["image"][:16]
    rows = [sample.reshape(1, 1, 32, 32).astype(np.float32) for sample in samples]
    inputs = [
        {"name": "image", "shape": [1, 1, 32, 32], "datatype": "FP32", "data": row.ravel().tolist()}
        for row in rows
    ]
    bodies = [json.dumps({"inputs": [each]}).encode() for each in inputs]
    answers = []
    for bundle in bundles:
        session = edgeopt.load(bundle)
        answers.append([np.asarray(session.run({"image": row})["logits"], np.float64).ravel() for row in rows])
    return bodies, answers


def _bundle(folder: Path, scale: float) -> Path:
    """The sample, with its last weights scaled so that its answers tell the releases apart."""
    model = onnx.load(MODEL)
    used = set(model.graph.node[-1].input)
    for initializer in model.graph.initializer:
        values = onnx.numpy_helper.to_array(initializer)
        if initializer.name in used and values.dtype == np.float32:
            initializer.CopyFrom(onnx.numpy_helper.from_array(values * np.float32(scale), initializer.name))
    place = folder / str(scale)
    place.mkdir()
    onnx.save(model, place / "digits_cnn.onnx")
    out = place / "digits_cnn.edgeopt"
    command = [sys.executable, "-m", "edgeopt", "optimize", str(place / "digits_cnn.onnx"), "--data", str(DATA)]
    command += ["--floor", "exact", "--time-limit", "25", "-o", str(out)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return out


if __name__ == "__main__":
    main()
