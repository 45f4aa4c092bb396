"""What `cache_dir` saves when a model is loaded by OpenVINO: loads with and without it, interleaved.

python benchmarks/openvino_cache.py MODEL.onnx [...] [--rounds 10]
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from edgeopt.backends import backend_named
from edgeopt.backends.base import Options


def main() -> None:
    """Prints one row a model: median, least and most."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    print(f"{'model':24s} {'compiled ms':>24s} {'kept ms':>24s} {'on disk MiB':>12s}")
    for model in arguments.models:
        with tempfile.TemporaryDirectory() as folder:
            ways: dict[str, Options] = {"compiled": {}, "kept": {"cache_dir": folder}}
            taken: dict[str, list[float]] = {name: [] for name in ways}
            for options in ways.values():
                load_ms(model, options)  # fills the cache, and the system's own cache of the file
            for _ in range(arguments.rounds):
                for name, options in ways.items():
                    taken[name].append(load_ms(model, options))
            size = sum(file.stat().st_size for file in Path(folder).iterdir()) / 2**20
        spread = [f"{statistics.median(t):.0f} [{min(t):.0f}, {max(t):.0f}]" for t in taken.values()]
        print(f"{model.stem:24.24s} {spread[0]:>24s} {spread[1]:>24s} {size:12.1f}")


def load_ms(model: Path, options: Options) -> float:
    """One load, closed again."""
    begin = time.perf_counter()
    session = backend_named("openvino-cpu").load(model, options)
    taken = (time.perf_counter() - begin) * 1e3
    session.close()
    return taken


if __name__ == "__main__":
    main()
