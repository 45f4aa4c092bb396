"""The schedule of `edgeopt lab` on 4 devices and 8 models, two devices killed in the middle, then resumed.

Devices are programs that take a stated time for each model and log when they began and ended. Checks that the run
is complete but for the cells of the killed devices, that the second run completes it without repeating a finished
cell, and that no two cells of a device overlap. Prints the time of each run beside the ideal schedule: the longest
time that one device needs for its cells.

    python benchmarks/lab_schedule.py
    python benchmarks/lab_schedule.py --seconds 0.5
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parents[1]))  # the fake devices are those of the tests

from edgeopt.bundle import write
from edgeopt.bundle.deployment import Deployment, Evidence, Run, SourceModel, Tensor
from edgeopt.events import Event, Update
from edgeopt.hw.device import device_for_evidence, fingerprint
from edgeopt.hw.probe import probe
from tests.commands.report.evidence import outcome
from tests.lab.fake_lab import FakeLab, overlapping

DEVICES = ("one-core", "two-cores", "avx2-only", "all")
KILLED = ("two-cores", "all")
LIMIT = 1.25


def make_bundle(folder: Path) -> Path:
    """Writes a bundle that verifies, whose model nobody runs."""
    out, model = folder / "template.edgeopt", folder / "template.null.json"
    model.write_text("{}")
    tensor = Tensor("x", "float32", [1])
    deployment = Deployment(
        name="template",
        created="2026-01-01T00:00:00+00:00",
        edgeopt="0",
        target="null",
        summary="a schedule",
        source=SourceModel("template.null.json", "0" * 64, 1),
        run=Run("null", "model/template.null.json", {}),
        inputs=[tensor],
        outputs=[tensor],
        device=fingerprint(probe()),
        evidence=Evidence("faster", "source", 2.0, 1.0, 2.0, 1.9, 2.1, 11, 200.0, 30.0, 3),
    )
    with write.draft(out) as draft:
        write.fill(draft, {"template.null.json": model}, deployment, {"ledger.json": []})
        write.publish(draft, out)
    return out


def killing(lab: FakeLab, done: int) -> Callable[[Event], None]:
    """Returns a listener that takes two devices away once a number of cells are done."""
    finished: list[Event] = []

    def watch(event: Event) -> None:
        if isinstance(event, Update) and event.data["status"] == "done":
            finished.append(event)
            if len(finished) == done:
                for device in KILLED:
                    lab.kill(device)

    return watch


def busy(log: "list[dict[str, float]]") -> float:
    """Returns the longest time that one device was busy, in seconds."""
    return max(sum(e["end_s"] - e["begin_s"] for e in log if e["device"] == name) for name in DEVICES)


def timed(lab: FakeLab, ideal_s: float, **options: object) -> "tuple[object, float]":
    begin = time.monotonic()
    results = lab.run(**options)
    seconds = time.monotonic() - begin
    print(f"  {seconds:.1f} s, {seconds / ideal_s:.2f}x of the ideal schedule ({ideal_s:.1f} s)")
    return results, seconds / ideal_s


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=4.0, help="Mean time of a cell, in seconds (default: 4).")
    mean = parser.parse_args().seconds
    models = {f"model-{n}": mean * (0.5 + n / 7) for n in range(8)}
    ideal = sum(models.values())
    problems = []
    with tempfile.TemporaryDirectory(prefix="edgeopt-lab-") as name:
        folder = Path(name)
        os.environ["FAKE_LAB"] = name
        device = probe()
        found = msgspec.structs.replace(outcome(), device=device_for_evidence(device))
        lab = FakeLab(folder, make_bundle(folder), found, device, DEVICES, models)

        print("4 devices, 8 models, nothing killed:")
        results, ratio = timed(lab, ideal, out="quiet")
        if results.failed or ratio > LIMIT:
            problems.append("the quiet run")
        quiet = lab.log()

        print(f"{' and '.join(KILLED)} killed in the middle:")
        results, _ = timed(lab, ideal, emit=killing(lab, 14))
        expected = {device for device in DEVICES if device not in KILLED}
        complete = [each for each in results.cells if each.status == "done"]
        failed = {each.device for each in results.failed}
        print(f"  {len(complete)} of 32 cells complete, failed on: {', '.join(sorted(failed))}")
        if failed != set(KILLED) or sum(each.device in expected for each in complete) != 16:
            problems.append("the cells of the killed devices")

        print("Resumed with all devices:")
        for device_name in KILLED:
            lab.revive(device_name)
        missing = {name: sum(models[e.model] for e in results.failed if e.device == name) for name in KILLED}
        results, ratio = timed(lab, max(missing.values()))
        log = lab.log()
        print(f"  {sum(each.status == 'done' for each in results.cells)} of 32 cells complete")
        cells = [(each["model"], each["device"]) for each in log[len(quiet) :]]
        if results.failed or len(cells) != len(set(cells)) or len(cells) != 32:
            problems.append("the resumed run")
        if ratio > LIMIT:
            problems.append("the time of the resumed run")

    gaps = [
        later["begin_s"] - earlier["end_s"]
        for name in DEVICES
        for earlier, later in pairwise(each for each in quiet if each["device"] == name)
    ]
    print(f"Two cells of a device at once: {len(overlapping(log))} of {len(log)}.")
    print(f"Between two cells of a device: {sum(gaps) / len(gaps):.2f} s; busy for {busy(quiet):.1f} s.")
    if overlapping(log):
        problems.append("cells that overlap")
    print("All as it must be." if not problems else f"Wrong: {'; '.join(problems)}.")
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
