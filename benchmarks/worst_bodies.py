"""What the worst request bodies cost a real agent, and what other clients notice of them.

A small model (identity, and the number of values) is deployed on an agent of its own. First each body is sent
alone, for its CPU time and memory. Then rounds: one kind after the other is sent on several connections at once,
all by a client with the role `infer`, while two quiet clients (HTTP and gRPC) send small requests.

python benchmarks/worst_bodies.py --rounds 1
python benchmarks/worst_bodies.py --only gzip --rounds 3 --connections 8
python benchmarks/worst_bodies.py --largest-mib 16 --rounds 20     # memory has to stay flat

Columns: CPU of agent and worker for each MB of the body, and in ms for bodies of less than 1 MB; memory that both
took above what they had before and 4 MiB, as a multiple of the body; seconds of the slowest request; p99 and
maximum of the quiet clients in ms, `*` where a p99 is more than 10 times that without the attack; their failed
requests; HTTP status or gRPC code with their counts.
"""

import argparse
import http.client
import json
import multiprocessing
import os
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import urlsplit

import grpc
import numpy as np
import onnx
import psutil
from agent_overhead import AGENT, _agent, _free_port
from attack_bodies import BODIES, MIB, SIZES, AttackBody, Sent
from onnx import TensorProto, helper

import edgeopt
from edgeopt.bundle import write
from edgeopt.bundle.deployment import Deployment, Evidence, Run, SourceModel, Tensor
from edgeopt_agent import tokens

MODEL = "worst"
PATH = f"/v2/models/{MODEL}/infer"
METHOD = "/inference.GRPCInferenceService/ModelInfer"
QUIET_VALUES = 64
TIMEOUT_S = 60.0
SMALL_BYTES = 1_000_000


@dataclass
class Effects:
    """What one kind of bodies did."""

    statuses: Counter[str] = field(default_factory=Counter)
    ms_per_mb: float = 0.0
    small_ms: float = 0.0
    memory_factor: float = 0.0
    slowest_s: float = 0.0
    latencies_ms: dict[str, list[float]] = field(default_factory=lambda: {"http": [], "grpc": []})
    failed: int = 0


