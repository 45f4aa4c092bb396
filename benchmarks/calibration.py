"""How long calibrating takes, how much memory, and how its entropy ranges compare with onnxruntime's own.

python benchmarks/calibration.py MODEL.onnx DATA.npz [--samples 24] [--peer-tensors 12]

Every method runs in a process of its own, on all that the model's products read and make. Memory is the highest
resident above what the plain model keeps while it runs. onnxruntime's own calibrator takes seconds a tensor where
there are as many bins as here, so it gets `--peer-tensors` of them, and edgeopt the same ones once more.
"""

import argparse
import contextlib
import io
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from edgeopt.backends import backend_named
from edgeopt.backends.base import Array
from edgeopt.data.read import load_data
from edgeopt.data.samples import Samples
from edgeopt.graph.model import load
from edgeopt.measure.memory import peak_bytes, resident_bytes
from edgeopt.quant.layers import find_layers
from edgeopt.quant.ranges import BINS, METHODS
from edgeopt.quant.records import QuantSettings

PEER = "onnxruntime"
PEER_DEFAULT_BINS = 128
WITHIN = 0.01
PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--samples", type=int, default=24)
    parser.add_argument("--peer-tensors", type=int, default=12)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(measured(arguments)))
        return
    print(f"{'':34s} {'tensors':>8s} {'seconds':>8s} {'cpu s':>8s} {'MiB above steady':>17s}")
    for method in METHODS:
        row(f"edgeopt {method.name}", child(arguments, method.name))
    row(f"{PEER} entropy, {PEER_DEFAULT_BINS} bins", child(arguments, f"{PEER}:{PEER_DEFAULT_BINS}:0"))
    own = row("edgeopt entropy", child(arguments, "entropy:few"))
    peer = row(f"{PEER} entropy, {BINS} bins", child(arguments, f"{PEER}:{BINS}:{arguments.peer_tensors}"))
    apart = [
        max(abs(low - own["ranges"][name][0]), abs(high - own["ranges"][name][1])) / max(high - low, 1e-30)
        for name, (low, high) in peer["ranges"].items()
    ]
    near = sum(each <= WITHIN for each in apart)
    print(
        f"{near} of {len(apart)} ranges are within {WITHIN:.0%} of {PEER}'s; the farthest is {max(apart):.2%} off"
    )


def row(title: str, found: dict[str, object]) -> "dict[str, dict[str, tuple[float, float]]]":
    figures = f"{found['tensors']:8d} {found['seconds']:8.1f} {found['cpu_s']:8.1f} {found['peak_mib']:17.0f}"
    print(f"{title:34s} {figures}", flush=True)
    return found  # type: ignore[return-value]


def child(arguments: argparse.Namespace, what: str) -> dict[str, object]:
    command = [sys.executable, __file__, str(arguments.model), str(arguments.data), "--child", what]
    command += ["--samples", str(arguments.samples), "--peer-tensors", str(arguments.peer_tensors)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def measured(arguments: argparse.Namespace) -> dict[str, object]:
    """Steady state first, then the calibration named by `--child`."""
    session = backend_named("onnxruntime-cpu").load(arguments.model, {})
    given = load_data(arguments.data, session.inputs)
    samples = given[range(min(arguments.samples, len(given)))]
    for index in range(len(samples)):
        session.run(samples.feeds(index))
    model = load(arguments.model).ir
    shapes = {name: tuple(shape) for name, shape in samples.shapes().items()}
    layers = [each for each in find_layers(model, shapes) if not each.reason and each.operator in PRODUCTS]
    tensors = list(dict.fromkeys(name for each in layers for name in (*each.inputs, *each.outputs)))
    kind, *rest = arguments.child.split(":")
    if rest and rest[-1] != "0":
        tensors = tensors[:: max(len(tensors) // arguments.peer_tensors, 1)][: arguments.peer_tensors]
    del model, layers
    steady = resident_bytes() or 0
    session.close()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the highest so far counts from here
    begin, cpu = time.perf_counter(), time.process_time()
    if kind == PEER:
        ranges = of_peer(arguments.model, samples, tensors, int(rest[0]))
    else:
        ranges = of_edgeopt(arguments.model, samples, tensors, kind)
    return {
        "tensors": len(tensors),
        "seconds": time.perf_counter() - begin,
        "cpu_s": time.process_time() - cpu,
        "peak_mib": ((peak_bytes() or 0) - steady) / 2**20,
        "ranges": ranges,
    }


def of_edgeopt(
    model: Path, samples: Samples, tensors: Sequence[str], method: str
) -> dict[str, tuple[float, float]]:
    from edgeopt.quant.calibrate import calibrate

    found = calibrate(model, samples, tensors, QuantSettings(calibration=method))
    return {name: (kept.low, kept.high) for name, kept in found.ranges.items()}


def of_peer(model: Path, samples: Samples, tensors: Sequence[str], bins: int) -> dict[str, tuple[float, float]]:
    """The class that its own `quantize_static` calibrates with, on the same tensors."""
    from onnxruntime.quantization.calibrate import EntropyCalibrater

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        calibrator = EntropyCalibrater(model, [], str(Path(folder) / "augmented.onnx"), num_bins=bins)
        select = calibrator.select_tensors_to_calibrate
        calibrator.select_tensors_to_calibrate = lambda graph: (set(tensors), select(graph)[1])
        calibrator.augment_graph()
        calibrator.create_inference_session()
        calibrator.collect_data(_Reader(samples))
        data = calibrator.compute_data()
    # edgeopt's ranges have 0 inside.
    return {name: (min(float(each.lowest), 0.0), max(float(each.highest), 0.0)) for name, each in data.items()}


class _Reader:
    """What its calibrators ask for samples."""

    def __init__(self, samples: Samples) -> None:
        self._feeds = (samples.feeds(number) for number in range(len(samples)))

    def get_next(self) -> dict[str, Array] | None:
        return next(self._feeds, None)


if __name__ == "__main__":
    main()
