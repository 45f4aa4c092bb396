"""What sessions of `edgeopt.load` cost and give in a server: isolation, pools, models under a memory budget.

python benchmarks/serving.py [isolate] [pool] [models] [--cycles 300]

isolate: what a worker process adds to a run with 0.5 MB of inputs and 0.5 MB of outputs, in turns with the same
model in this process; the aim is at most 150 us. And how long after a crash the next request is answered.
pool:    how a pool with the strategy `cost` splits requests over three members that take 10, 20 and 40 ms, beside
the ideal split.
models:  memory of this process and of its workers while models are loaded and unloaded; the aim is that it stays
within 3 %.
"""

import argparse
import json
import os
import signal
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil

import edgeopt
from edgeopt.bundle.runtime.session import Session
from edgeopt.errors import WorkerError

PARTS = ("isolate", "pool", "models")
LATENCIES_MS = (10.0, 20.0, 40.0)


def main() -> None:
    """Prints what each part measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all by default")
    parser.add_argument("--cycles", type=int, default=300, help="loads and unloads of the part models")
    parser.add_argument("--rounds", type=int, default=60, help="rounds of the part isolate")
    arguments = parser.parse_args()
    chosen = arguments.parts or PARTS
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "isolate" in chosen:
            isolate(folder, arguments.rounds)
        if "pool" in chosen:
            pool(folder)
        if "models" in chosen:
            models(folder, arguments.cycles)


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
