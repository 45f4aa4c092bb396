"""Peak memory of bundles beside that of the runtimes with their own options, each in a process of its own.

    python benchmarks/memory_peers.py FOLDER [NAME ...] [--floor 30dB] [--rounds 3]

FOLDER holds NAME.onnx with NAME.npz beside it. For each model, one search makes a bundle with the default
objective, and one with `--objective memory`. Every program imports its runtime, loads the model and runs 20
samples on two threads; the figure is the peak resident memory that this adds to the interpreter with the samples,
which are read one by one. Medians of the rounds, in MiB. Peaks do not depend on the load of the machine; no time
is given.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
import numpy as np

from edgeopt.pipeline.outcome import Outcome

BEGIN = """
import json, re, sys
from pathlib import Path
import numpy as np
path, folder, options = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
files = sorted(folder.glob("*.npy"))
names = [file.stem.split(".", 1)[1] for file in files]
mapped = [np.load(file, mmap_mode="r") for file in files]
def sample(number, ranks):
    rows = {name: np.array(array[number]) for name, array in zip(names, mapped)}
    return {name: row if row.ndim == ranks[name] else row[None] for name, row in rows.items() if name in ranks}
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
sample(0, {name: -1 for name in names})
before = peak()
"""
END = """
for number in range(20):
    run(sample(number % len(mapped[0]), ranks))
print(peak() - before)
"""
ORT = """
import onnxruntime
made = onnxruntime.SessionOptions()
made.intra_op_num_threads = 2
made.enable_cpu_mem_arena = options.get("arena", True)
made.enable_mem_pattern = options.get("pattern", True)
for key, value in options.get("entries", {}).items():
    made.add_session_config_entry(key, value)
session = onnxruntime.InferenceSession(path, made, providers=["CPUExecutionProvider"])
ranks = {each.name: len(each.shape) for each in session.get_inputs()}
run = lambda feeds: session.run(None, feeds)
"""
OPENVINO = """
import openvino
core = openvino.Core()
if "core" in options:
    core.set_property(options["core"])
made = core.compile_model(path, "CPU", {"INFERENCE_NUM_THREADS": 2, **options.get("compile", {})})
ranks = {port.any_name: port.partial_shape.rank.get_length() for port in made.inputs}
request = made.create_infer_request()
run = lambda feeds: request.infer(feeds)
"""
EDGEOPT = """
import edgeopt
session = edgeopt.load(path)
ranks = {each.name: len(each.shape) for each in session.inputs}
run = session.run
"""
PREPACKING = {"session.disable_prepacking": "1"}
PEERS = (
    ("ONNX Runtime", ORT, {}),
    ("ONNX Runtime, no arena", ORT, {"arena": False, "pattern": False}),
    ("ONNX Runtime, no arena, no prepacking", ORT, {"arena": False, "pattern": False, "entries": PREPACKING}),
    ("OpenVINO", OPENVINO, {}),
    ("OpenVINO f32", OPENVINO, {"compile": {"INFERENCE_PRECISION_HINT": "f32"}}),
    ("OpenVINO, cached (optimize size)", OPENVINO, {"core": {"CACHE_MODE": "OPTIMIZE_SIZE"}}),
)


def main() -> None:
    """Prints one Markdown row per model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--floor", default="30dB")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    titles = [name for name, _, _ in PEERS] + ["edgeopt", "edgeopt, memory"]
    print(f"| model | {' | '.join(titles)} | winners |")
    print("|---" * (len(titles) + 2) + "|")
    for model in sorted(chosen.folder.glob("*.onnx")):
        if model.with_suffix(".npz").exists() and (not chosen.names or model.stem in chosen.names):
            with tempfile.TemporaryDirectory(prefix="edgeopt-memory-") as folder:
                print(_row(model, Path(folder), chosen.floor, chosen.rounds), flush=True)


def _row(model: Path, folder: Path, floor: str, rounds: int) -> str:
    samples = folder / "samples"
    samples.mkdir()
    with np.load(model.with_suffix(".npz")) as archive:
        for number, (name, array) in enumerate(archive.items()):
            np.save(samples / f"{number:02}.{name}.npy", array[:20])
    found, winners = [], []
    for _, program, own in PEERS:
        options = own
        if "core" in own:
            options = {"core": {**own["core"], "CACHE_DIR": str(folder / "cache")}}
            _peak_mib(program, model, samples, options)  # fills the cache
        found.append(_median(program, model, samples, options, rounds))
    for objective in ("latency", "memory"):
        bundle = folder / f"{objective}.edgeopt"
        data, out = str(model.with_suffix(".npz")), str(bundle)
        command = ("optimize", str(model), "--data", data, "--floor", floor, "--objective", objective, "-o", out)
        done = subprocess.run(
            [sys.executable, "-m", "edgeopt", *command, "--fresh", "--json"], capture_output=True, check=False
        )
        last = msgspec.json.decode(done.stdout.splitlines()[-1])
        is_done = done.returncode == 0
        winners.append(msgspec.convert(last["data"], Outcome).winner.name if is_done else last["message"])
        found.append(_median(EDGEOPT, bundle, samples, {}, rounds) if is_done else None)
    figures = " | ".join("fails" if each is None else f"{each:.0f}" for each in found)
    return f"| {model.stem} | {figures} | {'; '.join(winners)} |"


def _median(program: str, path: Path, samples: Path, options: object, rounds: int) -> float | None:
    peaks = [_peak_mib(program, path, samples, options) for _ in range(rounds)]
    known = [each for each in peaks if each is not None]
    return statistics.median(known) if known else None


def _peak_mib(program: str, path: Path, samples: Path, options: object) -> float | None:
    command = [sys.executable, "-c", BEGIN + program + END, str(path), str(samples), json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(done.stdout.splitlines()[-1]) / 1024 if done.returncode == 0 else None


if __name__ == "__main__":
    main()
