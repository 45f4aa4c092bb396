"""Contests of models with themselves on this machine: no side is faster, so a verdict is an error.

python benchmarks/aa_contests.py MODEL... [--contests 20] [--most-wrong 3] [--lengths 20 200]

Each model needs its data beside it (`NAME.npz`). The models take turns; threads are one and all, in turn. With
`--lengths`, the sides are two copies at absolute paths of these numbers of characters, in both orders; the
weights must be in the model's own file.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from record_noise import loads

from edgeopt.events import ignore
from edgeopt.measure.contender import Side
from edgeopt.measure.contest import contest
from edgeopt.measure.instruments.machine_state import StateSampler
from edgeopt.measure.messages import Load
from edgeopt.measure.sequential import Rules
from edgeopt.workers.host import LocalHost

_LONGEST_NAME = 100
_FILE = "m.onnx"


def main() -> None:
    """Prints a line a contest; exit code 1 when too many call a difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    parser.add_argument("--contests", type=int, default=20)
    parser.add_argument("--most-wrong", type=int, default=3)
    parser.add_argument("--time-limit", type=float, default=Rules().time_limit_s, metavar="SECONDS")
    parser.add_argument(
        "--lengths", type=int, nargs=2, metavar=("SHORT", "LONG"), help="of the paths of two copies"
    )
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where the copies go")
    given = parser.parse_args()
    wrong = 0
    begin = time.monotonic()
    print(f"{'':3} {'model':24} {'threads':>7} {'paths':>9} {'speed-up of one':>30}  verdict")
    for number in range(given.contests):
        model = given.models[number % len(given.models)]
        turn = number // len(given.models)
        threads = (1, 0)[turn % 2]
        lengths = given.lengths and tuple(given.lengths[:: -1 if turn // 2 % 2 else 1])
        with loads(model, threads) as (load, folder), copies(load, lengths, given.folder) as (one, other):
            sides = [Side("one", one, model.name), Side("other", other, model.name)]
            rules = Rules(time_limit_s=given.time_limit)
            found = contest(LocalHost(folder), sides, rules, ignore, StateSampler(lambda: ()))
        (said,) = found.comparisons
        wrong += said.verdict in {"faster", "slower"}
        ratio = said.speedup
        at_most = f" (at most {said.at_most_percent:.1f} %)" if said.at_most_percent is not None else ""
        interval = f"{ratio.median:.3f} [{ratio.low:.3f} {ratio.high:.3f}]"
        paths = "/".join(str(len(each.model_path)) for each in (one, other))
        print(
            f"{number + 1:3d} {model.stem:24} {threads or 'all':>7} {paths:>9} {interval:>30}  "
            f"{said.verdict}{at_most}, {found.rounds} rounds, {found.seconds:.0f} s",
            flush=True,
        )
    print(f"{wrong} of {given.contests} call a difference, in {time.monotonic() - begin:.0f} s")
    sys.exit(1 if wrong > given.max_wrong else 0)


@contextmanager
def copies(load: Load, lengths: tuple[int, ...] | None, folder: Path) -> Iterator[tuple[Load, Load]]:
    """The same twice; with lengths, two copies of the model at paths of these numbers of characters."""
    if lengths is None:
        yield load, load
        return
    made: list[Load] = []
    roots: list[Path] = []
    try:
        for length in lengths:
            roots.append(_root(folder, length))
            path = _lengthened(roots[-1], length)
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(load.model_path, path)
            made.append(msgspec.structs.replace(load, model_path=str(path)))
        yield made[0], made[1]
    finally:
        for root in roots:
            shutil.rmtree(root)


def _root(folder: Path, length: int) -> Path:
    """A new folder that leaves room for the file."""
    free = length - len(f"{folder.absolute()}//{_FILE}")
    if free < 1:
        raise SystemExit(f"A path of {length} characters does not fit into {folder}; give a shorter --folder.")
    for number in range(1000):
        root = folder.absolute() / f"{number:0{min(free, 4)}d}"
        if len(root.name) <= free and not root.exists():
            root.mkdir()
            return root
    return Path(tempfile.mkdtemp(dir=folder))


def _lengthened(root: Path, length: int) -> Path:
    """The file in folders whose names give its path this number of characters."""
    path = root
    while (left := length - len(f"{path}/{_FILE}")) > 1:
        # One character alone would be a separator without a name.
        taken = min(_LONGEST_NAME, left - 1)
        path /= "a" * (taken - 1 if left - 1 - taken == 1 else taken)
    return path / (_FILE if not left else f"m{_FILE}")


if __name__ == "__main__":
    main()
