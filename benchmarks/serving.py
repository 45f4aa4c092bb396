"""What sessions of `edgeopt.load` cost and give in a server: isolation, pools, models under a memory budget.

python benchmarks/serving.py [isolate] [pool] [spread] [models] [batching] [loudness] [requests]
    [--cycles N] [--requests N]

isolate: what a worker process adds to a run with 0.5 MB of inputs and 0.5 MB of outputs, interleaved with the same
model in this process; the aim is at most 150 us. And how long after a crash the next request is answered.
pool:    how a pool with the strategy `cost` splits requests over three members that take 10, 20 and 40 ms, beside
the ideal split.
spread:  requests a second of one worker per core (`edgeopt.Pool.spread`) against one with all cores, interleaved,
eight requests at a time.
models:  memory of this process and of its workers while models are loaded and unloaded; the aim is that it stays
within 3 %.
batching: what batches gain for 8 coroutines that each wait for their answer, beside the gain of the runtime's own
batch of 8 over single calls; the aim is 80 % of it.
loudness: the answer of a batch that is furthest from its single run, of 20,000 calls that differ by up to 72 dB.
requests: whether any of 200,000 requests of 8 coroutines is lost or mixed up while some are cancelled, and whether
memory holds within 2 %.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil

import edgeopt
from edgeopt.bundle.runtime.session import Session
from edgeopt.data.demo import DATA, MODEL
from edgeopt.errors import WorkerError
from edgeopt.graph.accuracy import signal_to_noise_db

PARTS = ("isolate", "pool", "spread", "models", "batching", "loudness", "requests")
CLIENTS = 8
LATENCIES_MS = (10.0, 20.0, 40.0)


def main() -> None:
    """Prints what each part measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all by default")
    parser.add_argument("--cycles", type=int, default=300, help="loads and unloads of the part models")
    parser.add_argument("--rounds", type=int, default=60, help="rounds of the part isolate")
    parser.add_argument("--requests", type=int, default=200_000, help="requests of the part requests")
    arguments = parser.parse_args()
    chosen = arguments.parts or PARTS
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "isolate" in chosen:
            isolate(folder, arguments.rounds)
        if "pool" in chosen:
            pool(folder)
        if "spread" in chosen:
            spread()
        if "models" in chosen:
            models(folder, arguments.cycles)
        if "batching" in chosen:
            for backend in ("onnxruntime-cpu", "openvino-cpu"):
                batching(backend)
        if "loudness" in chosen:
            loudness()
        if "requests" in chosen:
            requests(folder, arguments.requests)


def isolate(folder: Path, rounds: int) -> None:
    """The model adds one to 131,072 numbers, so that the run itself takes little."""
    model = add_model(folder / "add.onnx", 131_072)
    feeds = {"x": np.ones((1, 131_072), np.float32)}
    options = {"threads": 1}
    with (
        edgeopt.load(model, "onnxruntime-cpu", options) as plain,
        edgeopt.load(model, "onnxruntime-cpu", options, isolate=True) as isolated,
    ):
        differences = []
        for _ in range(50):
            plain.run(feeds)
            isolated.run(feeds)
        for turn in range(rounds):
            taken = {}
            for session in (plain, isolated) if turn % 2 else (isolated, plain):
                begin = time.perf_counter()
                for _ in range(50):
                    session.run(feeds)
                taken[session] = (time.perf_counter() - begin) / 50 * 1e6
            differences.append((taken[isolated] - taken[plain], taken[plain]))
        adds, alone = np.array(differences).T
        low, high = np.quantile(adds, (0.1, 0.9))
        print(
            f"isolate: {np.median(alone):.0f} us in this process; a worker adds {np.median(adds):.0f} us "
            f"(80 % of rounds: {low:.0f} to {high:.0f})"
        )
        again = [back_after_crash(isolated, feeds) for _ in range(5)]
        print(f"isolate: answered again {np.median(again):.2f} s after a crash (at most {max(again):.2f} s of 5)")


def back_after_crash(session: Session, feeds: dict[str, np.ndarray]) -> float:
    """Seconds from the end of the worker to the next answer."""
    worker = next(p for p in psutil.Process().children() if "isolated.worker" in " ".join(p.cmdline()))
    worker.send_signal(signal.SIGSEGV)
    begin = time.perf_counter()
    try:
        session.run(feeds)
    except WorkerError:
        session.run(feeds)
    return time.perf_counter() - begin


