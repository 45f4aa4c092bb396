"""How long it takes to find what eight bits cost in each layer, and how well these costs add up.

python benchmarks/sensitivity.py MODEL.onnx DATA.npz [--form int8] [--backend onnxruntime-cpu] [--samples 8]

Seconds and CPU seconds include building the switchboard. Then layers are put together, the noisiest left out
first: what the sum of their own noise says, and what running all of them at once says.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from edgeopt.backends import backend_named
from edgeopt.backends.base import Array
from edgeopt.data.read import load_data
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.graph.model import load, save
from edgeopt.quant.calibrate import calibrate
from edgeopt.quant.layers import find_layers
from edgeopt.quant.measured.records import QuantizeRequest
from edgeopt.quant.measured.work import prepared
from edgeopt.quant.plan.solve import decibels
from edgeopt.quant.records import QuantSettings, Sensitivity
from edgeopt.quant.schemes import SchemeContext, scheme_named
from edgeopt.quant.sensitivity.measure import sensitivities
from edgeopt.quant.sensitivity.switchboard import GatedModel
from edgeopt.quant.write import tensors_wanted

SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--form", default="int8")
    parser.add_argument("--backend", default="onnxruntime-cpu")
    parser.add_argument("--samples", type=int, default=8)
    arguments = parser.parse_args()
    session = backend_named("onnxruntime-cpu").load(arguments.model, {})
    given = load_data(arguments.data, session.inputs)
    session.close()
    half = len(given) // 2
    samples = given[range(half, min(half + arguments.samples, len(given)))]
    # As `edgeopt quantize` prepares it: simulating a form takes a newer opset than many models have.
    model = prepared(load(arguments.model), QuantizeRequest(arguments.model))
    layers = find_layers(model, {name: tuple(shape) for name, shape in given.shapes().items()})
    settings = QuantSettings()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "float.onnx"
        save(model, path)
        tensors = tensors_wanted(model, layers, settings)
        ranges = calibrate(path, given[range(half)], tensors, settings).ranges
    context = SchemeContext(arguments.backend, settings, ranges)
    form = scheme_named(arguments.form)
    forms = {layer.name: (form.name,) for layer in layers if not layer.reason and not form.fits(layer, context)}
    begin, cpu = time.perf_counter(), time.process_time()
    with GatedModel(model, layers, forms, context) as board:
        found = sensitivities(board, samples)
        seconds, cpu_s = time.perf_counter() - begin, time.process_time() - cpu
        print(f"{len(forms)} layers, {len(samples)} samples: {seconds:.1f} s, {cpu_s:.1f} s of CPU")
        print(f"{'layers':>8s} {'sum':>8s} {'run':>8s}   dB")
        reference = board.run_all({}, samples)
        for some in together(found):
            run = board.run_all({each.layer: each.form for each in some}, samples)
            summed: Array = np.sum([each.noise for each in some], axis=0)
            said = compare_outputs(reference, run).snr_db
            print(f"{len(some):8d} {decibels(float(summed.max())):8.1f} {said:8.1f}")


def together(found: tuple[Sensitivity, ...]) -> list[list[Sensitivity]]:
    ranked = sorted(found, key=lambda each: each.snr_db)
    return [ranked[int(len(ranked) * share) :] for share in SHARES]


if __name__ == "__main__":
    main()
