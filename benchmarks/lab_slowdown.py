"""A planted slowdown of 5 % in one cell of a lab, measured by `edgeopt lab run --against` beside 40 equal cells.

The searches are answered at once by a program; the comparisons are real ones, of bundles whose model takes 2 ms a
run on the null backend. Needs a quiet machine and up to a minute for each cell.

    python benchmarks/lab_slowdown.py
    python benchmarks/lab_slowdown.py --cells 5
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

import msgspec
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # the fake device is that of the tests

from edgeopt.backends import backend_named
from edgeopt.bundle import write
from edgeopt.bundle.deployment import Deployment, Evidence, Run, SourceModel, Tensor
from edgeopt.hw.device import device_for_evidence, fingerprint
from edgeopt.hw.probe import probe
from tests.commands.report.evidence import outcome
from tests.lab.fake_lab import FakeLab

LATENCY_MS = 2.0
NAME = "model.null.json"
PORT = {"dtype": "float32", "shape": [1, 8]}
MODEL = {"inputs": [{"name": "x", **PORT}], "outputs": [{"name": "y", **PORT}], "behaviour": "mix"}


def make_bundle(out: Path, latency_ms: float) -> Path:
    """Writes a bundle whose model takes this time."""
    model = out.with_name(NAME)
    model.write_text(json.dumps(MODEL))
    deployment = Deployment(
        name=out.stem,
        created="2026-01-01T00:00:00+00:00",
        edgeopt="0",
        target="null",
        summary="a planted time",
        source=SourceModel(NAME, "0" * 64, 1),
        run=Run("null", f"model/{NAME}", {"latency_ms": latency_ms}),
        inputs=[Tensor("x", "float32", [1, 8])],
        outputs=[Tensor("y", "float32", [1, 8])],
        device=fingerprint(probe()),
        evidence=Evidence("faster", "source", 2.0, 1.0, 2.0, 1.9, 2.1, 11, 200.0, 30.0, 3),
    )
    feeds = [{"x": np.full((1, 8), number, np.float32)} for number in range(3)]
    session = backend_named("null").load(model, {})
    outputs = [session.run(each) for each in feeds]
    with write.draft(out) as draft:
        for kind, runs in (("inputs", feeds), ("outputs", outputs), ("reference", outputs)):
            write.write_golden(draft, kind, runs)
        write.fill(draft, {NAME: model}, deployment, {"ledger.json": []})
        write.publish(draft, out)
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=41, help="Number of cells (default: 41).")
    parser.add_argument("--slowdown", type=float, default=5.0, help="Planted slowdown, in percent (default: 5).")
    asked = parser.parse_args()
    models = {f"model-{number}": 0.0 for number in range(asked.cells)}
    planted = f"model-{asked.cells // 2}"
    with tempfile.TemporaryDirectory(prefix="edgeopt-lab-") as name:
        os.environ |= {"FAKE_LAB": name, "FAKE_LAB_BENCH": "real"}
        folder, device = Path(name), probe()
        (folder / "made").mkdir()
        found = msgspec.structs.replace(outcome(), device=device_for_evidence(device))
        bundle = make_bundle(folder / "made" / "equal.edgeopt", LATENCY_MS)
        lab = FakeLab(folder, bundle, found, device, ("here",), models)
        lab.run(out="last")
        make_bundle(folder / f"bundle-{planted}.edgeopt", LATENCY_MS * (1 + asked.slowdown / 100))
        results = lab.run(out="next", against=folder / "last")
    for cell in results.cells:
        race = cell.race
        print(f"  {cell.model}: {race.state}: {race.speedup or race.sentence}" if race else f"  {cell}")
    slower = [each.model for each in results.slower]
    print(f"Planted: {planted}, {asked.slowdown:g} %. Found: {', '.join(slower) or 'nothing'}.")
    return 0 if slower == [planted] and not results.not_compared else 1


if __name__ == "__main__":
    raise SystemExit(main())
