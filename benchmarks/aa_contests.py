"""Contests of models with themselves on this machine: nobody is faster, and hardly ever may one be called so.

python benchmarks/aa_contests.py MODEL... [--contests 20] [--most-wrong 3]

Each model needs its data beside it (`NAME.npz`). The models take turns; threads are one and all, in turn.
"""

import argparse
import sys
import time
from pathlib import Path

from record_noise import loads

from edgeopt.bench.contender import Side
from edgeopt.bench.contest import contest
from edgeopt.bench.host import LocalHost
from edgeopt.bench.instruments.machine_state import StateSampler
from edgeopt.bench.sequential import Rules
from edgeopt.events import ignore


def main() -> None:
    """Prints a line a contest; exit code 1 when too many call a difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    parser.add_argument("--contests", type=int, default=20)
    parser.add_argument("--most-wrong", type=int, default=3)
    parser.add_argument("--time-limit", type=float, default=Rules().time_limit_s, metavar="SECONDS")
    given = parser.parse_args()
    wrong = 0
    begin = time.monotonic()
    for number in range(given.contests):
        model = given.models[number % len(given.models)]
        threads = (1, 0)[number // len(given.models) % 2]
        with loads(model, threads) as (load, folder):
            sides = [Side("one", load, model.name), Side("other", load, model.name)]
            rules = Rules(time_limit_s=given.time_limit)
            found = contest(LocalHost(folder), sides, rules, ignore, StateSampler(lambda: ()))
        (said,) = found.comparisons
        wrong += said.verdict in {"faster", "slower"}
        ratio = said.speedup
        at_most = f" (at most {said.at_most_percent:.1f} %)" if said.at_most_percent is not None else ""
        print(
            f"{number + 1:3d} {model.stem}, {threads or 'all'} threads: {ratio.median:.3f} "
            f"[{ratio.low:.3f} {ratio.high:.3f}], {found.rounds} rounds, {found.seconds:.0f} s: "
            f"{said.verdict}{at_most}",
            flush=True,
        )
    print(f"{wrong} of {given.contests} call a difference, in {time.monotonic() - begin:.0f} s")
    sys.exit(1 if wrong > given.most_wrong else 0)


if __name__ == "__main__":
    main()
