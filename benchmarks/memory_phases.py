"""Memory by phase: what a trial says, beside the differences that `/usr/bin/time -v` shows of plain programs.

python benchmarks/memory_phases.py MODEL [--data MODEL.npz] [--rounds 5] [--backend onnxruntime-cpu openvino-cpu]

Each program does one step more than the one before: start with the samples (and with edgeopt's modules, so that
what both need is counted to the same step), import the runtime, load the model, run it once; by the runtime's own
calls. The difference of their highest resident memory is what the step added. Needs the Debian package `time`.
"""

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from edgeopt.data.read import load_data
from edgeopt.data.samples import save_samples
from edgeopt.measure.contender import ask
from edgeopt.measure.messages import Describe, Described, Load, Loaded, Memory, Time, Timed
from edgeopt.workers.host import LocalHost

MIB = 2**20
# Differences are of the highest so far, so a step that stays below an earlier one adds nothing.
STEPS = ("start", "import", "load", "first run")
START = """
import sys
import numpy as np
import edgeopt.measure.trial

model, folder, threads = sys.argv[1:]
names = [line.split(" ", 1)[1] for line in open(folder + "/names").read().split("\\n")]
files = {n: np.load(f"{folder}/{k}.npy", mmap_mode="r") for k, n in enumerate(names)}
count = len(next(iter(files.values())))
rows = [{n: np.array(a[k]) for n, a in files.items()} for k in range(min(16, count))]
"""
PROGRAMS = {
    "onnxruntime-cpu": (
        "import onnxruntime\n",
        """
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = int(threads)
session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
""",
        """
ranks = {i.name: len(i.shape) for i in session.get_inputs()}
session.run(None, {n: a.reshape((1,) * (ranks[n] - a.ndim) + a.shape) for n, a in rows[0].items()})
""",
    ),
    "openvino-cpu": (
        "import openvino\n",
        """
core = openvino.Core()
read = core.read_model(model)
compiled = core.compile_model(read, "CPU", {"INFERENCE_NUM_THREADS": int(threads)})
""",
        """
ranks = {p.any_name: p.partial_shape.rank.get_length() for p in compiled.inputs}
request = compiled.create_infer_request()
request.infer({n: a.reshape((1,) * (ranks[n] - a.ndim) + a.shape) for n, a in rows[0].items()})
""",
    ),
}


def main() -> None:
    """Prints a table for each backend."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--backend", nargs="+", choices=list(PROGRAMS), default=list(PROGRAMS))
    given = parser.parse_args()
    model: Path = given.model.absolute()
    for backend in given.backend:
        with tempfile.TemporaryDirectory() as folder:
            host, samples = LocalHost(Path(folder)), Path(folder) / "samples"
            _save(host, backend, model, given.data or model.with_suffix(".npz"), samples)
            seen, told = [], []
            for _ in range(given.rounds):
                seen.append(_seen(backend, model, samples, given.threads))
                told.append(_told(host, Load(backend, str(model), {"threads": given.threads}, str(samples))))
        print(f"\n{model.name}, {backend}, {given.threads} thread(s), medians of {given.rounds}, MiB")
        _print(seen, told)


def _save(host: LocalHost, backend: str, model: Path, data: Path, samples: Path) -> None:
    with closing(host.start()) as child:
        described = ask(child, Describe(backend, str(model)))
    assert isinstance(described, Described), described  # noqa: S101 - a script: its error is the answer
    save_samples(load_data(data, described.inputs), samples)


def _seen(backend: str, model: Path, samples: Path, threads: int) -> list[int]:
    """The highest resident memory of each program."""
    parts = (START, *PROGRAMS[backend])
    found = []
    for steps in range(1, len(parts) + 1):
        # Without what Python tidies up at its end, which no trial has done either.
        program = "".join(parts[:steps]) + "import os\nos._exit(0)\n"
        done = subprocess.run(
            ["/usr/bin/time", "-v", sys.executable, "-c", program, str(model), str(samples), str(threads)],
            capture_output=True,
            text=True,
            check=True,
        )
        match = re.search(r"Maximum resident set size \(kbytes\): (\d+)", done.stderr)
        assert match, done.stderr  # noqa: S101 - as above
        found.append(int(match[1]) * 1024)
    return found


def _told(host: LocalHost, load: Load) -> Memory:
    with closing(host.start()) as child:
        loaded = ask(child, load)
        assert isinstance(loaded, Loaded), loaded  # noqa: S101 - as above
        timed = ask(child, Time(500.0))
        assert isinstance(timed, Timed), timed  # noqa: S101 - as above
    return timed.memory


def _print(seen: list[list[int]], told: list[Memory]) -> None:
    outside = [statistics.median(column) / MIB for column in zip(*seen, strict=True)]
    names = ("start_bytes", "import_peak_bytes", "load_peak_bytes", "first_run_peak_bytes")
    inside = [statistics.median(getattr(memory, name) for memory in told) / MIB for name in names]
    print(
        f"{'highest by the end of':24s}{'time -v':>10s}{'trial':>10s}{'+ time -v':>12s}{'+ trial':>10s}{'off':>9s}"
    )
    for k, step in enumerate(STEPS):
        line = f"{step:24s}{outside[k]:10.1f}{inside[k]:10.1f}"
        if k:
            line += _added(outside[k] - outside[k - 1], inside[k] - inside[k - 1])
        print(line)
    print(f"{'the model in all':24s}{'':20s}{_added(outside[3] - outside[1], inside[3] - inside[1])}")
    kept = {name: statistics.median(function(memory) for memory in told) / MIB for name, function in NET.items()}
    print("; ".join(f"{name} {size:.1f}" for name, size in kept.items()))


def _added(outside: float, inside: float) -> str:
    off = f"{inside / outside - 1:+8.1%}" if outside > 1 else "       -"
    return f"{outside:12.1f}{inside:10.1f} {off}"


NET = {
    "resident while it runs, net of the runtime": lambda memory: memory.steady_bytes - memory.import_bytes,
    "highest, net of the runtime": lambda memory: memory.peak_bytes - memory.import_bytes,
}


if __name__ == "__main__":
    main()