def main() -> None:
    """Prints a line a kind and a line a round."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1, help="how often all bodies are sent; default 1")
    parser.add_argument("--connections", type=int, default=8, help="of the attacker; default 8")
    parser.add_argument("--seconds", type=float, default=5.0, help="of the quiet clients alone; default 5")
    parser.add_argument("--only", default="", help="kinds whose name contains this; default all")
    parser.add_argument("--largest-mib", type=float, default=64, help="leave out larger bodies; default 64")
    given = parser.parse_args()
    kinds = [each for each in BODIES if given.only in each.name]
    sizes = [size for size in SIZES if size <= given.largest_mib * MIB]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bundle, port = make_bundle(folder), _free_port()
        with _agent(folder / "data", "--grpc-port", str(port)) as url:
            subprocess.run([*AGENT, "deploy", str(bundle), "--url", url], check=True, stdout=subprocess.DEVNULL)
            token = {role: tokens.add(folder / "data", role, role).token for role in tokens.ROLES}
            places = {"http": urlsplit(url).netloc, "grpc": f"127.0.0.1:{port}"}
            run(Site(places, token["infer"], token["view"]), kinds, sizes, given)


@dataclass(frozen=True)
class Site:
    places: dict[str, str]
    token: str
    view_token: str

    def release(self) -> str:
        """The id of the release that serves."""
        connection = http.client.HTTPConnection(self.places["http"])
        connection.request("GET", f"/v2/models/{MODEL}", headers={"Authorization": f"Bearer {self.view_token}"})
        return str(json.loads(connection.getresponse().read())["versions"][0])


def run(site: Site, kinds: Sequence[AttackBody], sizes: Sequence[int], given: argparse.Namespace) -> None:
    agent = next(each for each in psutil.Process().children() if "edgeopt_agent.main" in each.cmdline())
    before = site.release(), worker_of(agent).pid
    effects = {kind.name: Effects() for kind in kinds}
    with attacker(site) as attack, quiet_clients(site) as quiet:
        quiet.pause(given.seconds)
        alone = {protocol: p99_ms(times) for protocol, times in quiet.take()[0].items()}
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; quiet p99: {shown(alone)}", flush=True)
        quiet.stop_for_now.set()
        for kind in kinds:
            measure_cost(kind, sizes, attack, agent, effects[kind.name])
        quiet.stop_for_now.clear()
        for number in range(given.rounds):
            for kind in kinds:
                quiet.take()
                took = attack(kind.name, list(sizes), given.connections)
                note(effects[kind.name], took)
                quiet.pause(0.2)
                latencies, failed = quiet.take()
                effects[kind.name].failed += failed
                for protocol, times in latencies.items():
                    effects[kind.name].latencies_ms[protocol] += times
            quiet.pause(1.5)  # the agent returns freed memory after a second
            memory = ", ".join(f"{label} {rss(process):.0f} MiB" for label, process in pair(agent))
            now = site.release(), worker_of(agent).pid
            print(f"round {number + 1}: {memory}; {'same' if now == before else 'OTHER'} release and worker")
    print_table(effects, alone)


def measure_cost(
    kind: AttackBody, sizes: Sequence[int], attack: "Attack", agent: psutil.Process, effects: Effects
) -> None:
    """Sends each size alone; nothing else is being answered meanwhile."""
    for size in sizes:
        processes = [process for _, process in pair(agent)]
        resident = [rss(each) for each in processes]
        for each in processes:
            Path(f"/proc/{each.pid}/clear_refs").write_text("5", encoding="ascii")  # forgets the peak
        start = [cpu_ms(each) for each in processes]
        took = attack(kind.name, [size], 1)
        spent = sum(cpu_ms(each) - was for each, was in zip(processes, start, strict=True))
        grown = sum(max(0.0, peak(each) - was) for each, was in zip(processes, resident, strict=True))
        note(effects, took)
        body_bytes = took[0][2]
        if body_bytes < SMALL_BYTES:
            effects.small_ms = max(effects.small_ms, spent)
        else:
            effects.ms_per_mb = max(effects.ms_per_mb, spent / body_bytes * 1e6)
            effects.memory_factor = max(effects.memory_factor, (grown - 4) * MIB / body_bytes)


def note(effects: Effects, took: Sequence[tuple[str, float, int]]) -> None:
    effects.statuses.update(status for status, _, _ in took)
    effects.slowest_s = max(effects.slowest_s, *(seconds for _, seconds, _ in took))


def print_table(effects: dict[str, Effects], alone: dict[str, float]) -> None:
    print(
        f"{'kind':38s} {'ms/MB':>6s} {'small':>7s} {'memory':>6s} {'slowest':>8s} "
        f"{'HTTP p99':>9s} {'max':>6s} {'gRPC p99':>9s} {'max':>6s} {'failed':>6s}  statuses"
    )
    for name, each in effects.items():
        by_http, by_grpc = each.latencies_ms["http"], each.latencies_ms["grpc"]
        slow = "*" if any(p99_ms(each.latencies_ms[p]) > 10 * alone[p] for p in alone) else " "
        print(
            f"{name:38s} {each.ms_per_mb:6.1f} {each.small_ms:4.1f} ms {each.memory_factor:5.1f}x "
            f"{each.slowest_s:6.2f} s {p99_ms(by_http):9.1f} {max(by_http, default=0):6.0f} "
            f"{p99_ms(by_grpc):9.1f} {max(by_grpc, default=0):6.0f} {each.failed:6d}{slow} "
            f"{', '.join(f'{status} x{count}' for status, count in sorted(each.statuses.items()))}"
        )
    merged = {p: [t for each in effects.values() for t in each.latencies_ms[p]] for p in alone}
    print(f"quiet p99 alone: {shown(alone)}; during all of it: {shown({p: p99_ms(t) for p, t in merged.items()})}")
    print(f"failed requests of the quiet clients: {sum(each.failed for each in effects.values())}")


def shown(times: dict[str, float]) -> str:
    return ", ".join(f"{protocol} {value:.2f} ms" for protocol, value in times.items())


def p99_ms(times: Sequence[float]) -> float:
    return float(np.percentile(times, 99)) if times else 0.0


def pair(agent: psutil.Process) -> list[tuple[str, psutil.Process]]:
    return [("agent", agent), ("worker", worker_of(agent))]


def worker_of(agent: psutil.Process) -> psutil.Process:
    return next(each for each in agent.children() if "edgeopt_agent.workers.child" in each.cmdline())


def rss(process: psutil.Process) -> float:
    return float(process.memory_info().rss) / MIB


def peak(process: psutil.Process) -> float:
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def cpu_ms(process: psutil.Process) -> float:
    """Of all its threads that live; the kernel counts it in nanoseconds."""
    total = 0
    for thread in Path(f"/proc/{process.pid}/task").iterdir():
        with suppress(OSError):
            total += int((thread / "schedstat").read_text(encoding="ascii").split()[0])
    return total / 1e6


# The quiet clients


class Quiet:
    def __init__(self) -> None:
        self.stop_for_now = threading.Event()
        self.ended = threading.Event()
        self._latencies: dict[str, list[float]] = {"http": [], "grpc": []}
        self._failed = 0

    def take(self) -> tuple[dict[str, list[float]], int]:
        """What was measured since it was last asked."""
        taken = self._latencies, self._failed
        self._latencies, self._failed = {"http": [], "grpc": []}, 0
        return taken

    def pause(self, seconds: float) -> None:
        self.ended.wait(seconds)

    def ask(self, protocol: str, once: Callable[[], str]) -> None:
        """Asks until the end, with pauses, as sensors do."""
        rested = False
        while not self.ended.wait(0.005):
            if self.stop_for_now.is_set():
                rested = True
                continue
            if rested:
                once()  # the agent may have closed the idle connection
                rested = False
            begin = time.perf_counter()
            status = once()
            self._latencies[protocol].append((time.perf_counter() - begin) * 1e3)
            self._failed += status not in {"200", "OK"}


@contextmanager
def quiet_clients(site: Site) -> Iterator[Quiet]:
    quiet = Quiet()
    small = {kind.protocol: kind.make(4 * QUIET_VALUES) for kind in BODIES if kind.name.startswith("plain: ")}
    threads = [
        threading.Thread(target=quiet.ask, args=(protocol, sender(site, protocol, small[protocol])))
        for protocol in small
    ]
    for thread in threads:
        thread.start()
    try:
        yield quiet
    finally:
        quiet.ended.set()
        for thread in threads:
            thread.join()


def sender(site: Site, protocol: str, sent: Sent) -> Callable[[], str]:
    """Sends a body on a connection of its own and gives the status; connects again where it was closed."""
    bearer = f"Bearer {site.token}"
    if protocol == "grpc":
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)]
        options.append(("grpc.max_receive_message_length", -1))
        call = grpc.insecure_channel(site.places["grpc"], options=options).unary_unary(METHOD)

        def by_grpc() -> str:
            try:
                call(sent.body, metadata=(("authorization", bearer),), timeout=TIMEOUT_S)
            except grpc.RpcError as error:
                return str(error.code().name)  # type: ignore[attr-defined]  # the library's own call
            return "OK"

        return by_grpc
    connection = http.client.HTTPConnection(site.places["http"], timeout=TIMEOUT_S)
    headers = {"Authorization": bearer}
    if sent.header_length is not None:
        headers["Inference-Header-Content-Length"] = str(sent.header_length)
    if sent.encoding:
        headers["Content-Encoding"] = sent.encoding

    def by_http() -> str:
        try:
            with suppress(BrokenPipeError, ConnectionResetError):  # the answer may be there before it is sent
                connection.request("POST", PATH, sent.body, headers)
            answer = connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            return type(error).__name__
        if answer.status in {408, 413, 503}:
            connection.close()
        return str(answer.status)

    return by_http


# The attacker, in a process of its own

Attack = Callable[[str, list[int], int], list[tuple[str, float, int]]]


@contextmanager
def attacker(site: Site) -> Iterator[Attack]:
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=attack_forever, args=(site, theirs), daemon=True)
    process.start()

    def attack(name: str, sizes: list[int], connections: int) -> list[tuple[str, float, int]]:
        mine.send((name, sizes, connections))
        mine.recv()  # the bodies are made
        mine.send(None)
        took: list[tuple[str, float, int]] = mine.recv()
        return took

    yield attack
    process.terminate()
    process.join()


def attack_forever(site: Site, orders: Connection) -> None:
    """Sends the bodies of each order, on several connections at once; the sizes alternate."""
    os.nice(5)  # it stands for other machines, and must not keep the cores from those measured
    kinds = {kind.name: kind for kind in BODIES}
    while True:
        name, sizes, connections = orders.recv()
        kind = kinds[name]
        bodies = [kind.make(size) for size in sizes]
        took: list[tuple[str, float, int]] = []

        def send(number: int, kind: AttackBody = kind, bodies: list[Sent] = bodies, took: list = took) -> None:  # type: ignore[type-arg]
            sent = bodies[number % len(bodies)]
            once = sender(site, kind.protocol, sent)
            begin = time.perf_counter()
            status = once()
            took.append((status, time.perf_counter() - begin, len(sent.body)))

        orders.send("made")
        orders.recv()
        threads = [threading.Thread(target=send, args=(number,)) for number in range(connections)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        orders.send(took)


# The model


def make_bundle(folder: Path) -> Path:
    """Inputs of three types with one open dimension; outputs `e`, the values of `x`, and `n`, their number."""
    types = {"x": TensorProto.FLOAT, "i": TensorProto.INT64, "s": TensorProto.STRING}
    inputs = [helper.make_tensor_value_info(name, kind, [f"n_{name}"]) for name, kind in types.items()]
    outputs = [
        helper.make_tensor_value_info("e", TensorProto.FLOAT, ["n_x"]),
        helper.make_tensor_value_info("n", TensorProto.INT64, [1]),
    ]
    nodes = [helper.make_node("Identity", ["x"], ["e"])]
    nodes += [helper.make_node("Shape", [name], [f"size_{name}"]) for name in types]
    nodes.append(helper.make_node("Add", ["size_x", "size_i"], ["two"]))
    nodes.append(helper.make_node("Add", ["two", "size_s"], ["n"]))
    graph = helper.make_graph(nodes, "worst", inputs, outputs)
    model = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    feeds = [{"x": np.ones(3, np.float32), "i": np.ones(1, np.int64), "s": np.array(["a"])}]
    with edgeopt.load(model, "onnxruntime-cpu") as session:
        answers = [session.run(each) for each in feeds]
    deployment = Deployment(
        name=MODEL,
        created="2026-01-01T00:00:00+00:00",
        edgeopt="0",
        target="quick",
        summary="identity",
        source=SourceModel("model.onnx", "0" * 64, 1),
        run=Run("onnxruntime-cpu", "model/model.onnx"),
        inputs=[
            Tensor(name, dtype, [f"n_{name}"]) for name, dtype in (("x", "float32"), ("i", "int64"), ("s", "str"))
        ],
        outputs=[Tensor("e", "float32", ["n_x"]), Tensor("n", "int64", [1])],
        device={},
        evidence=Evidence("faster", "source", 2.0, 1.0, 2.0, 1.9, 2.1, 11, 200.0, 30.0, 2),
    )
    bundle = folder / f"{MODEL}.edgeopt"
    with write.draft(bundle) as draft:
        for kind, runs in (("inputs", feeds), ("outputs", answers), ("reference", answers)):
            write.write_golden(draft, kind, runs)
        write.fill(draft, {"model.onnx": model}, deployment, {"ledger.json": []})
        write.publish(draft, bundle)
    return bundle


if __name__ == "__main__":
    main()
