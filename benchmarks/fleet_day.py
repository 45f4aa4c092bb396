"""A day of a fleet in ten minutes: rollouts while agents, workers, clients and the broker are killed at random.

Five agents and one Mosquitto run on this machine; each agent serves three models. Fifteen rollouts deploy new
releases, broken files among them; a rollout whose client was killed is resumed, and some are rolled back. After
each rollout, once everything runs again, the retained report of each device must equal what the device itself
answers: its status over HTTP, and the release that computes its inferences.

    python benchmarks/fleet_day.py
    python benchmarks/fleet_day.py --seeds 4 5 --rollouts 5 --pause 2
"""

import argparse
import http.client
import http.server
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).parents[1]))  # the broker is that of the tests

from edgeopt.bundle.manifest import release_id
from edgeopt.bundle.read import read_bundle
from edgeopt.errors import EdgeoptError
from edgeopt.fleet import rollout_commands as commands
from edgeopt.fleet.client import Agent
from edgeopt.fleet.mqtt_client import connected
from edgeopt.fleet.mqtt_documents import Reported
from edgeopt.fleet.records import FINAL, Status
from edgeopt.fleet.rollout_driver import FleetState, read_fleet
from edgeopt.fleet.rollout_request import BrokerRequest, RolloutStatusRequest
from tests.broker import Broker, free_port
from tests.processes import wait_listening

AGENTS = 5
MODELS = ("alpha", "beta", "gamma")
RELEASES = 3
WIDTH = 16
RESTART_S = (0.2, 2.0)
"""How long an agent or a broker is away after a kill."""
DEVICE_TIMEOUT_S = 60.0
CLIENT_LIMIT_S = 2 * DEVICE_TIMEOUT_S + 60.0
"""Two waves of devices, each with its own limit, and the minute for which a client waits for a lost broker."""
AGREE_LIMIT_S = 60.0
BROKEN = "broken"
OPEN = ("running", "paused", "rolling-back")
LOST = "lost with the broker"
"""A rollout whose state the broker had not saved when it was killed."""
BROKER = "autosave_interval 10"
COUNTING = ("uptime_s", "drift", "detail")
"""Keys of a status whose figures go on between a report and a question."""


class Release(NamedTuple):
    """A bundle on the web server."""

    model: str
    file: str
    digest: str
    scale: float
    """Factor of its answers; 0 for a file that does not have its digest."""
    release: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--rollouts", type=int, default=15)
    parser.add_argument("--pause", type=float, default=4.0, help="mean seconds between two kills")
    parser.add_argument("--folder", type=Path, help="keeps bundles and logs here; default: a temporary folder")
    given = parser.parse_args()
    failures = 0
    with ExitStack() as stack:
        folder = given.folder or stack.enter_context(tempfile.TemporaryDirectory())
        url = stack.enter_context(_files(Path(folder) / "files"))
        releases = _releases(Path(folder) / "files")
        for seed in given.seeds:
            place = Path(tempfile.mkdtemp(prefix=f"day-{seed}-", dir=folder))
            day = _Day(place, url, releases, random.Random(seed))  # noqa: S311
            try:
                failures += day.run(given.rollouts, given.pause, seed)
            finally:
                day.close()
    raise SystemExit(1 if failures else 0)


@contextmanager
def _files(folder: Path) -> Iterator[str]:
    """A web server for the bundles; yields its address."""
    folder.mkdir(parents=True, exist_ok=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(_QuietHandler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()


class _QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Logs nothing."""


def _releases(folder: Path) -> list[Release]:
    """Three releases of each model, which multiply by different factors, and one broken file of each."""
    found = []
    for model in MODELS:
        made = [build_release(folder, model, number) for number in range(1, RELEASES + 1)]
        content = (folder / made[-1].file).read_bytes()
        broken = folder / f"{model}-{BROKEN}.edgeopt"
        broken.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        found += [*made, made[-1]._replace(file=broken.name, scale=0.0)]
    return found


def build_release(folder: Path, model: str, number: int, key: Path | None = None) -> Release:
    """Optimizes a model that multiplies by a factor of its own, into a file of the folder."""
    scale = float(number + 1)
    source, data = folder / f"{model}.onnx", folder / "data.npz"
    onnx.save(_model(model, scale), source)
    np.savez(data, x=np.random.default_rng(0).random((20, 1, WIDTH), np.float32))
    bundle = folder / f"{model}-{number}{'-signed' if key else ''}.edgeopt"
    commands = [["optimize", str(source), "--data", str(data), "--floor", "exact", "--time-limit", "15"]]
    commands[0] += ["--single-file", "-o", str(bundle)]
    commands += [["sign", str(bundle), "--key", str(key)]] if key else []
    for command in commands if not bundle.exists() else ():
        run = [sys.executable, "-m", "edgeopt", *command]
        subprocess.run(run, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    opened = read_bundle(bundle)
    return Release(model, bundle.name, _digest(bundle.read_bytes()), scale, release_id(opened.folder))


def _model(name: str, scale: float) -> onnx.ModelProto:
    """Multiplies by the factor, in layers with something to optimize."""
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
    {name} (float["batch", {WIDTH}] x) => (float["batch", {WIDTH}] y) {{
      once = MatMul (x, eye)
      again = Relu (once)
      y = MatMul (again, scaled)
    }}""")
    eye = np.eye(WIDTH, dtype=np.float32)
    for tensor, values in (("eye", eye), ("scaled", eye * np.float32(scale))):
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, tensor))
    return model


