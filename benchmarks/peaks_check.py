"""How much of the peaks of `edgeopt probe --deep` the best layers of real models reach in ONNX Runtime.

python benchmarks/peaks_check.py MODEL.onnx [MODEL.onnx ...] [--threads 1] [--runs 40] [--again]

The data of a model is MODEL.npz beside it (one array an input, samples along the first axis). Layers are matrix
products and convolutions; one that takes less than 50 µs is left out, as the profiler counts whole microseconds.
"""

import argparse
import json
import tempfile
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import edgeopt
from edgeopt.hw.device import ComputePeak
from edgeopt.measure.peaks.measure import measure

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

PRODUCTS = ("MatMul", "FusedMatMul", "Gemm")
CONVOLUTIONS = ("Conv", "FusedConv")
SHORTEST_US = 50.0
QUANTILE = 0.25
"""Of the durations of a layer: the best quarter, as for the peaks."""


class Layer(NamedTuple):
    name: str
    operator: str
    shapes: str
    operations: int
    duration_us: float

    @property
    def operations_per_s(self) -> float:
        return self.operations / self.duration_us * 1e6


def main() -> None:
    """Prints the best layers of each model with the share of the peak that they reach."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--again", action="store_true", help="measure the peaks again")
    given = parser.parse_args()
    peak = fp32_peak(given.threads, given.again)
    print(f"peak of {given.threads} thread(s): {peak.operations_per_s / 1e9:.1f} GFLOP/s with {peak.layer}")
    for model in given.models:
        layers = sorted(profiled(model, given.threads, given.runs), key=lambda layer: -layer.operations_per_s)
        total = sum(layer.operations for layer in layers)
        print(f"\n{model.name}: {len(layers)} layers of {SHORTEST_US:.0f} µs or more, {total / 1e6:.0f} MFLOP")
        for layer in layers[:3]:
            rate = layer.operations_per_s
            print(
                f"  {rate / peak.operations_per_s:5.0%} of the peak, {rate / 1e9:6.1f} GFLOP/s in "
                f"{layer.duration_us:6.0f} µs: {layer.operator} {layer.shapes} {layer.name[:50]}"
            )


def fp32_peak(threads: int, again: bool) -> ComputePeak:
    """That of ONNX Runtime, kept or measured."""
    device = edgeopt.probe()
    peaks = device.peaks if device.peaks and not again else measure(device, lambda _: None).peaks
    for peak in peaks.compute:
        if (peak.runtime, peak.precision, peak.threads) == ("onnxruntime", "fp32", threads):
            return peak
    raise SystemExit(f"There is no fp32 peak of ONNX Runtime with {threads} threads on this device.")


def profiled(model: Path, threads: int, runs: int) -> list[Layer]:
    """What ONNX Runtime's own profiler says of each layer."""
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder) / "profile")
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        feeds = first_sample(model.with_suffix(".npz"), session)
        for _ in range(runs):
            session.run(None, feeds)
        events = json.loads(Path(session.end_profiling()).read_text())
    durations: dict[str, list[float]] = {}
    arguments: dict[str, dict[str, Any]] = {}
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            durations.setdefault(event["name"], []).append(event["dur"])
            arguments[event["name"]] = event["args"]
    found = [as_layer(name, arguments[name], durations[name]) for name in durations]
    return [layer for layer in found if layer and layer.duration_us >= SHORTEST_US]


def as_layer(name: str, arguments: dict[str, Any], durations_us: list[float]) -> Layer | None:
    """With its operations, counted from its shapes; None for whatever is no product or convolution."""
    operator = arguments["op_name"]
    inputs = [next(iter(each.values())) for each in arguments["input_type_shape"]]
    outputs = [next(iter(each.values())) for each in arguments["output_type_shape"]]
    if operator in PRODUCTS:
        deep = inputs[0][-1]
    elif operator in CONVOLUTIONS and len(inputs) > 1:
        deep = prod(inputs[1][1:])
    else:
        return None
    # Without the weights where the runtime has packed them and let them go.
    shapes = (
        " by ".join("x".join(map(str, shape)) for shape in inputs[:2]) + " to " + "x".join(map(str, outputs[0]))
    )
    duration = float(np.quantile(durations_us, QUANTILE))
    return Layer(name.removesuffix("_kernel_time"), operator, shapes, 2 * prod(outputs[0]) * deep, duration)


def first_sample(path: Path, session: "InferenceSession") -> dict[str, Any]:
    """The first sample of the data, with the batch axis that the model wants."""
    feeds = {}
    with np.load(path) as data:
        for given in session.get_inputs():
            array = data[given.name][0]
            feeds[given.name] = array[None] if array.ndim < len(given.shape) else array
    return feeds


if __name__ == "__main__":
    main()
