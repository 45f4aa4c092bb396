"""How near predicted latencies come: this machine, planned for from its own record as if it were another.

    edgeopt probe --deep --json > here.json; edgeopt ops --json >> here.json
    python benchmarks/prediction.py here.json MODEL... [--threads 1] [--seconds 2]

Data beside a model (`NAME.npz`) is used: then there are variants in eight bits too. Each is measured in slices of
some milliseconds, and the fifth percentile of these is taken, as what else runs on a machine only makes it slower.
With one thread the clock is that of the processor's time, which stands still while others run.
"""

import argparse
import math
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np

from edgeopt.bundle.runtime.session import load
from edgeopt.commands.predict.latency import Latency
from edgeopt.commands.predict.plan import make_all, predicted
from edgeopt.commands.predict.variants import PredictedVariant, PredictionPlan, prepared
from edgeopt.errors import EdgeoptError
from edgeopt.events import ignore
from edgeopt.pipeline.request import OptimizeRequest
from edgeopt.quant.measured.sample_sets import ModelRuns
from edgeopt.workspace import WORK, workspace

_VARIANTS = ("source", "cleaned", "int8", "int8-groups")
_SLICE_S = 0.004
# Accuracy is no matter here, and it must not decide what is compared.
_FLOOR_DB = 0.1


def main() -> None:
    """Prints a Markdown row a candidate, and what the ratios make together."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record", type=Path)
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each candidate")
    given = parser.parse_args()
    print("| model | variant | backend | predicted, ms | measured, ms | measured / predicted |")
    print("|---|---|---|---|---|---|")
    ratios: list[float] = []
    for model in given.models:
        try:
            for made, found, measured_ms in _tried(model, given.record, given.threads, given.seconds):
                ratio = measured_ms / found.predicted_ms
                ratios.append(ratio)
                one = made.candidate
                figures = f"{found.predicted_ms:.3g} | {measured_ms:.3g} | {ratio:.2f}"
                print(f"| {model.stem} | {one.variant} | {one.backend} | {figures} |", flush=True)
        except EdgeoptError as error:
            print(f"| {model.stem} | {error.message} |", flush=True)
    logs = np.log(ratios)
    near = np.mean(np.abs(logs) <= math.log(2))
    print(
        f"\n{len(ratios)} candidates: {np.exp(logs.min()):.2f} to {np.exp(logs.max()):.2f} times the prediction, "
        f"geometric mean {np.exp(logs.mean()):.2f}; within a factor of two: {near:.0%}."
    )


def _tried(
    model: Path, record: Path, threads: int, seconds: float
) -> Iterator[tuple[PredictedVariant, Latency, float]]:
    data = model.with_suffix(".npz")
    settings = OptimizeRequest(
        model, Path("unused"), data=data if data.is_file() else None, floor=f"{_FLOOR_DB}dB"
    )
    with workspace(WORK) as folder, ModelRuns() as runs:
        plan = prepared(settings, record, folder, runs, ignore)
        plan.profile = msgspec.structs.replace(
            plan.profile, precision=msgspec.structs.replace(plan.profile.precision, ladder=_VARIANTS)
        )
        made = [one for one in make_all(plan, folder) if one.is_alive]
        for one in made:
            options = {**one.candidate.options, "threads": threads}
            one.candidate = msgspec.structs.replace(one.candidate, options=options)
        for one, found in zip(made, predicted(plan, made).values(), strict=True):
            if isinstance(found, Latency):
                yield one, found, _measured_ms(plan, one, seconds)


def _measured_ms(plan: PredictionPlan, made: PredictedVariant, seconds: float) -> float:
    feeds = plan.given.feeds(plan.given.plan)[:8]
    with load(made.path, made.candidate.backend, made.candidate.options) as session:
        for each in feeds:
            session.run(each)
        clock = time.process_time if made.candidate.options.get("threads") == 1 else time.perf_counter
        begin = clock()
        session.run(feeds[0])
        runs = max(1, round(_SLICE_S / (clock() - begin)))
        slices: list[float] = []
        until = time.perf_counter() + seconds
        while time.perf_counter() < until or len(slices) < 5:
            begin = clock()
            for number in range(runs):
                session.run(feeds[number % len(feeds)])
            slices.append((clock() - begin) / runs * 1e3)
    return float(np.quantile(slices, 0.05))


if __name__ == "__main__":
    main()