def _digest(content: bytes) -> str:
    return f"sha256:{sha256(content).hexdigest()}"


class Device:
    """An agent in a process of its own, which is started again when it was killed."""

    def __init__(self, name: str, folder: Path, broker: Broker, url: str, more: str = "") -> None:
        """`more`: further lines of its configuration."""
        self.name, self.port = name, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._folder = folder
        self._config = folder / f"{name}.toml"
        self._config.write_text(
            f'port = {self.port}\nfetch_from = ["{url}"]\nfetch_retry_s = 0.2\n{more}'
            f'[mqtt]\nurl = "{broker.url}"\ndevice = "{name}"\ntelemetry_s = 0\n'
            "reconnect_s = 0.2\nreconnect_most_s = 2\n"
        )
        self._process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        run = ["run", "--config", str(self._config), "--data-dir", str(self._folder / self.name)]
        with (self._folder / f"{self.name}.log").open("a") as log:
            self._process = subprocess.Popen(self.command(*run), stdout=log, stderr=log)
        return self._process

    def command(self, *run: str) -> list[str]:
        return [sys.executable, "-m", "edgeopt_agent.main", *run]

    @property
    def pid(self) -> int:
        return self._process.pid

    def listening(self) -> None:
        wait_listening(self._process, self.port, self._folder / f"{self.name}.log", 60.0)

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(30)

    def status(self) -> Status:
        return Agent(self.url, timeout_s=5.0).status()

    def workers(self) -> list[int]:
        with suppress(EdgeoptError, OSError):
            return [each.serving.pid for each in self.status().models if each.serving and each.serving.pid]
        return []

    def answer(self, model: str) -> float | None:
        """The factor by which a model multiplies; None if it does not answer."""
        body = {"inputs": [{"name": "x", "shape": [1, WIDTH], "datatype": "FP32", "data": [1.0] * WIDTH}]}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10.0)
        try:
            connection.request("POST", f"/v2/models/{model}/infer", json.dumps(body))
            answer = connection.getresponse()
            found = json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            connection.close()
        return float(found["outputs"][0]["data"][0]) if answer.status == 200 else None


