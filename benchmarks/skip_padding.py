"""What skipping padding costs on sequences that fill all places, where there is nothing to skip.

    python benchmarks/skip_padding.py MODEL.onnx DATA.npz

The model and the same with the pass `skip-padding` run on the samples with every mask set to one, interleaved, by
OpenVINO (in each precision, with the shapes of the data) and ONNX Runtime.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from edgeopt.backends import backend_named
from edgeopt.commands.simplify.request import SimplifyRequest
from edgeopt.commands.simplify.simplify import simplify
from edgeopt.data.read import load_data
from edgeopt.graph.masks import is_mask

ROUNDS, RUNS = 40, 8
WAYS = (
    ("openvino-cpu", {"precision": "bf16"}),
    ("openvino-cpu", {"precision": "f32"}),
    ("onnxruntime-cpu", {}),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        skipping = Path(folder) / "skipping.onnx"
        simplify(SimplifyRequest(chosen.model, skipping, only=("skip-padding",), data=chosen.data))
        for name, options in WAYS:
            ratio = _ratio(name, options, chosen.model, skipping, chosen.data)
            low, middle, high = np.quantile(ratio, [0.1, 0.5, 0.9])
            print(f"{name} {options.get('precision', '')}: {middle:.2f} of the time [{low:.2f} {high:.2f}]")


def _ratio(name: str, options: dict[str, str], source: Path, skipping: Path, data: Path) -> list[float]:
    backend = backend_named(name)
    with_open = backend.load(source, {})
    samples = load_data(data, with_open.inputs)
    with_open.close()
    shapes = {"shapes": samples.shapes()} if name.startswith("openvino") else {}
    sides = [backend.load(path, {**options, **shapes}) for path in (source, skipping)]
    feeds = [_filled(samples.feeds(index)) for index in range(min(len(samples), RUNS))]
    spent: list[list[float]] = [[], []]
    for turn in range(ROUNDS):
        for place in (0, 1) if turn % 2 else (1, 0):
            begin = time.perf_counter()
            for each in feeds:
                sides[place].run(each)
            spent[place].append(time.perf_counter() - begin)
    return [new / old for old, new in zip(*spent, strict=True)][2:]


def _filled(feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: np.ones_like(a) if is_mask(name, a.ndim) else a for name, a in feeds.items()}


if __name__ == "__main__":
    main()
