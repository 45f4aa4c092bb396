"""Random graphs from a seed, judged after every exact pass.

    .venv/bin/python -m tests.differential.sweep --seed 1000 --graphs 5000

Prints each graph that fails as its bytes, with what is wrong, and ends with 1 if there is one.
"""

import argparse
import random
import sys
import time
from collections.abc import Iterator

from tests.differential import check
from tests.differential.graphs import BYTES, Case, case_from

# OpenVINO takes a third of a second to compile both graphs, as long as all else takes for three.
SHARE_IN_OPENVINO = 16
# OpenVINO rounds what it quantizes again as it likes: in one layout to the next step, in another to the last.
STEPPING = {"QLinearConv", "QLinearMatMul"}


def judged(case: Case, number: int) -> list[str] | None:
    """What is wrong with the simplified case; None where the source cannot be judged."""
    stepping = any(node.op_type in STEPPING for node in case.model.graph.node)
    names = check.USUAL if stepping or number % SHARE_IN_OPENVINO else (*check.USUAL, "OpenVINO")
    try:
        return [str(one) for one in check.findings(case, names=names)]
    except check.UselessError:
        return None


def sweep(seed: int, count: int) -> Iterator[tuple[bytes, list[str] | None]]:
    """The bytes of each graph, with what is wrong with it."""
    source = random.Random(seed)  # noqa: S311 - graphs are no secrets
    for number in range(count):
        data = source.randbytes(BYTES + BYTES // 2)
        yield data, judged(case_from(data), number)


def main() -> int:
    parser = argparse.ArgumentParser(description="Random graphs from a seed, judged after every exact pass.")
    parser.add_argument("--seed", type=int, default=0, help="Seed of the graphs, default 0.")
    parser.add_argument("--graphs", type=int, default=1000, help="Number of graphs, default 1000.")
    asked = parser.parse_args()
    start, failing, useless = time.monotonic(), 0, 0
    for number, (data, found) in enumerate(sweep(asked.seed, asked.graphs), 1):
        useless += found is None
        if found:
            failing += 1
            _print(f"{data.hex()}\n    " + "\n    ".join(found))
        if number % 500 == 0 or number == asked.graphs:
            took = time.monotonic() - start
            _print(f"{number} graphs, {failing} fail, {useless} cannot be judged, {took:.0f} s")
    return int(failing > 0)


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
