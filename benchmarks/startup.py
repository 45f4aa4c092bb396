"""How long edgeopt takes to start: medians interleaved with a bare interpreter.

python benchmarks/startup.py [--rounds 10]
"""

import argparse
import statistics
import subprocess
import sys
import time

COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "import edgeopt": ["-c", "import edgeopt"],
    "edgeopt --help": ["-m", "edgeopt", "--help"],
    "edgeopt --version": ["-m", "edgeopt", "--version"],
    "edgeopt probe": ["-m", "edgeopt", "probe"],
    "edgeopt probe --json": ["-m", "edgeopt", "probe", "--json"],
}


def main() -> None:
    """Prints one line a command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for name, arguments in COMMANDS.items():
        _run(arguments)  # once before, so that the first round finds the same caches as the others
        taken[name].clear()
    for _ in range(rounds):
        for name, arguments in COMMANDS.items():
            taken[name].append(_run(arguments))
    bare = statistics.median(taken["python -c pass"])
    for name, times in taken.items():
        median = statistics.median(times)
        print(f"{name:22s} {median * 1e3:6.0f} ms  (+{(median - bare) * 1e3:.0f} ms over a bare interpreter)")


def _run(arguments: list[str]) -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
