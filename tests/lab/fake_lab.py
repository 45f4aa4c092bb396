"""A lab whose devices are `fake_edgeopt.py`, for tests and for `benchmarks/lab_schedule.py`."""

import itertools
import json
import shutil
from pathlib import Path

import msgspec

from edgeopt.lab.lab_run import run_lab
from edgeopt.lab.request import LabRunRequest

PROGRAM = (str(Path(__file__).with_name("fake_edgeopt.py")),)


class FakeLab:
    """`devices` by name, each a host of its own; `seconds` that the search of each model takes."""

    def __init__(self, folder, bundle, outcome, device, devices, seconds):
        self.folder, self.models = folder, tuple(seconds)
        (folder / "gone").mkdir()
        (folder / "hold").mkdir()
        shutil.copytree(bundle, folder / "bundle.edgeopt")
        (folder / "outcome.json").write_bytes(msgspec.json.encode(outcome))
        self.answer_device(device)
        (folder / "seconds.json").write_text(json.dumps(seconds))
        for model in seconds:
            (folder / f"{model}.null.json").write_text(json.dumps({"name": model}))
        self.file = folder / "lab.toml"
        tables = [f'[[device]]\nname = "{name}"\non = "ssh://{name}"\n' for name in devices]
        tables += [f'[models.{name}]\nfile = "{name}.null.json"\n' for name in seconds]
        self.file.write_text("\n".join(tables))
        self.events = []

    def answer_device(self, device):
        (self.folder / "device.json").write_bytes(msgspec.json.encode(device))

    def answer_bench(self, state, low, high):
        check = {
            "limit": "max-slowdown", "minimum": 1 / 1.03, "first": "new", "second": "old", "state": state,
            "passed": state != "broken", "sentence": f"a sentence: {state}",
            "speedup": {"median": (low + high) / 2, "low": low, "high": high, "rounds": 20},
        }  # fmt: skip
        (self.folder / "bench.json").write_text(json.dumps({"judgement": {"checks": [check]}}))

    def answer_cell(self, model, device, report):
        (self.folder / f"bench-{model}-{device}.json").write_bytes(msgspec.json.encode(report))

    def kill(self, device):
        (self.folder / "gone" / device).touch()

    def revive(self, device):
        (self.folder / "gone" / device).unlink()

    def hold(self, *devices):
        """Keeps the commands of the devices from ending until `release`."""
        for device in devices:
            (self.folder / "hold" / device).touch()

    def release(self, *devices):
        for device in devices:
            (self.folder / "hold" / device).unlink(missing_ok=True)

    def run(self, out="results", emit=None, **options):
        request = LabRunRequest(self.file, out=self.folder / out, **options)
        return run_lab(request, emit or self.events.append, PROGRAM)

    def log(self):
        """The searches and comparisons that came to their end, in their order."""
        file = self.folder / "log.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def overlapping(spans):
    """The pairs of spans of one device that overlap."""
    ordered = sorted(spans, key=lambda each: (each["device"], each["begin_s"]))
    return [
        (first, second)
        for first, second in itertools.pairwise(ordered)
        if first["device"] == second["device"] and second["begin_s"] < first["end_s"]
    ]
