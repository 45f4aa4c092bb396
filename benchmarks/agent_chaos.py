"""Chaos on three agents and one broker: each agent must serve one signed release, rightly, after each fault.

A signed release is ordered over MQTT, and one fault happens while it is deployed: the agent, its worker or the
broker is killed, the disk of 20 MB is full or read-only, the clock jumps by ten years, a state file is torn while
the agent is away, the web server lies, or an attacker on the broker replays orders and publishes unsigned ones.
Once the fault is over, the agent must answer with the release that it reports, and that release must be signed.
Mounting the disks takes root.

    python benchmarks/agent_chaos.py
    python benchmarks/agent_chaos.py --seeds 4 --minutes 2
"""

import argparse
import http.server
import itertools
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))  # the broker is that of the tests

from benchmarks.fleet_day import Device, Release, build_release, until
from edgeopt.bundle.sign import new_key
from edgeopt.errors import EdgeoptError
from edgeopt.fleet.mqtt_documents import DesiredBundle, DesiredState, desired_message
from edgeopt.fleet.records import FINAL
from tests.broker import Broker, Client, Topics

AGENTS = 3
MODEL = "alpha"
SETTLE_S = 90.0
"""An agent must serve again within this time after a fault."""
TEN_YEARS_S = 10 * 365.25 * 86400
DISK = "20m"
MOUNT, UNMOUNT = "/bin/mount", "/bin/umount"
STATE = ("state.db", "outbox.db", "orders.db", "state.db-wal", "outbox.db-wal")
SHIFTED = """
import sys, time
place, true_time, true_ns = sys.argv.pop(1), time.time, time.time_ns
def shift():
    with open(place) as file:
        return float(file.read() or 0)
time.time = lambda: true_time() + shift()
time.time_ns = lambda: true_ns() + int(shift() * 1e9)
from edgeopt_agent.main import main
sys.exit(main())
"""
LIES = ("cut", "wrong bytes", "error", "endless")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--minutes", type=float, default=13.0, help="for each seed")
    parser.add_argument("--folder", type=Path, help="keeps bundles and logs here; default: a temporary folder")
    given = parser.parse_args()
    failures = 0
    with ExitStack() as stack:
        folder = given.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        files = folder / "files"
        files.mkdir(parents=True, exist_ok=True)
        server = _Server(files)
        stack.callback(server.close)
        key, signed, unsigned = _bundles(files)
        for seed in given.seeds:
            place = Path(tempfile.mkdtemp(prefix=f"chaos-{seed}-", dir=folder))
            chaos = _Chaos(place, server, key, signed, unsigned, random.Random(seed))  # noqa: S311
            try:
                failures += chaos.run(60 * given.minutes, seed)
            finally:
                chaos.close()
    raise SystemExit(1 if failures else 0)


def _bundles(folder: Path) -> tuple[Path, list[Release], Release]:
    """The key, three releases that it signed, and one that nobody signed."""
    key = folder.parent / "key"
    if not key.exists():
        new_key(key)
    signed = [build_release(folder, MODEL, number, key) for number in (1, 2, 3)]
    return key, signed, build_release(folder, MODEL, 4, None)


