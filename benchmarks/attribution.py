"""How much of the measured time of nodes is attributed to the model's own, on each runtime that tells it.

    python benchmarks/attribution.py MODEL... [--int8] [--threads 1]

Data beside a model (`NAME.npz`) is used, else made up. With --int8 each is tried with QDQ nodes too. `told` is
the share of the time whose kernels the runtime names nodes or tensors of the model for, and what data flow adds;
`beside` is that of kernels which stand for no node by themselves, as conversions of layout. Both are attributed.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from edgeopt.commands.analyze.inputs import feeds_for, infos
from edgeopt.data.read import load_data
from edgeopt.data.samples import Samples, check_samples, from_feeds
from edgeopt.errors import EdgeoptError
from edgeopt.graph.analysis import OpTimes
from edgeopt.graph.analysis.onnx import analyze_onnx
from edgeopt.graph.analysis.records import AnalysisOptions
from edgeopt.measure.op_times import Timing, profile_ops, timeable
from edgeopt.pipeline.quantize import quantize_model

_WANTED = 0.95
_CALIBRATED_WITH = 8


def main() -> None:
    """Prints a Markdown row a model and runtime; exit code 1 where less than 95 % is attributed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    parser.add_argument("--int8", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    print("| model | backend | kernels | told | beside | attributed | a run | in kernels | profiling costs |")
    print("|---|---|---|---|---|---|---|---|---|")
    enough = True
    with tempfile.TemporaryDirectory() as temporary:
        for model in given.models:
            data = model.with_suffix(".npz")
            tried = [model, *(_int8(model, data, Path(temporary)) if given.int8 else ())]
            for path in tried:
                for times in _times(path, data if data.is_file() else None, given.threads):
                    print(_row(path.stem, times), flush=True)
                    enough &= bool(times.reason) or times.attributed_share >= _WANTED
    sys.exit(0 if enough else 1)


def _int8(model: Path, data: Path, folder: Path) -> Iterator[Path]:
    """With its convolutions and products in eight bits; nothing, and a line, where that is not possible."""
    clean, out = folder / f"{model.stem}-clean.onnx", folder / f"{model.stem}-int8.onnx"
    command = [sys.executable, "-m", "edgeopt", "simplify", str(model), "-o", str(clean)]
    try:
        subprocess.run(command, capture_output=True, check=True)
        samples = _samples(clean, data)
        feeds = (samples.feeds(number) for number in range(len(samples)))
        quantize_model(clean, out, data=feeds, method="int8", backend="onnxruntime-cpu")
    except (EdgeoptError, subprocess.CalledProcessError, ValueError) as error:
        print(f"| {out.stem} | | | | | cannot be made: {str(error)[:80]} | | | |")
        return
    yield out


def _samples(model: Path, data: Path) -> Samples:
    inputs = analyze_onnx(model).inputs
    if data.is_file():
        samples = load_data(data, infos(inputs, {}))
        return samples[range(min(_CALIBRATED_WITH, len(samples)))]
    feeds = feeds_for(model, None, {}, inputs)
    return check_samples(from_feeds([feeds]), infos(inputs, {}))


def _times(path: Path, data: Path | None, threads: int) -> tuple[OpTimes, ...]:
    feeds = feeds_for(path, data, {}, analyze_onnx(path).inputs)
    analysis = analyze_onnx(path, AnalysisOptions({name: array.shape for name, array in feeds.items()}))
    return profile_ops(path, analysis, timeable(path), feeds, Timing(threads=threads))


def _row(name: str, times: OpTimes) -> str:
    if not times.rows:
        return f"| {name} | {times.backend} | | | | {times.reason[:90]} | | | |"
    beside = sum(row.share for row in times.rows if row.added)
    costs = f"{times.run_ms / times.plain_ms - 1:+.0%}" if times.plain_ms else ""
    return (
        f"| {name} | {times.backend} | {len(times.rows)} | {times.attributed_share - beside:.1%} | {beside:.1%} "
        f"| {times.attributed_share:.1%} | {times.run_ms:.3f} ms | {times.kernels_ms:.3f} ms | {costs} |"
    )


if __name__ == "__main__":
    main()