def pool(folder: Path) -> None:
    """Null models, which take exactly what is planted where a core is free."""
    path = folder / "m.null.json"
    port = {"dtype": "float32", "shape": ["batch", 8]}
    path.write_text(json.dumps({"inputs": [{"name": "x", **port}], "outputs": [{"name": "y", **port}]}))
    count = 700
    ideal = [count / each / sum(1 / other for other in LATENCIES_MS) for each in LATENCIES_MS]
    for strategy in ("cost", "least-loaded", "round-robin"):
        sessions = {f"{each:g} ms": edgeopt.load(path, options={"latency_ms": each}) for each in LATENCIES_MS}
        with edgeopt.Pool(sessions, strategy=strategy, queue_size=count) as members:
            begin = time.perf_counter()
            for future in [members.submit({"x": np.zeros((1, 8), np.float32)}) for _ in range(count)]:
                future.result()
            taken = time.perf_counter() - begin
            found = members.statistics().members
        split = ", ".join(f"{name} {each.requests}" for name, each in found.items())
        print(
            f"pool: {strategy}: {split} (ideal {', '.join(f'{each:.0f}' for each in ideal)}); "
            f"{count / taken:.0f} requests/s of {sum(1e3 / each for each in LATENCIES_MS):.0f} possible"
        )


def spread(rounds: int = 7, slice_s: float = 0.5) -> None:
    cores = psutil.cpu_count(logical=False) or 1
    image = np.load(DATA)["image"][0]
    rates: dict[int, list[float]] = {1: [], cores: []}
    with edgeopt.Pool.spread(MODEL, parts=1) as whole, edgeopt.Pool.spread(MODEL, parts=cores) as divided:
        for _ in range(rounds):
            for parts, pool in ((1, whole), (cores, divided)):
                done, begin = 0, time.perf_counter()
                while time.perf_counter() - begin < slice_s:
                    for future in [pool.submit(image) for _ in range(CLIENTS)]:
                        future.result()
                    done += CLIENTS
                rates[parts].append(done / (time.perf_counter() - begin))
    one, many = (float(np.median(rates[parts])) for parts in (1, cores))
    print(f"spread: {one:.0f} requests/s with one worker, {many:.0f} with {cores} ({many / one:.2f}x)")


def models(folder: Path, cycles: int) -> None:
    """Two models take turns in room for one, so that each request ends a worker and starts one."""
    paths = {name: add_model(folder / f"{name}.onnx", 1024) for name in "ab"}
    feeds = {"x": np.ones((1, 1024), np.float32)}
    with edgeopt.load(paths["a"], isolate=True) as session:
        session.run(feeds)
        one_bytes = session.memory_bytes or 0
    mine, theirs = [], []
    own = psutil.Process()
    begin = time.perf_counter()
    with edgeopt.Models(paths, budget_bytes=int(1.6 * one_bytes)) as served:
        for cycle in range(cycles):
            served.run("ab"[cycle % 2], feeds)
            mine.append(own.memory_info().rss)
            theirs.append(served.statistics().memory_bytes)
        loads = sum(each.loads for each in served.statistics().models.values())
        budget_bytes = served.statistics().budget_bytes
    taken = time.perf_counter() - begin
    start, end = np.mean(mine[10:30]), np.mean(mine[-20:])
    print(
        f"models: {loads} loads, {taken / loads:.2f} s each; this process {start / 2**20:.1f} MiB at first and "
        f"{end / 2**20:.1f} MiB at the end ({(end / start - 1) * 100:+.1f} %); workers at most "
        f"{max(theirs) / 2**20:.1f} MiB ({(max(theirs) / np.median(theirs) - 1) * 100:+.1f} % of the median) of a "
        f"budget of {budget_bytes / 2**20:.0f} MiB; {len(own.children())} processes left"
    )


def batching(backend: str, rounds: int = 7, slice_s: float = 0.5) -> None:
    """Interleaved rounds: the runtime with 1 and with 8 samples, then 8 coroutines without and with batches."""
    wanted = edgeopt.Batching(max_size=CLIENTS, max_delay_us=2000)
    with (
        edgeopt.load(MODEL, backend) as plain,
        edgeopt.load(MODEL, backend, batching=wanted) as batched,
    ):
        name = plain.inputs[0].name
        one = {name: np.load(DATA)[name][0]}
        eight = {name: np.concatenate([one[name]] * CLIENTS)}
        gains = []
        for _ in range(rounds):
            single_s, batch_s = (_seconds(plain, feeds, slice_s) for feeds in (one, eight))
            alone, _ = asyncio.run(_served(plain, one, slice_s))
            together, latencies_s = asyncio.run(_served(batched, one, slice_s))
            p99_s = float(np.quantile(latencies_s, 0.99))
            limit_s = wanted.max_delay_us / 1e6 + 3 * batch_s
            gains.append((CLIENTS * single_s / batch_s, together / alone, together * single_s, p99_s / limit_s))
        runtime, served, of_single, tail = np.median(np.array(gains), axis=0)
        print(
            f"batching: {backend}: the runtime's batch of {CLIENTS} gains {runtime:.2f}x over single calls; "
            f"{CLIENTS} clients gain {served:.2f}x over the same without batches, and {of_single:.2f}x over one "
            f"caller of run(); p99 is {tail:.2f} of the limit (delay and three computes). "
            + (batched.batch_trial.reason if batched.batch_trial else "")
        )


