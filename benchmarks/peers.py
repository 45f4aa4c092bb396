"""A bundle against what every installed peer makes of the same model, in fresh processes and interleaved.

    .venv/bin/python benchmarks/peers.py MODEL.onnx DATA.npz [--bundle BUNDLE] [--floor 30]

Peers: plain ONNX Runtime, OpenVINO (f32, and bf16 where the CPU has it), NNCF (int8, int8 for transformers,
weights), ONNX Runtime's quantization (static, dynamic), onnxslim and Olive where they are installed. The last 16
samples judge the accuracy, and nothing else sees them. Nothing else may run on the machine.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from edgeopt.backends import backend_named
from edgeopt.backends.base import Feeds
from edgeopt.bundle.runtime.session import load
from edgeopt.data.read import load_data
from edgeopt.data.samples import Samples
from edgeopt.errors import EdgeoptError
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.graph.model import load as load_model
from edgeopt.pipeline.builders.inspect import describe
from edgeopt.quant import libraries

JUDGES = 16
MAX_TO_CALIBRATE = 100
EDGEOPT = (sys.executable, "-m", "edgeopt")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--bundle", type=Path, help="default: one is searched for, on all samples but the judges")
    parser.add_argument("--floor", type=float, default=30.0, help="in dB; who is below it is not fair")
    given = parser.parse_args()
    samples = load_data(given.data, describe(load_model(given.model)).inputs)
    if len(samples) < 2 * JUDGES:
        parser.error(f"{given.data} holds {len(samples)} samples; at least {2 * JUDGES} are needed.")
    with tempfile.TemporaryDirectory(prefix="edgeopt-peers-") as folder:
        place = Path(folder)
        seen = samples[range(len(samples) - JUDGES)]
        np.savez(place / "seen.npz", **seen.arrays)
        bundle = given.bundle or searched(given.model, place, given.floor)
        peers = dict(made(given.model, place, seen))
        report(bundle, peers, samples, place / "seen.npz", given.floor)


def searched(model: Path, place: Path, floor_db: float) -> Path:
    out = place / "out.edgeopt"
    command = (*EDGEOPT, "optimize", str(model), "--data", str(place / "seen.npz"), "-o", str(out), "--fresh")
    subprocess.run([*command, "--floor", f"{floor_db:g}"], check=True, stdout=subprocess.DEVNULL)
    return out


def made(model: Path, place: Path, seen: Samples) -> Iterator[tuple[str, str]]:
    """The name of each peer, and the side that `edgeopt bench` takes for it; what fails is said and left out."""
    yield "onnxruntime", f"{model}@onnxruntime-cpu"
    yield "openvino f32", f"{model}@openvino-cpu,precision=f32"
    yield "openvino bf16", f"{model}@openvino-cpu,precision=bf16"
    # As the recommended steps of each say: half of the data calibrates, and never more than a hundred samples.
    count = min(len(seen) // 2, MAX_TO_CALIBRATE)
    feeds: list[Feeds] = [seen.feeds(number) for number in range(count)]
    ways: dict[str, tuple[str, str, Callable[[Path], object]]] = {
        "nncf int8": (
            "xml",
            "openvino-cpu",
            lambda out: libraries.quantize_by_nncf(model, out, feeds, transformer=False, full_ranges=False),
        ),
        "nncf transformer": (
            "xml",
            "openvino-cpu",
            lambda out: libraries.quantize_by_nncf(model, out, feeds, transformer=True, full_ranges=False),
        ),
        "nncf weights": ("xml", "openvino-cpu", lambda out: libraries.compress_weights(model, out)),
        "ort static": (
            "onnx",
            "onnxruntime-cpu",
            lambda out: libraries.quantize_by_onnxruntime(model, out, feeds, reduce_range=False),
        ),
        "ort dynamic": (
            "onnx",
            "onnxruntime-cpu",
            lambda out: libraries.quantize_dynamic(model, out, reduce_range=False),
        ),
    }
    if shutil.which("onnxslim"):
        ways["onnxslim"] = ("onnx", "onnxruntime-cpu", partial(called, "onnxslim", str(model)))
    if shutil.which("olive"):
        ways["olive"] = ("onnx", "onnxruntime-cpu", partial(by_olive, model))
    for name, (suffix, backend, make) in ways.items():
        out = place / name.replace(" ", "-") / f"model.{suffix}"
        out.parent.mkdir()
        try:
            make(out)
        except (EdgeoptError, OSError, subprocess.SubprocessError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        yield name, f"{out}@{backend}"


def called(program: str, model: str, out: Path) -> None:
    subprocess.run([program, model, str(out)], check=True, capture_output=True)


def by_olive(model: Path, out: Path) -> None:
    options = ("--device", "cpu", "--provider", "CPUExecutionProvider", "--precision", "fp32")
    command = ("olive", "optimize", "-m", str(model), *options, "-o", str(out.parent / "olive"))
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    shutil.copy(out.parent / "olive" / "model.onnx", out)


def report(bundle: Path, peers: dict[str, str], samples: Samples, seen: Path, floor_db: float) -> None:
    """One line a contender, the fastest first: its speed against plain ONNX Runtime, and its accuracy."""
    against = [part for side in peers.values() for part in ("--against", side)]
    done = subprocess.run(
        [*EDGEOPT, "bench", str(bundle), *against, "--data", str(seen), "--json", "--time-limit", "60"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])["data"]["comparisons"]
    over = {name: row["speedup"] for name, row in zip(peers, found, strict=True)}
    speeds = {"edgeopt": over["onnxruntime"]["median"]}
    speeds |= {name: speeds["edgeopt"] / row["median"] for name, row in over.items()}
    judges = [samples.feeds(number) for number in range(len(samples) - JUDGES, len(samples))]
    reference = answers(peers["onnxruntime"], judges)
    accuracy_db = {
        name: compare_outputs(reference, answers(side, judges)).snr_db
        for name, side in {"edgeopt": str(bundle), **peers}.items()
    }
    for name in sorted(speeds, key=lambda each: speeds[each], reverse=True):
        said = "" if accuracy_db[name] >= floor_db else "  below the floor"
        print(f"{name:18s} {speeds[name]:6.2f}x  {accuracy_db[name]:6.1f} dB{said}")
    fair = {name: speed for name, speed in speeds.items() if name != "edgeopt" and accuracy_db[name] >= floor_db}
    best = max(fair, key=lambda each: fair[each])
    row = over[best]
    print(
        f"against the best fair peer, {best}: {row['median']:.2f}x "
        f"[{row['low']:.2f} {row['high']:.2f}] in {row['rounds']} rounds"
    )


def answers(side: str, judges: list[Feeds]) -> list[dict[str, np.ndarray]]:
    path, _, run = side.partition("@")
    if not run:
        session = load(Path(path))
        return [session.run(feeds) for feeds in judges]
    backend, *options = run.split(",")
    opened = backend_named(backend).load(Path(path), dict(option.split("=") for option in options))
    try:
        return [opened.run(feeds) for feeds in judges]
    finally:
        opened.close()


if __name__ == "__main__":
    main()
