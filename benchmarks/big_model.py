"""How much memory `edgeopt analyze` and `edgeopt simplify` need for a model of gigabytes.

    python benchmarks/big_model.py [--gigabytes 2.5] [--folder DIR]

Makes a stack of matrix products whose weights lie in one file, in which all but their first rows are holes, runs
both commands on it as child processes, and prints peak memory (what the kernel counts, mapped files included) over
the model's size. The folder needs room for two copies, and is emptied at the end.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

SIZE = 4096
LIMIT = 1.5


def make(path: Path, gigabytes: float) -> int:
    """Writes the model; gives its bytes. No two weights are alike, and none is empty, so that all must stay."""
    weight_bytes = SIZE * SIZE * 4
    count = round(gigabytes * 1e9 / weight_bytes)
    random = np.random.default_rng(0)
    nodes, weights = [], []
    with path.with_suffix(".data").open("wb") as file:
        file.truncate(count * weight_bytes)
        for number in range(count):
            file.seek(number * weight_bytes)
            # One row carries every number on, at about the same size.
            row = random.standard_normal((1, SIZE)).astype(np.float32) / np.sqrt(number + 1)
            file.write(row.tobytes())
            weight = TensorProto(name=f"w{number}", data_type=1, dims=[SIZE, SIZE], data_location=1)
            for key, value in (
                ("location", path.with_suffix(".data").name),
                ("offset", number * weight_bytes),
                ("length", weight_bytes),
            ):
                weight.external_data.add(key=key, value=str(value))
            weights.append(weight)
            source = "x" if number == 0 else f"h{number - 1}"
            nodes.append(helper.make_node("MatMul", [source, f"w{number}"], [f"h{number}"], name=f"mm{number}"))
    nodes.append(helper.make_node("Identity", [f"h{count - 1}"], ["y"], name="last"))
    values = [helper.make_tensor_value_info(name, 1, ["batch", SIZE]) for name in "xy"]
    graph = helper.make_graph(nodes, "stack", values[:1], values[1:], weights)
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    path.write_bytes(model.SerializeToString())
    return count * weight_bytes + path.stat().st_size


def measure(arguments: list[str]) -> tuple[float, int, int]:
    """Seconds, peak bytes and exit code of one command; a child of a child keeps the peaks apart."""
    command = [sys.executable, __file__, "--child", *arguments]
    start = time.perf_counter()
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    seconds = time.perf_counter() - start
    lines = done.stdout.strip().splitlines()
    return seconds, int(lines[-1]) if lines else 0, done.returncode


def child(arguments: list[str]) -> int:
    done = subprocess.run([sys.executable, "-m", "edgeopt", *arguments], check=False, stdout=subprocess.DEVNULL)
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
    return done.returncode


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        return child(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=2.5)
    parser.add_argument("--folder", type=Path, help="where the model goes meanwhile (default: a temporary one)")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="edgeopt-big-", dir=given.folder))
    try:
        model = folder / "big.onnx"
        size = make(model, given.gigabytes)
        free = shutil.disk_usage(folder).free
        if free < 2.2 * size:
            print(f"{free:,} bytes are free in {folder}; {2.2 * size:,.0f} are needed.", file=sys.stderr)
            return 1
        os.environ["TMPDIR"] = str(folder)  # proofs write their files there
        print(f"the model: {size:,} bytes")
        print("| command | peak memory / size | seconds | exit code |\n|---|---|---|---|")
        worst = 0.0
        for arguments in (
            ["analyze", str(model), "--json"],
            ["simplify", str(model), "-o", str(folder / "out.onnx"), "--json"],
        ):
            seconds, peak, code = measure(arguments)
            worst = max(worst, peak / size, LIMIT + 1 if code else 0)
            print(f"| {arguments[0]} | {peak / size:.2f} | {seconds:.1f} | {code} |", flush=True)
    finally:
        shutil.rmtree(folder)
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
