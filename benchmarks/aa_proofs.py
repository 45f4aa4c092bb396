"""Proofs of models against themselves, where "faster" is an error, and of a planted difference.

python benchmarks/aa_proofs.py MODEL... [--proofs 100] [--load 1] [--time-limit 20]
python benchmarks/aa_proofs.py --planted 5 [--proofs 40]

Each model needs its data beside it (`NAME.npz`); models take turns. `--load N` keeps N processes busy beside.
`--planted PERCENT` compares two chains of matrix products, one longer by this share. Nothing else may run.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
from record_noise import loads

from edgeopt.measure.contender import Side
from edgeopt.measure.legs import FEWEST, Starter, Terms, leg_slice_ms, run_legs
from edgeopt.measure.messages import Load
from edgeopt.measure.rounds import run_rounds
from edgeopt.measure.schedules import PROOF
from edgeopt.measure.sequential import Decision
from edgeopt.workers.host import LocalHost

_BUSY = "while True: pass"
_PRODUCTS, _SIZE, _ROWS = 40, 256, 64


def main() -> None:
    """Prints a line a proof, and how many said what."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL")
    parser.add_argument("--proofs", type=int, default=20)
    parser.add_argument("--load", type=int, default=0, metavar="N", help="busy processes beside")
    parser.add_argument("--planted", type=float, default=0.0, metavar="PERCENT")
    parser.add_argument("--time-limit", type=float, default=20.0, metavar="SECONDS", help="of each proof")
    given = parser.parse_args()
    if bool(given.models) == bool(given.planted):
        parser.error("name models, or a planted difference")
    said: dict[str, int] = {}
    with busy(given.load):
        for number in range(given.proofs):
            begin = time.monotonic()
            with sides(given, number) as (pair, folder, name):
                found = proof(pair, folder, given.time_limit)
            said[found.verdict] = said.get(found.verdict, 0) + 1
            seconds = time.monotonic() - begin
            print(f"{number + 1:3d} {name:24} {found.speedup!s:>24}  {found.verdict}, {seconds:.0f} s", flush=True)
    print(", ".join(f"{verdict}: {count}" for verdict, count in sorted(said.items())))


def proof(pair: list[Side], folder: Path, limit_s: float) -> Decision:
    """The first side against the other, as a search proves its winner."""
    with ExitStack() as stack:
        starter = Starter(LocalHost(folder), pair, stack)
        pack = starter.first()
        other = pack.others[0]
        run_rounds(list(pack.every), 1, leg_slice_ms(other.loaded.first_run_ms))
        span_ms = leg_slice_ms(other.run_ms)
        pack.forget()
        terms = Terms(PROOF, max(FEWEST, PROOF.legs[0]), time.monotonic() + limit_s, range(1))
        (found,) = run_legs(pack, starter, terms, span_ms).decisions
    if found is None:
        raise SystemExit("A proof needs more time: raise --time-limit.")
    return found


@contextmanager
def sides(given: argparse.Namespace, number: int) -> Iterator[tuple[list[Side], Path, str]]:
    """Two sides of one model; or of a chain of products, and a longer one."""
    if given.models:
        model = given.models[number % len(given.models)]
        with loads(model, (0, 1)[number // len(given.models) % 2]) as (load, folder):
            yield [Side("one", load), Side("other", load)], folder, model.stem
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        longer = round(_PRODUCTS * (1 + given.planted / 100))
        samples = folder / "samples"
        write_samples(samples)
        made = [
            Side(str(count), Load("onnxruntime-cpu", str(chain(folder, count)), {"threads": 1}, str(samples)))
            for count in (_PRODUCTS, longer)
        ]
        yield made, folder, f"{_PRODUCTS} and {longer} products"


def write_samples(folder: Path) -> None:
    """One input of the chain."""
    from edgeopt.data.samples import Samples, save_samples

    x = np.random.default_rng(0).standard_normal((_ROWS, _SIZE)).astype(np.float32)
    save_samples(Samples({"x": x[None]}, {"x": 2}), folder)


def chain(folder: Path, products: int) -> Path:
    """A model of matrix products, one after the other."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weight = np.random.default_rng(1).standard_normal((_SIZE, _SIZE)).astype(np.float32) / np.float32(_SIZE**0.5)
    nodes = [helper.make_node("MatMul", ["x" if k == 0 else f"y{k}", "w"], [f"y{k + 1}"]) for k in range(products)]
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [_ROWS, _SIZE])],
        [helper.make_tensor_value_info(f"y{products}", TensorProto.FLOAT, [_ROWS, _SIZE])],
        [numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path = folder / f"chain{products}.onnx"
    onnx.save(model, path)
    return path


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Processes that keep a core busy each."""
    children = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for child in children:
            child.kill()
            child.wait()


if __name__ == "__main__":
    main()
