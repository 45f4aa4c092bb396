"""What repairing a model quantized by NNCF takes, and what it gives: decibels and speed.

python benchmarks/repair.py MODEL.onnx... [--floor 30] [--limit-s 25] [--preset mixed transformer]

Each model has its data beside it (MODEL.npz), which is divided: to calibrate, to choose, and to prove.
Decibels are those of the samples that prove. Speeds are ratios to the float model, from interleaved runs of all
files; all of them with floats of 32 bits, since some CPUs take fewer by default.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from edgeopt.backends import backend_named
from edgeopt.backends.base import Feeds
from edgeopt.data.read import load_data
from edgeopt.errors import EdgeoptError
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.quant.libraries import quantize_by_nncf
from edgeopt.quant.repair import repair

HEAD = ("model", "preset", "int8 dB", "int8 x", "dB", "x", "returned", "work", "s")
FORM = "{:18s} {:12s} {:>8s} {:>7s} {:>6s} {:>6s} {:>9s} {:>6s} {:>6s}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--floor", type=float, default=30.0)
    parser.add_argument("--limit-s", type=float, default=25.0)
    parser.add_argument("--preset", choices=("mixed", "transformer"), nargs="+", default=["mixed"])
    parser.add_argument("--most", type=int, default=64, help="Samples to use, of all kinds.")
    parser.add_argument("--details", action="store_true", help="The frontier and the operations returned.")
    arguments = parser.parse_args()
    print(FORM.format(*HEAD))
    for path in arguments.models:
        for preset in arguments.preset:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    one(path, preset == "transformer", Path(folder), arguments)
                except EdgeoptError as error:
                    print(f"{path.stem:18s} {preset:12s} {error}", flush=True)


def one(path: Path, transformer: bool, folder: Path, arguments: argparse.Namespace) -> None:
    session = backend_named("openvino-cpu").load(path, {})
    samples = load_data(path.with_suffix(".npz"), session.inputs)
    session.close()
    feeds = [samples.feeds(k) for k in range(min(len(samples), arguments.maximum))]
    calibrating, choosing, proving = feeds[0::3], feeds[1::3], feeds[2::3]
    whole, unpacked, repaired = (folder / f"{name}.xml" for name in ("whole", "unpacked", "repaired"))
    quantize_by_nncf(path, whole, calibrating, transformer=transformer, unpacked=unpacked)
    preset = "transformer" if transformer else "mixed"
    try:
        made = repair(path, unpacked, repaired, choosing, arguments.floor, limit_s=arguments.limit_s)
    except EdgeoptError as error:
        (whole_db,), (whole_x,) = measured(path, [whole], proving)
        print(FORM.format(path.stem, preset, f"{whole_db:.1f}", f"{whole_x:.2f}", *"-----"), error, flush=True)
        return
    (whole_db, after_db), (whole_x, after_x) = measured(path, [whole, repaired], proving)
    print(
        FORM.format(
            path.stem,
            preset,
            *(f"{whole_db:.1f}", f"{whole_x:.2f}", f"{after_db:.1f}", f"{after_x:.2f}"),
            f"{made.groups_returned}/{made.groups}",
            f"{100 * made.work_share:.0f} %",
            f"{made.seconds:.1f}",
        ),
        flush=True,
    )
    if arguments.details:
        print("  chosen at", f"{made.before_db:.1f} -> {made.after_db:.1f} dB;", ", ".join(made.returned))
        for point in made.frontier:
            how = "" if point.measured else " estimated"
            print(f"  {point.groups_returned:4d} {100 * point.work_share:5.1f} % {point.snr_db:6.1f} dB{how}")


def measured(base: Path, made: Sequence[Path], samples: Sequence[Feeds]) -> tuple[list[float], list[float]]:
    """The decibels of each file, and how many times as fast as the float model it runs."""
    sessions = [backend_named("openvino-cpu").load(path, {"precision": "f32"}) for path in (base, *made)]
    try:
        answers = [[session.run(each) for each in samples] for session in sessions]
        times: list[list[float]] = [[] for _ in sessions]
        end = time.perf_counter() + 4.0
        while time.perf_counter() < end:
            for session, seconds in zip(sessions, times, strict=True):
                for _ in range(3):
                    begin = time.perf_counter()
                    session.run(samples[0])
                    seconds.append(time.perf_counter() - begin)
    finally:
        for session in sessions:
            session.close()
    middle = [statistics.median(each) for each in times]
    ratios = [compare_outputs(answers[0], each).snr_db for each in answers[1:]]
    return ratios, [middle[0] / each for each in middle[1:]]


if __name__ == "__main__":
    main()
