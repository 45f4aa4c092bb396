"""What is left of a lab whose process is interrupted, terminated or killed, and how it continues."""

import json
import signal
import subprocess
import sys
from contextlib import ExitStack

import pytest

from edgeopt.lab.records import read_results
from tests.lab.fake_lab import PROGRAM
from tests.measuring import wait_until

LAB_OF_FAKES = """
import sys
from functools import partial
from edgeopt.cli.main import main
from edgeopt.commands import lab
from edgeopt.lab.lab_run import run_lab

lab.run_lab = partial(run_lab, program=({program!r},))
main()
"""


@pytest.fixture
def begin(fake_lab):
    """Starts `edgeopt lab run` with two fake devices; returns once one is done and the other one searches."""

    with ExitStack() as stack:

        def begin():
            lab = fake_lab(models=("small",))
            program = LAB_OF_FAKES.format(program=PROGRAM[0])
            lab.hold("east", "west")
            process = subprocess.Popen(
                [sys.executable, "-c", program, "lab", "run", lab.file, "-o", lab.folder / "results", "--json"],
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            running = set()
            for line in process.stdout:
                event = json.loads(line)
                if event["event"] != "update":
                    continue
                cell = event["data"]
                if cell["status"] == "running":
                    running.add(cell["device"])
                    if running == {"east", "west"}:
                        lab.release("east")
                if cell["status"] == "done":
                    return lab, process
            raise AssertionError(process.wait())

        yield begin


@pytest.mark.parametrize(("number", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGKILL", -9)])
def test_cells_that_did_not_finish_are_waiting_and_the_next_run_continues(begin, number, code):
    lab, process = begin()
    wait_until(lambda: wrote_done(lab))
    process.send_signal(getattr(signal, number))
    process.communicate()
    assert process.returncode == code
    results = lab.folder / "results"
    assert [each["status"] for each in json.loads((results / "results.json").read_text())["cells"]] == [
        "done",
        "waiting",
    ]
    report = (results / "report.md").read_text()
    assert "1 of 2 cells complete; 1 not run." in report
    shown = subprocess.run(
        [sys.executable, "-m", "edgeopt", "lab", "show", results], capture_output=True, text=True, check=True
    ).stdout
    assert "waiting" in shown
    assert "1 of 2 cells complete; 1 not run." in shown
    lab.release("west")
    again = lab.run()
    assert [(each.status, each.kept) for each in again.cells] == [("done", True), ("done", False)]


def wrote_done(lab):
    file = lab.folder / "results/report.md"
    return file.exists() and "1 of 2" in file.read_text()


def test_run_that_cannot_begin_keeps_earlier_results(fake_lab, monkeypatch):
    from edgeopt.errors import MissingError
    from edgeopt.lab import schedule

    monkeypatch.setattr(schedule, "_CONNECT_S", 0.2)
    lab = fake_lab(devices=("east",), models=("small",))
    before = lab.run()
    with pytest.raises(MissingError):
        lab.run(fresh=True, scheduler="tcp://127.0.0.1:1")
    assert read_results(lab.folder / "results") == before
