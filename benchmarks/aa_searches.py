"""Searches against their own result: what runs today is what a search has found, so nothing is to be delivered.

python benchmarks/aa_searches.py MODEL [--searches 20] [--time-limit SECONDS] [--most-delivered 0]

The first search makes the bundle; each further one takes it as its `--baseline`, with nothing from the cache. The
model needs its data beside it (`NAME.npz`). A search that finds something faster than the first one did delivers
it rightly: look at what it delivers before you call it wrong.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from edgeopt.commands.optimize import optimize


def main() -> None:
    """Prints a line a search; exit code 1 when too many deliver something."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, metavar="MODEL")
    parser.add_argument("--searches", type=int, default=20)
    parser.add_argument("--most-delivered", type=int, default=0)
    parser.add_argument("--time-limit", type=float, metavar="SECONDS")
    given = parser.parse_args()
    data = given.model.with_suffix(".npz")
    asked = {"data": data if data.exists() else None, "time_limit_s": given.time_limit, "fresh": True}
    delivered = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        today = folder / "today.edgeopt"
        first = optimize(given.model, today, **asked)
        print(f"today: {first.winner.name}: {first.summary}")
        print(f"{'':3} {'than today':>26} {'legs':>5} {'proof':>7} {'search':>7}  what was delivered")
        for number in range(given.searches):
            proving: list[float] = []
            begin = time.monotonic()

            def note(event: object, times: list[float] = proving) -> None:
                if getattr(event, "phase", "") == "proving":
                    times.append(time.monotonic())

            found = optimize(given.model, folder / f"{number}.edgeopt", baseline=today, emit=note, **asked)
            end = time.monotonic()
            kept = found.verdict == "keep what you have"
            delivered += not kept
            ratio = found.proof.current
            told = f"{ratio.median:.3f} [{ratio.low:.3f} {ratio.high:.3f}]" if ratio else "kept"
            proof_s = end - proving[0] if proving else 0.0
            print(
                f"{number + 1:3d} {told:>26} {found.proof.legs:5d} {proof_s:5.0f} s {end - begin:5.0f} s  "
                f"{'nothing' if kept else found.winner.name}",
                flush=True,
            )
    print(f"{delivered} of {given.searches} deliver something")
    sys.exit(1 if delivered > given.max_delivered else 0)


if __name__ == "__main__":
    main()
