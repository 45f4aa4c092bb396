"""`edgeopt simplify` beside onnxslim, and beside another optimizer's files: nodes, accuracy, who loads it, speed.

    python benchmarks/simplify_peers.py MODEL... --peers-python PATH                  onnxslim of that interpreter
    python benchmarks/simplify_peers.py MODEL... --olive FOLDER                       FOLDER/NAME.onnx, made before
    python benchmarks/simplify_peers.py MODEL... --peers-python PATH --contest 60     and the faster one

Samples are NAME.npz beside the model, or made up. A model counts as loading where a backend loads and runs it.
The contest is `edgeopt bench OURS --against PEER`: a figure above 1 says that ours is faster.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import onnx

from edgeopt.backends import backend_named
from edgeopt.backends.base import run_all
from edgeopt.data.read import load_data
from edgeopt.errors import EdgeoptError
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.graph.feeds import generate_feeds
from edgeopt.graph.model import load

BACKENDS = ("onnxruntime-cpu", "openvino-cpu")
EXACT: dict[str, dict[str, str]] = {"onnxruntime-cpu": {}, "openvino-cpu": {"precision": "f32"}}
"""Options that keep a backend from computing in fewer bits, which would hide what a rewrite changed."""
SAMPLES = 8
SLIM_TIMEOUT_S = 900
Feeds = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Result:
    """What an optimizer made of a model: a file, or why there is none."""

    name: str
    path: Path | None
    problem: str = ""


def main() -> int:
    """Prints a table for each model; returns 1 where ours fails what the source can."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--peers-python", type=Path, help="an interpreter that has onnxslim")
    parser.add_argument("--olive", type=Path, help="a folder with another optimizer's NAME.onnx")
    parser.add_argument("--contest", type=float, help="seconds for each contest of two files on one backend")
    parser.add_argument("--keep", type=Path, help="leave the files here")
    chosen = parser.parse_args()
    failed = False
    header = ("model", "by", "nodes", "bytes", *(f"SNR in {name}" for name in BACKENDS))
    columns = (*header, *(f"ours against it, {name}" for name in BACKENDS)) if chosen.contest else header
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))
    with tempfile.TemporaryDirectory() as temporary:
        for model in chosen.models:
            folder = (chosen.keep or Path(temporary)) / model.stem
            folder.mkdir(parents=True, exist_ok=True)
            failed |= not _compare(model, folder, chosen)
    return int(failed)


def _compare(model: Path, folder: Path, chosen: argparse.Namespace) -> bool:
    """The rows of one model; whether ours loads and agrees wherever the source runs."""
    results = [Result("source", model), _ours(model, folder)]
    if chosen.peers_python:
        results.append(_slim(model, folder, chosen.peers_python))
    if chosen.olive:
        path = chosen.olive / model.name
        results.append(Result("olive", path) if path.exists() else Result("olive", None, "no such file"))
    feeds, references = _feeds(model), {}
    good = True
    for result in results:
        if result.path is None:
            print(f"| {model.stem} | {result.name} | {result.problem} |" + " |" * (len(BACKENDS) + 1), flush=True)
            good &= result.name != "ours"
            continue
        row = [model.stem, result.name, str(_nodes(result.path)), f"{result.path.stat().st_size:,}"]
        for backend in BACKENDS:
            said, agrees = _accuracy(result.path, feeds, backend, references)
            row.append(said)
            good &= agrees or result.name != "ours"
        if chosen.contest and results[1].path:
            row += [_contest(results[1].path, result, backend, model, chosen.contest) for backend in BACKENDS]
        print("| " + " | ".join(row) + " |", flush=True)
    return good


def _ours(model: Path, folder: Path) -> Result:
    path = folder / "ours.onnx"
    command = [sys.executable, "-m", "edgeopt", "simplify", str(model), "-o", str(path), "--json"]
    data = model.with_suffix(".npz")
    done = subprocess.run(
        [*command, *(["--data", str(data)] if data.exists() else [])], capture_output=True, check=False
    )
    if done.returncode:
        return Result("ours", None, str(msgspec.json.decode(done.stdout.splitlines()[-1])["message"]))
    return Result("ours", path)


def _slim(model: Path, folder: Path, python: Path) -> Result:
    path = folder / "onnxslim.onnx"
    command = [str(python), "-m", "onnxslim", str(model), str(path)]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=SLIM_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return Result("onnxslim", None, f"not done after {SLIM_TIMEOUT_S} s")
    if done.returncode or not path.exists():
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["it wrote no file"]
        return Result("onnxslim", None, lines[-1])
    return Result("onnxslim", path)


def _feeds(model: Path) -> Feeds:
    """The first samples beside the model, or made-up ones."""
    loaded = load(model)
    weights = set(loaded.ir.graph.initializers)
    session = _first_session(model)
    inputs = tuple(info for info in session.inputs if info.name not in weights)
    session.close()
    data = model.with_suffix(".npz")
    if not data.exists():
        return list(generate_feeds(inputs, loaded.ir, SAMPLES // 2, seed=0))
    samples = load_data(data, inputs)
    return [samples.feeds(index) for index in range(min(len(samples), SAMPLES))]


def _first_session(model: Path) -> Any:  # noqa: ANN401 - a backend's session, whose inputs alone are used
    for name in BACKENDS:
        try:
            return backend_named(name).load(model, {})
        except EdgeoptError:
            continue
    raise SystemExit(f"No backend loads '{model}'.")


def _accuracy(path: Path, feeds: Feeds, backend: str, references: dict[str, Any]) -> tuple[str, bool]:
    """Against the source's outputs in the same backend; the first that is asked about is the source."""
    try:
        outputs = run_all(path, feeds, backend_named(backend), EXACT[backend])
    except EdgeoptError as error:
        return f"does not run: {error.message}"[:60], references.setdefault(backend, None) is None
    reference = references.setdefault(backend, outputs)
    if reference is None:
        return "runs, and the source does not", True
    found = compare_outputs(reference, outputs)
    if found.problem:
        return found.problem, False
    return ("equal" if found.snr_db >= 200 else f"{found.snr_db:.1f} dB"), found.snr_db >= 80


def _nodes(path: Path) -> int:
    def count(graph: Any) -> int:  # noqa: ANN401 - protobuf classes carry no types
        inner = [
            g
            for node in graph.node
            for a in node.attribute
            for g in (*a.graphs, *([a.g] if a.HasField("g") else []))
        ]
        return len(graph.node) + sum(map(count, inner))

    model = onnx.load(path, load_external_data=False)
    return count(model.graph) + sum(len(function.node) for function in model.functions)


def _contest(ours: Path, other: Result, backend: str, model: Path, seconds: float) -> str:
    """How many times faster ours is, with its interval; empty for ours itself."""
    if other.path is None or other.path == ours:
        return ""
    data = model.with_suffix(".npz")
    command: Sequence[str] = (
        *(sys.executable, "-m", "edgeopt", "bench", str(ours), "--against", f"{other.path}@{backend}"),
        *("--backend", backend, "--time-limit", str(seconds), "--json"),
        *(("--data", str(data)) if data.exists() else ()),
    )
    done = subprocess.run(command, capture_output=True, check=False)
    last = msgspec.json.decode(done.stdout.splitlines()[-1])
    if last["event"] != "result":
        return str(last["message"])
    found = last["data"]["comparisons"][0]
    speedup = found["speedup"]
    high = "" if speedup["high"] is None else f"{speedup['high']:.3f}"
    return f"{speedup['median']:.3f} [{speedup['low']:.3f}, {high}] {found['verdict']}"


if __name__ == "__main__":
    sys.exit(main())