class _Day:
    """One broker, its devices, and what happened to them."""

    def __init__(self, folder: Path, url: str, releases: list[Release], chance: random.Random) -> None:
        self._url, self._releases, self._chance = url, releases, chance
        self._log = folder / "client.log"
        self._broker = Broker(folder, BROKER)
        self._devices = [Device(f"camera-{number}", folder, self._broker, url) for number in range(1, AGENTS + 1)]
        self._kills: Counter[str] = Counter()
        self._client: subprocess.Popen[bytes] | None = None
        self._mending: list[threading.Thread] = []
        self._longest_client_s = self._longest_agree_s = 0.0
        self._wrong: list[str] = []
        for each in self._devices:
            each.listening()

    def close(self) -> None:
        for each in self._devices:
            each.stop()
        self._broker.stop()

    def run(self, count: int, pause_s: float, seed: int) -> int:
        """Runs the rollouts and prints what came of them; returns how many checks failed."""
        began = time.monotonic()
        ends: Counter[str] = Counter()
        for number in range(count):
            ends[self._rollout(number, pause_s)] += 1
        print(f"seed {seed}: {count} rollouts in {time.monotonic() - began:.0f} s: {dict(ends)}")
        print(f"  kills: {dict(self._kills)}")
        print(
            f"  longest wait: {self._longest_client_s:.1f} s for a client (limit {CLIENT_LIMIT_S:.0f} s), "
            f"{self._longest_agree_s:.1f} s until report and device agree (limit {AGREE_LIMIT_S:.0f} s)"
        )
        print(f"  wrong: {len(self._wrong)}", *self._wrong, sep="\n    ", flush=True)
        return len(self._wrong)

    def _rollout(self, number: int, pause_s: float) -> str:
        """Runs one rollout with kills, then checks the reports; returns its phase."""
        name = f"rollout-{number}"
        release = self._choose(number)
        start = ["start", f"{self._url}{release.file}", "--digest", release.digest, "--to", "*", "--name", name]
        start += ["--waves", "2,rest", "--soak-seconds", "1", "--soak-requests", "0", "--force"]
        start += ["--device-timeout", str(DEVICE_TIMEOUT_S), "--stop-at-failures", "50%"]
        start += ["--allow-downgrade"] if number >= len(MODELS) else []
        if release.model != MODELS[0]:
            start += ["--model", release.model] + (["--add"] if number < len(MODELS) else [])
        # Each model is added without kills: a device without it cannot follow the later rollouts of it.
        killer = _Killer(self, pause_s, self._chance) if number >= len(MODELS) else None
        if killer is not None:
            killer.start()
        self._follow(name, start)
        if killer is not None and self._chance.random() < 0.3:
            self._follow(name, ["rollback", name])
        if killer is not None:
            killer.stop.set()
            killer.join()
        for each in self._mending:
            each.join()
        self._mending.clear()
        if self._phase(name) in OPEN:  # the broker was killed before it saved how the rollout ended
            self._follow(name, ["resume", name])
        self._agree(name)
        phase = self._phase(name)
        if phase != LOST:
            self._check_rollout(name, release)
        print(f"  {name}: {release.file}: {phase}", file=sys.stderr, flush=True)
        return phase

    def _choose(self, number: int) -> Release:
        if number < len(MODELS):
            return next(each for each in self._releases if each.model == MODELS[number])
        return self._chance.choice(self._releases)

    def _follow(self, name: str, first: list[str]) -> None:
        """Runs the command of a rollout to its end, again if its client was killed or the rollout paused."""
        command = first
        for _ in range(20):
            began = time.monotonic()
            code = self._run_client(command)
            taken = time.monotonic() - began
            self._longest_client_s = max(self._longest_client_s, taken)
            if taken > CLIENT_LIMIT_S:
                self._wrong.append(f"{name}: `{command[0]}` took {taken:.0f} s")
            self._wait_broker()
            phase = self._phase(name)
            if code >= 0 and phase not in {*OPEN, LOST}:
                return
            if phase == LOST and first[0] != "start":
                return  # nothing is left to go on with
            command = first if phase == LOST else ["resume", name]
        self._wrong.append(f"{name}: did not end in 20 tries")

    def _run_client(self, command: list[str]) -> int:
        prefix = [sys.executable, "-m", "edgeopt", "fleet", "rollout", *command, "--broker", self._broker.url]
        with self._log.open("a") as log:
            log.write(f"\n$ {' '.join(command)}\n")
            log.flush()
            self._client = subprocess.Popen(prefix, stdout=log, stderr=log)
        try:
            return self._client.wait(2 * CLIENT_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._client.kill()
            return -1

    def _wait_broker(self) -> None:
        until(lambda: self._state() is not None, 60.0)

    def _state(self) -> FleetState | None:
        import asyncio

        async def read() -> FleetState:
            async with connected(BrokerRequest(broker=self._broker.url)) as client:
                return await read_fleet(client)

        with suppress(EdgeoptError, OSError):
            return asyncio.run(read())
        return None

    def _phase(self, name: str) -> str:
        with suppress(EdgeoptError):
            found = commands.status(RolloutStatusRequest(broker=self._broker.url, name=name))
            return getattr(found, "phase", LOST)
        return LOST

    def _agree(self, name: str) -> None:
        """Waits until nothing is deployed, then for the reports to equal what the devices answer."""
        began = time.monotonic()
        differences = ["nothing was compared"]

        def agree() -> bool:
            nonlocal differences, began
            state = self._state()
            differences = [said for each in self._devices for said in self._differences(each, state)]
            if any("is at work" in said for said in differences):
                began = time.monotonic()
            return not differences

        if not until(agree, AGREE_LIMIT_S + CLIENT_LIMIT_S):
            self._wrong += [f"{name}: {said}" for said in differences]
        self._longest_agree_s = max(self._longest_agree_s, time.monotonic() - began)

    def _differences(self, device: Device, state: FleetState | None) -> list[str]:
        """What a report says that the device does not answer."""
        if state is None:
            return ["the broker does not answer"]
        report = state.devices.get(device.name)
        try:
            status = device.status()
        except (EdgeoptError, OSError) as error:
            return [f"{device.name}: is at work: {error}"]
        if any(each.deployment and each.deployment.state not in FINAL for each in status.models):
            return [f"{device.name}: is at work"]
        if report is None or report.reported is None or not report.online:
            return [f"{device.name}: is not reported online"]
        found = []
        reported, asked = (json.dumps(_steady(each), sort_keys=True) for each in (report.reported.status, status))
        if reported != asked:
            found.append(f"{device.name}: reports {reported}, answers {asked}")
        found += self._unanswered(device, report.reported)
        following = report.reported.desired
        if report.desired_sequence and (following is None or following.sequence < report.desired_sequence):
            found.append(f"{device.name}: desired {report.desired_sequence}, follows {following}")
        if following is not None and following.state in {"accepted", "deploying", "waiting"}:
            found.append(f"{device.name}: its desired state is {following.state}")
        return found

    def _unanswered(self, device: Device, reported: Reported[Status]) -> list[str]:
        """Models whose inferences are not those of the release that the report names."""
        found = []
        for each in reported.status.models:
            if each.serving is None:
                found.append(f"{device.name}: {each.name or 'the first model'} serves nothing: {each.reason}")
                continue
            scale = next(one.scale for one in self._releases if one.release == each.serving.release and one.scale)
            if (answer := device.answer(each.name)) != scale:
                found.append(f"{device.name}: {each.name} answers with {answer}, its release with {scale}")
        return found

    def _check_rollout(self, name: str, release: Release) -> None:
        """Compares the devices' results in the rollout with what they serve."""
        with suppress(EdgeoptError):
            found = commands.status(RolloutStatusRequest(broker=self._broker.url, name=name))
            devices = {each.name: each for each in self._devices}
            for row in getattr(found, "devices", ()):
                served = devices[row.device].answer(release.model)
                new = release.scale and served == release.scale
                if (row.state == "done" and not new) or (row.state == "failed" and release.scale == 0 and new):
                    self._wrong.append(f"{name}: {row.device} is {row.state}, answers with {served}")

    def kill_something(self) -> None:
        part = self._chance.choice(("agent", "agent", "worker", "client", "broker", "broker killed"))
        if part == "client":
            if self._client is None or self._client.poll() is not None:
                return
            self._client.kill()
        elif part == "worker":
            pids = self._chance.choice(self._devices).workers()
            if not pids:
                return
            with suppress(ProcessLookupError):
                os.kill(self._chance.choice(pids), signal.SIGKILL)
        elif part == "agent":
            device = self._chance.choice(self._devices)
            if not device.running:
                return
            device.kill()
            self._later(device.start, device.listening)
        else:
            for each in self._mending:
                each.join()  # one thing at a time is away
            self._broker.stop(kill=part == "broker killed")
            self._later(self._broker.start)
        self._kills[part] += 1

    def _later(self, *works: Callable[[], object]) -> None:
        pause_s = self._chance.uniform(*RESTART_S)

        def mend() -> None:
            time.sleep(pause_s)
            with suppress(AssertionError):  # it was killed again
                for work in works:
                    work()

        self._mending.append(thread := threading.Thread(target=mend))
        thread.start()


class _Killer(threading.Thread):
    def __init__(self, day: _Day, pause_s: float, chance: random.Random) -> None:
        super().__init__(daemon=True)
        self.stop = threading.Event()
        self._day, self._pause_s, self._chance = day, pause_s, chance

    def run(self) -> None:
        while not self.stop.wait(self._chance.uniform(0.5, 2 * self._pause_s)):
            self._day.kill_something()


def _steady(status: Status) -> object:
    """A status without what counts on between a report and a question."""
    plain = msgspec.to_builtins(status)

    def without(value: object) -> object:
        if isinstance(value, dict):
            return {
                key: without(each) for key, each in value.items() if key not in {"uptime_s", "drift", "detail"}
            }
        return [without(each) for each in value] if isinstance(value, list | tuple) else value

    return without(plain)


def until(holds: Callable[[], bool], limit_s: float) -> bool:
    deadline = time.monotonic() + limit_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


if __name__ == "__main__":
    main()
