"""Records how rounds of a contest between a model and itself scatter on this machine.

python benchmarks/record_noise.py MODEL... --out NOISE.json [--pairs 5] [--rounds 60]

Each model needs its data beside it (`NAME.npz`). Several pairs of processes a model and number of threads, because
two processes of one model differ for their whole life. The statistics of the contest are tried on such recordings:
see `contest_simulation.py`. Nothing else should run meanwhile, but what always does.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from edgeopt.backends import backend_named
from edgeopt.data.read import load_data
from edgeopt.data.samples import save_samples
from edgeopt.measure.contender import enter
from edgeopt.measure.messages import Load
from edgeopt.measure.rounds import run_rounds, slice_ms
from edgeopt.workers.host import LocalHost

BACKEND = "onnxruntime-cpu"


def main() -> None:
    """Prints a line a pair, and writes the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 0], help="0: all cores")
    given = parser.parse_args()
    recorded = []
    for model in given.models:
        for threads in given.threads:
            with loads(model, threads) as (load, folder):
                for pair in range(given.pairs):
                    first, second = record(LocalHost(folder), load, given.rounds)
                    ratios = np.log(np.array(first) / np.array(second))
                    print(
                        f"{model.stem}, {threads or 'all'} threads, pair {pair + 1}: "
                        f"median ratio {np.exp(np.median(ratios)):.3f}, scatter {np.std(ratios):.3f}",
                        flush=True,
                    )
                    one = {"model": model.stem, "threads": threads, "pair": pair, "a_ms": first, "b_ms": second}
                    recorded.append(json.dumps(one, separators=(",", ":")))
                    given.out.write_text("[\n" + ",\n".join(recorded) + "\n]\n")


@contextmanager
def loads(model: Path, threads: int) -> Iterator[tuple[Load, Path]]:
    """What a trial is asked to load, with its samples in a folder that lasts as long."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        session = backend_named(BACKEND).load(model, {})
        save_samples(load_data(model.with_suffix(".npz"), session.inputs), folder / "samples")
        session.close()
        yield Load(BACKEND, str(model.absolute()), {"threads": threads}, str(folder / "samples")), folder


def record(host: LocalHost, load: Load, rounds: int) -> tuple[list[float], list[float]]:
    """The medians of the slices of two fresh processes, interleaved."""
    with ExitStack() as stack:
        pair = [enter(host, name, load) for name in "ab"]
        for one in pair:
            stack.callback(one.close)
        run_rounds(pair, 2, slice_ms(max(one.loaded.first_run_ms for one in pair)))
        span_ms = slice_ms(pair[0].slices_ms[-1])
        for one in pair:
            one.slices_ms.clear()
        run_rounds(pair, rounds, span_ms)
        first, second = ([round(ms, 5) for ms in one.slices_ms] for one in pair)
        return first, second


if __name__ == "__main__":
    main()