def _seconds(session: Session, feeds: dict[str, np.ndarray], slice_s: float) -> float:
    """Median of a run."""
    taken = []
    end = time.perf_counter() + slice_s
    while time.perf_counter() < end:
        begin = time.perf_counter()
        session.run(feeds)
        taken.append(time.perf_counter() - begin)
    return float(np.median(taken))


async def _served(session: Session, feeds: dict[str, np.ndarray], slice_s: float) -> tuple[float, list[float]]:
    """Requests a second of clients that each wait for their answer, and their latencies."""
    latencies_s: list[float] = []
    begin = time.perf_counter()

    async def client() -> None:
        while (start := time.perf_counter()) < begin + slice_s:
            await session.run_async(feeds)
            latencies_s.append(time.perf_counter() - start)

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return len(latencies_s) / (time.perf_counter() - begin), latencies_s


def loudness(calls: int = 20_000) -> None:
    """Calls of a model in the corpus of the tests, each scaled by a random power of two."""
    chance = np.random.default_rng(0)
    wanted = edgeopt.Batching(max_size=CLIENTS, max_delay_us=500)
    with edgeopt.load(MODEL) as plain, edgeopt.load(MODEL, batching=wanted) as batched:
        name = plain.inputs[0].name
        images = np.load(DATA)[name]
        worst, left = np.inf, iter(range(calls))

        async def client() -> None:
            nonlocal worst
            for number in left:
                scale = 2.0 ** chance.integers(-6, 7)
                feeds = {name: (images[number % len(images)] * scale).astype(np.float32)}
                given, right = await batched.run_async(feeds), plain.run(feeds)
                worst = min(worst, *(signal_to_noise_db(right[each], given[each]) for each in right))

        async def serve() -> None:
            await asyncio.gather(*(client() for _ in range(CLIENTS)))

        asyncio.run(serve())
        trial = batched.batch_trial
        used = "batched" if trial is not None and trial.used else "not batched"
        print(f"loudness: {calls} calls, {used}: the worst answer is within {worst:.1f} dB of its single run")


def requests(folder: Path, count: int) -> None:
    """Each request has its own number, so that an answer shows whose it is; 2 % are cancelled."""
    model = add_model(folder / "count.onnx", 16)
    found = {"answered": 0, "cancelled": 0, "wrong": 0}
    numbers = iter(range(count))
    own = psutil.Process()
    resident: list[int] = []
    chance = random.Random(0)  # noqa: S311 - only which requests are cancelled

    async def client(session: Session) -> None:
        for number in numbers:
            task = asyncio.ensure_future(session.run_async({"x": np.full((1, 16), number, np.float32)}))
            if chance.random() < 0.02:
                await asyncio.sleep(chance.random() * 0.002)
                task.cancel()
            try:
                answer = (await task)["y"]
            except asyncio.CancelledError:
                found["cancelled"] += 1
            else:
                found["answered" if (answer == number + 1).all() else "wrong"] += 1
            if number % (count // 100) == 0:
                resident.append(own.memory_info().rss)

    async def serve() -> None:
        wanted = edgeopt.Batching(max_size=CLIENTS, max_delay_us=200)
        with edgeopt.load(model, batching=wanted) as session:
            await asyncio.gather(*(client(session) for _ in range(CLIENTS)))

    begin = time.perf_counter()
    asyncio.run(serve())
    start, end = np.mean(resident[10:20]), np.mean(resident[-10:])
    print(
        f"requests: {count} in {time.perf_counter() - begin:.0f} s: {found}, lost {count - sum(found.values())}; "
        f"memory {start / 2**20:.1f} MiB after a tenth, {end / 2**20:.1f} MiB at the end "
        f"({(end / start - 1) * 100:+.1f} %)"
    )


def add_model(path: Path, size: int) -> Path:
    """y = x + 1."""
    import onnx
    from onnx import helper, numpy_helper

    ports = [helper.make_tensor_value_info(name, 1, ["n", size]) for name in "xy"]
    one = numpy_helper.from_array(np.ones(1, np.float32), "one")
    node = helper.make_node("Add", ["x", "one"], ["y"])
    graph = helper.make_graph([node], "add", ports[:1], ports[1:], [one])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


if __name__ == "__main__":
    main()
