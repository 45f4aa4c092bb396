"""`edgeopt lab`: what it shows, and its exit codes; `test_lab_steps.py` has real searches."""

import json
import subprocess
import sys
from functools import partial

import pytest
from rich.console import Console

from edgeopt.cli.lab import LabTable, _in_lines
from edgeopt.commands import lab as commands
from edgeopt.events import Progress, Update
from edgeopt.lab.lab_run import UPDATE, run_lab
from tests.lab import conftest as lab_fixtures
from tests.lab.fake_lab import PROGRAM
from tests.processes import ends

fake_lab = lab_fixtures.fake_lab


@pytest.fixture
def lab_here(fake_lab, edgeopt_here, monkeypatch):
    """A lab of fake devices, and `edgeopt` in this process, whose cells are run by them."""
    monkeypatch.setattr(commands, "run_lab", partial(run_lab, program=PROGRAM))
    return fake_lab(models=("small",)), edgeopt_here


def test_run_shows_and_writes_all_cells(lab_here):
    lab, edgeopt = lab_here
    results = lab.folder / "results"
    code, out, err = edgeopt("lab", "run", lab.file, "-o", results, "--json")
    assert (code, err) == (0, "")
    *events, last = map(json.loads, out.splitlines())
    assert {each["data"]["status"] for each in events if each["event"] == "update"} == {
        "waiting",
        "running",
        "done",
    }
    assert (last["event"], last["kind"]) == ("result", "lab")
    assert [each["status"] for each in last["data"]["cells"]] == ["done", "done"]
    assert (results / "report.html").read_text().count("<svg") == 2
    assert "2 of 2 cells complete" in (results / "report.md").read_text()
    code, out, _ = edgeopt("lab", "show", results)
    assert code == 0
    assert "small" in out
    assert "2 of 2 cells complete." in out


def test_device_that_does_not_answer_is_exit_code_4(start, relu_model, tmp_path):
    lab = tmp_path / "lab.toml"
    lab.write_text('[[device]]\nname = "away"\non = "http://127.0.0.1:9"\n')
    run = start("lab", "run", lab, relu_model, "-o", tmp_path / "results")
    code, out, err = run.finish()
    assert code == 4
    assert list(run.temporary.iterdir()) == []
    assert "0 of 1 cell complete; 1 failed." in out
    assert "Not complete: relu on away" in err


def test_wrong_file_is_exit_code_3(edgeopt, relu_model, tmp_path):
    lab = tmp_path / "lab.toml"
    lab.write_text('[[device]]\nname = "a"\ncore = [0]\n')
    code, _, err = edgeopt("lab", "run", lab, relu_model)
    assert code == 3
    assert "`core`" in err


def cell(model, device, status, **more):
    key = {"model_digest": "", "data_digest": "", "options": (), "device": (), "version": ""}
    return Update(UPDATE, {"model": model, "device": device, "status": status, "key": key, **more})


CELLS = (
    cell("small", "east", "waiting"),
    cell("small", "west", "running", phase="racing: int8 · onnxruntime-cpu"),
    cell("small", "east", "failed", reason="It is away."),
    cell(
        *("small", "west", "done"),
        speedup={"median": 2.0, "low": 1.9, "high": 2.1, "rounds": 9},
    ),
)


def test_live_table_fills():
    table = LabTable()
    console = Console(width=80, highlight=False)
    for event, shown in zip(CELLS, ("waiting", "racing", "failed", "2.00x [1.90 2.10]"), strict=True):
        table.update(event, pytest.fail)
        with console.capture() as capture:
            console.print(table.render())
        assert shown in capture.get()
    assert "waiting" not in capture.get()


def test_long_phase_cuts_no_model_and_no_state_in_the_live_table(monkeypatch):
    monkeypatch.setenv("COLUMNS", "48")
    table = LabTable()
    table.update(
        cell("classifier", "a-long-name-of-a-device", "running", phase="connecting to the device"), pytest.fail
    )
    for device in ("east", "west"):
        table.update(cell("classifier", device, "waiting"), pytest.fail)
    console = Console(width=48, highlight=False)
    with console.capture() as capture:
        console.print(table.render())
    assert "classifier" in capture.get()
    assert capture.get().count("waiting") == 2


def test_log_has_a_line_for_the_begin_and_the_end_of_a_cell():
    told = []
    emit = _in_lines(told.append)
    for event in (*CELLS[:2], CELLS[1], *CELLS[2:]):
        emit(event)
    assert told == [
        Progress("small on west: running"),
        Progress("small on east: failed: It is away."),
        Progress("small on west: 2.00x [1.90 2.10]"),
    ]


def test_attached_command_ends_with_the_program_that_started_it(conv_model, tmp_path):
    command = ["optimize", conv_model, "-o", tmp_path / "o.edgeopt", "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "edgeopt.cli.attached", *map(str, command)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    with process:
        assert b"progress" in process.stdout.readline()
        process.stdin.close()
        assert ends(process.pid)
        assert process.wait() in {143, -9}