class _Server:
    """A web server for the bundles that can lie."""

    def __init__(self, folder: Path) -> None:
        self.lie = ""
        outer = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self, super().do_GET)

            def log_message(self, *_: object) -> None:
                """Logs nothing."""

        self._folder = folder
        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/"

    def answer(self, handler: http.server.SimpleHTTPRequestHandler, honestly: Callable[[], None]) -> None:
        if not self.lie:
            return honestly()
        if self.lie == "error":
            return handler.send_error(500)
        content = (self._folder / handler.path.lstrip("/")).read_bytes()
        handler.send_response(200)
        if self.lie != "endless":
            handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        with suppress(OSError):
            if self.lie == "cut":
                handler.wfile.write(content[: len(content) // 2])
            elif self.lie == "wrong bytes":
                handler.wfile.write(bytes(byte ^ 1 for byte in content))
            else:
                while self.lie == "endless":
                    handler.wfile.write(bytes(1024))
                    time.sleep(0.01)
        handler.close_connection = True
        return None

    def close(self) -> None:
        self._http.shutdown()


class _Agent(Device):
    """An agent with a small disk and a clock of its own."""

    def __init__(self, name: str, folder: Path, broker: Broker, url: str) -> None:
        self.disk = folder / name
        self.disk.mkdir()
        subprocess.run([MOUNT, "-t", "tmpfs", "-o", f"size={DISK}", "none", str(self.disk)], check=True)
        self._clock = folder / f"{name}.clock"
        self.shift(0)
        trust = [sys.executable, "-m", "edgeopt_agent.main", "trust", "add", str(folder.parent / "key.pub")]
        subprocess.run([*trust, "--data-dir", str(self.disk)], check=True, stdout=subprocess.DEVNULL)
        super().__init__(name, folder, broker, url, more="disk_reserve_bytes = 1000000\nfetch_timeout_s = 20\n")

    def command(self, *run: str) -> list[str]:
        return [sys.executable, "-c", SHIFTED, str(self._clock), *run]

    def shift(self, seconds: float) -> None:
        temporary = self._clock.with_suffix(".new")
        temporary.write_text(str(seconds))
        temporary.replace(self._clock)

    def fill(self) -> None:
        with suppress(OSError), (self.disk / "filler").open("wb") as filler:
            while True:
                filler.write(bytes(65536))
                filler.flush()

    def remount(self, how: str) -> None:
        subprocess.run([MOUNT, "-o", f"remount,{how}", str(self.disk)], check=False, capture_output=True)

    def tear(self, chance: random.Random) -> str:
        """Damages one of the files in which the agent keeps its state; returns its name."""
        files = sorted(
            each for each in self.disk.rglob("*")
            if each.is_file() and not each.is_symlink() and "trust" not in each.parts and each.name != "lock"
        )  # fmt: skip
        if not files:
            return "nothing"
        state = [each for each in files if each.name in STATE]
        file = chance.choice(state if state and chance.random() < 0.5 else files)
        content = file.read_bytes()
        if chance.random() < 0.5:
            torn = content[: chance.randrange(len(content) + 1)]
        else:
            place = chance.randrange(max(1, len(content)))
            torn = content[:place] + bytes(min(512, len(content) - place)) + content[place + 512 :]
        file.chmod(0o600)
        file.write_bytes(torn)
        return str(file.relative_to(self.disk))

    def memory_mib(self) -> dict[str, float]:
        process = psutil.Process(self.pid)
        workers = sum(each.memory_info().rss for each in process.children(recursive=True))
        return {"agent": process.memory_info().rss / (1 << 20), "workers": workers / (1 << 20)}

    def unmount(self) -> None:
        subprocess.run([UNMOUNT, "-l", str(self.disk)], check=False)


class _Chaos:
    def __init__(
        self,
        folder: Path,
        server: _Server,
        key: Path,
        signed: list[Release],
        unsigned: Release,
        chance: random.Random,
    ) -> None:
        self._server, self._key, self._signed, self._unsigned = server, key, signed, unsigned
        self._chance = chance
        self._broker = Broker(folder, "autosave_interval 10")
        self._agents = [_Agent(f"camera-{n}", folder, self._broker, server.url) for n in range(1, AGENTS + 1)]
        self._sequence = itertools.count(time.time_ns() // 1_000_000)
        self._sent: list[tuple[str, bytes]] = []
        self._done: Counter[str] = Counter()
        self._ends: Counter[str] = Counter()
        self._wrong: list[str] = []
        self._longest_s = 0.0
        self._torn: Counter[str] = Counter()

    def close(self) -> None:
        for each in self._agents:
            each.stop()
            each.unmount()
        self._broker.stop()

    def run(self, seconds: float, seed: int) -> int:
        for each in self._agents:
            each.listening()
            self._order(each, self._signed[0])
            self._settle(each, "the first release", must_serve=self._signed[0])
        before = [each.memory_mib() for each in self._agents]
        end = time.monotonic() + seconds
        faults = (
            self._kill_agent, self._kill_worker, self._kill_broker, self._fill_disk, self._make_read_only,
            self._shift_clock, self._tear, self._lie, self._replay, self._attack,
        )  # fmt: skip
        while time.monotonic() < end:
            fault, agent = self._chance.choice(faults), self._chance.choice(self._agents)
            self._order(agent, self._chance.choice(self._signed))
            time.sleep(self._chance.uniform(0, 2.5))
            what = fault(agent)
            self._done[fault.__name__.strip("_").replace("_", " ")] += 1
            self._settle(agent, what)
        for each in self._agents:
            self._order(each, self._signed[1])
            self._settle(each, "a last order", must_serve=self._signed[1])
        self._print(seed, before)
        return len(self._wrong)

    def _print(self, seed: int, before: list[dict[str, float]]) -> None:
        print(f"seed {seed}: {sum(self._done.values())} faults: {dict(self._done)}")
        print(f"  torn files: {dict(self._torn)}")
        print(f"  deployments: {dict(self._ends)}")
        print(f"  longest time until an agent served again: {self._longest_s:.1f} s (limit {SETTLE_S:.0f} s)")
        for agent, was in zip(self._agents, before, strict=True):
            now = agent.memory_mib()
            print(f"  {agent.name}: " + ", ".join(f"{k} {was[k]:.0f} -> {now[k]:.0f} MiB" for k in was))
        print(f"  wrong: {len(self._wrong)}", *self._wrong, sep="\n    ", flush=True)

    def _order(self, agent: _Agent, release: Release, key: Path | None = None, *, signed: bool = True) -> None:
        bundle = DesiredBundle(
            bundle=self._server.url + release.file, digest=release.digest, force=True, allow_downgrade=True,
            soak_s=1.0, soak_requests=0,
        )  # fmt: skip
        state = DesiredState(sequence=next(self._sequence), fleet="default", device=agent.name, desired=bundle)
        content = desired_message(state, (key or self._key) if signed else None)
        if signed and key is None:
            self._sent.append((agent.name, content))
        self._publish(agent.name, content)

    def _publish(self, device: str, content: bytes) -> None:
        def publish() -> bool:
            with suppress(OSError, ValueError, AssertionError):
                client = Client(self._broker, Topics("default", device))
                try:
                    client.publish(client.topics.desired, content, retain=True)
                finally:
                    client.close()
                return True
            return False

        until(publish, SETTLE_S)

    def _settle(self, agent: _Agent, what: str, must_serve: Release | None = None) -> None:
        """Waits until the agent serves a signed release rightly and nothing is deployed."""
        began = time.monotonic()
        found = "nothing was checked"

        def settled() -> bool:
            nonlocal found
            found = self._unsettled(agent, must_serve)
            return not found

        if not until(settled, SETTLE_S):
            self._wrong.append(f"{agent.name} after {what}: {found}")
        self._longest_s = max(self._longest_s, time.monotonic() - began)

    def _unsettled(self, agent: _Agent, must_serve: Release | None) -> str:
        try:
            status = agent.status()
        except (EdgeoptError, OSError) as error:
            return f"it does not answer: {error}"
        last = status.deployment
        if last is not None and last.state not in FINAL:
            return f"deployment {last.id} is {last.state}"
        if status.serving is None:
            return f"nothing serves: {status.reason}"
        release = next((each for each in self._signed if each.release == status.serving.release), None)
        if release is None:
            return f"{status.serving.release} serves, which nobody signed"
        if (answer := agent.answer(MODEL)) != release.scale:
            return f"it answers with {answer}, its release with {release.scale}"
        if must_serve is not None and release != must_serve:
            return f"{release.file} serves, and {must_serve.file} was ordered"
        if last is not None:
            self._ends[last.state] += 1
        return ""

    def _pause(self) -> None:
        time.sleep(self._chance.uniform(0.5, 3.0))

    def _kill_agent(self, agent: _Agent) -> str:
        agent.kill()
        self._start(agent)
        return "a kill of the agent"

    def _start(self, agent: _Agent) -> None:
        """As systemd does: again after each failed start."""
        for _ in range(5):
            agent.start()
            with suppress(AssertionError):
                agent.listening()
                return
        self._wrong.append(f"{agent.name} does not start")

    def _kill_worker(self, agent: _Agent) -> str:
        for pid in agent.workers()[:1]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return "a kill of the worker"

    def _kill_broker(self, _agent: _Agent) -> str:
        self._broker.stop(kill=True)
        self._pause()
        self._broker.start()
        return "a kill of the broker"

    def _fill_disk(self, agent: _Agent) -> str:
        agent.fill()
        self._pause()
        with suppress(FileNotFoundError):
            (agent.disk / "filler").unlink()
        return "a full disk"

    def _make_read_only(self, agent: _Agent) -> str:
        agent.remount("ro")
        self._pause()
        agent.remount("rw")
        return "a read-only disk"

    def _shift_clock(self, agent: _Agent) -> str:
        years = self._chance.choice((-1, 1))
        agent.shift(years * TEN_YEARS_S)
        if self._chance.random() < 0.5:
            agent.kill()
            self._start(agent)
        self._order(agent, self._chance.choice(self._signed))
        self._pause()
        agent.shift(0)
        return f"a jump of the clock by {years * 10} years"

    def _tear(self, agent: _Agent) -> str:
        agent.kill()
        name = agent.tear(self._chance)
        self._torn["/".join(name.split("/")[:1] + name.split("/")[-1:])] += 1
        self._start(agent)
        return f"a torn {name}"

    def _lie(self, agent: _Agent) -> str:
        self._server.lie = lie = self._chance.choice(LIES)
        self._order(agent, self._chance.choice(self._signed))
        self._pause()
        self._server.lie = ""
        return f"a server that lies ({lie})"

    def _replay(self, agent: _Agent) -> str:
        own = [content for name, content in self._sent if name == agent.name]
        other = [content for name, content in self._sent if name != agent.name]
        for content in (self._chance.choice(own[:-1] or own), self._chance.choice(other)):
            self._publish(agent.name, content)
        return "replayed orders"

    def _attack(self, agent: _Agent) -> str:
        self._order(agent, self._unsigned, signed=False)
        self._order(agent, self._unsigned)  # a signed order of a bundle that nobody signed
        self._sent.pop()
        return "orders of an unsigned bundle"


if __name__ == "__main__":
    main()
