"""What two solvers of the precision plan find for the same problems, and how long they take.

python benchmarks/plan_solvers.py [RECORD.pickle ...] [--random 50]

python benchmarks/plan_solvers.py --record FOLDER NAME -- quantize MODEL.onnx --data DATA.npz --time-limit 60

A record holds the arguments of `problem_from` as `edgeopt quantize` gave them.
"""

import argparse
import pickle
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from edgeopt.quant.plan import choose
from edgeopt.quant.plan.problem import Border, Problem, decibels, noise_at, problem_from
from edgeopt.quant.plan.program import solve
from edgeopt.quant.plan.solve import Solver
from edgeopt.quant.records import Gain, Layer, Sensitivity

FLOORS_DB = (40, 30, 20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=Path, nargs="*")
    parser.add_argument("--random", type=int, default=50)
    parser.add_argument("--record", nargs=2, metavar=("FOLDER", "NAME"))
    own = sys.argv[1 : sys.argv.index("--")] if "--" in sys.argv else sys.argv[1:]
    given = parser.parse_args(own)
    if given.record:
        record(Path(given.record[0]), given.record[1], sys.argv[sys.argv.index("--") + 1 :])
        return
    print("| problem | layers | options | borders | floor | old ms | new ms | old dB | new dB | old s | new s |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for name, problem in problems(given.records, given.random):
        for floor in FLOORS_DB:
            compare(name, problem, floor)


def compare(name: str, problem: Problem, floor: float) -> None:
    budget = noise_at(floor)
    begin = time.process_time()
    old = Solver(problem, budget).within(budget)
    middle = time.process_time()
    new = solve(problem, budget)
    end = time.process_time()
    size = f"{len(problem.layers)} | {sum(map(len, problem.options))} | {len(problem.borders)}"
    saved = " | ".join(f"{problem.saved_ms(each):.4f}" for each in (old, new))
    exact = " | ".join(f"{decibels(problem.worst(each)):.2f}" for each in (old, new))
    print(f"| {name} | {size} | {floor} | {saved} | {exact} | {middle - begin:.2f} | {end - middle:.2f} |", flush=True)


def problems(records: list[Path], many: int) -> Iterator[tuple[str, Problem]]:
    for path in records:
        yield path.stem, problem_from(*pickle.loads(path.read_bytes()))  # noqa: S301 - its own record
    for seed in range(many):
        yield f"random {seed}", random_problem(np.random.default_rng(seed))


def random_problem(random: np.random.Generator) -> Problem:
    """A chain of 20 to 129 layers with some more borders, up to three schemes and six outputs."""
    names = [f"layer {k}" for k in range(random.integers(20, 130))]
    outputs, forms = int(random.integers(1, 7)), ("int8", "a16w8", "bf16")[: random.integers(1, 4)]
    layers = [Layer(name, "Conv", (name,), "w", (), (), 10**6) for name in names]
    costs, gains = [], []
    for name in names:
        float_ms = random.uniform(0.01, 1)
        for place, form in enumerate(forms):
            noise = 10 ** random.uniform(-6, -3, outputs) * 0.1**place
            costs.append(Sensitivity(name, form, tuple(noise.tolist()), decibels(float(noise.max()))))
            gains.append(Gain(name, form, float_ms, float_ms * random.uniform(0.3 + 0.3 * place, 1.1)))
    pairs = [*zip(names, names[1:], strict=False), *random.choice(names, (random.integers(0, 30), 2))]
    borders = [Border(str(a), str(b), random.uniform(0, 0.2)) for a, b in pairs]
    return problem_from(layers, costs, gains, borders)


def record(folder: Path, name: str, command: list[str]) -> None:
    from edgeopt.cli.main import main as edgeopt

    def recorded(*given: object) -> Problem:
        path = folder / f"{name}-{len(list(folder.glob(f'{name}-*.pickle')))}.pickle"
        path.write_bytes(pickle.dumps(given))
        return problem_from(*given)

    choose.problem_from = recorded
    sys.argv = ["edgeopt", *command]
    edgeopt()


if __name__ == "__main__":
    main()
