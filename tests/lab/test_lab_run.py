"""Runs of a lab with fake devices: what is searched for, kept, compared."""

from pathlib import Path

import msgspec
import pytest

from edgeopt.commands.lab import failure
from edgeopt.errors import UsageError
from edgeopt.events import ignore
from edgeopt.lab.lab_run import run_lab
from edgeopt.lab.records import read_results
from edgeopt.lab.request import LabRunRequest
from tests.conftest import this_device
from tests.lab.fake_lab import PROGRAM, overlapping


def test_each_model_is_searched_for_on_each_device(fake_lab):
    lab = fake_lab()
    results = lab.run()
    assert {(each["model"], each["device"]) for each in lab.log()} == {
        (model, device) for model in lab.models for device in ("east", "west")
    }
    assert overlapping(lab.log()) == []
    assert failure(results) is None
    for cell in results.cells:
        assert cell.status == "done"
        assert (lab.folder / "results" / cell.bundle / "deployment.toml").is_file()
        assert cell.speedup is not None
        assert cell.peak_bytes
    assert read_results(lab.folder / "results") == results


def test_finished_cells_are_kept_unless_fresh(fake_lab):
    lab = fake_lab()
    lab.run()
    again = lab.run()
    assert [each.kept for each in again.cells] == [True] * 4
    assert len(lab.log()) == 4
    lab.run(fresh=True)
    assert len(lab.log()) == 8


def test_device_that_is_gone_costs_its_own_cells_only(fake_lab):
    lab = fake_lab()
    lab.kill("west")
    results = lab.run()
    assert {each.name for each in results.failed} == {"small on west", "large on west"}
    assert all("does not answer" in each.reason for each in results.failed)
    error = failure(results)
    assert error.exit_code == 4
    assert "small on west" in error.message
    lab.revive("west")
    assert failure(lab.run()) is None
    assert sorted(each["device"] for each in lab.log()) == ["east", "east", "west", "west"]


def test_interrupted_run_continues(fake_lab):
    lab = fake_lab(devices=("east",))

    def interrupt(event):
        if getattr(event, "data", {}).get("status") == "done":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lab.run(emit=interrupt)
    results = lab.run()
    assert [each.status for each in results.cells] == ["done", "done"]
    assert failure(results) is None


def changed_option(lab):
    lab.file.write_text(lab.file.read_text() + "\n[options]\ntime_limit_s = 7\n")


def changed_model(lab):
    for model in lab.models:
        (lab.folder / f"{model}.null.json").write_text("{}")


def damaged_bundles(lab):
    for file in lab.folder.glob("results/bundles/*/*/deployment.toml"):
        file.write_text(file.read_text() + "\n")


def other_device(lab):
    device = this_device()
    lab.answer_device(msgspec.structs.replace(device, cpu=msgspec.structs.replace(device.cpu, model="other")))


@pytest.mark.parametrize("change", [changed_option, changed_model, damaged_bundles, other_device])
def test_cell_is_searched_for_again_after_a_change(fake_lab, change):
    lab = fake_lab(devices=("east",), models=("small",))
    lab.run()
    change(lab)
    assert not lab.run().cells[0].kept
    assert [each["command"] for each in lab.log()] == ["optimize", "optimize"]


@pytest.mark.parametrize(("state", "low", "high"), [("broken", 0.8, 0.9), ("held", 1.0, 1.1)])
def test_new_bundles_are_compared_with_earlier_ones(fake_lab, state, low, high):
    lab = fake_lab(devices=("east",))
    lab.answer_bench(state, low, high)
    lab.run(out="last")
    results = lab.run(out="next", against=lab.folder / "last")
    assert [each["command"] for each in lab.log()[2:]] == ["optimize", "bench"] * 2
    assert [each.race.state for each in results.cells] == [state, state]
    error = failure(results)
    assert (error is not None) == (state == "broken")
    if error:
        assert error.exit_code == 4
        assert "slower than before by more than 3%: small on east, large on east" in error.message
    lab.run(out="next", against=lab.folder / "last")
    assert len(lab.log()) == 6, "a comparison with the same bundle is kept too"


def test_comparison_with_the_results_that_are_replaced_is_refused(fake_lab):
    lab = fake_lab(devices=("east",), models=("small",))
    lab.run()
    with pytest.raises(UsageError, match="replaces"):
        lab.run(against=lab.folder / "results")


def test_worker_in_another_folder_finds_all_files(fake_lab, monkeypatch):
    """A worker of a running scheduler has another working folder, so that no path may be relative."""
    lab = fake_lab(devices=("east",), models=("small",))
    monkeypatch.chdir(lab.folder)
    (lab.folder / "steps.toml").touch()
    lab.file.write_text(lab.file.read_text() + '\n[options]\npost = "steps.toml"\nprofile = "realtime"\n')
    results = run_lab(LabRunRequest(Path("lab.toml"), out=Path("results")), ignore, PROGRAM)
    assert results.cells[0].key.options == ("--profile", "realtime", "--post", str(lab.folder / "steps.toml"))
    assert lab.log()[0]["file"] == str(lab.folder / "small.null.json")
    assert lab.log()[0]["out"] == str(lab.folder / "results/bundles/small/east.edgeopt")
