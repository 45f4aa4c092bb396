"""Runs of a lab with fake devices: what is searched for, kept, compared."""

import json
from pathlib import Path

import msgspec
import onnx
import pytest

from edgeopt.commands.lab import failure
from edgeopt.errors import UsageError
from edgeopt.events import Progress, ignore
from edgeopt.lab.lab_run import run_lab
from edgeopt.lab.records import read_results
from edgeopt.lab.request import LabRunRequest
from edgeopt.views.lab import show
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


def missing_file(lab):
    (lab.folder / "small.null.json").unlink()
    return "There is no"


def missing_data(lab):
    name_file(lab, 'small.null.json"\ndata = "nothing.npz')
    return "There is no"


def folder_as_model(lab):
    (lab.folder / "folder").mkdir()
    name_file(lab, "folder")
    return "cannot be read: Is a directory"


def damaged_onnx(lab):
    (lab.folder / "damaged.onnx").write_bytes(b"\x08\x08\x3a\xff")
    name_file(lab, "damaged.onnx")
    return "is not an ONNX model"


def missing_weights(lab):
    tensor = onnx.TensorProto(name="w", data_type=1, dims=[4], data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="weights.bin")
    graph = onnx.GraphProto(name="g", initializer=[tensor])
    (lab.folder / "split.onnx").write_bytes(onnx.ModelProto(ir_version=8, graph=graph).SerializeToString())
    name_file(lab, "split.onnx")
    return "weights.bin"


def name_file(lab, name):
    lab.file.write_text(lab.file.read_text().replace("small.null.json", name))


@pytest.mark.parametrize(
    "spoil", [missing_file, missing_data, folder_as_model, damaged_onnx, missing_weights], ids=lambda f: f.__name__
)
def test_model_that_cannot_be_read_costs_its_own_cells_only(fake_lab, spoil):
    lab = fake_lab()
    said = spoil(lab)
    results = lab.run()
    assert read_results(lab.folder / "results") == results
    assert {each.name for each in results.failed} == {"small on east", "small on west"}
    assert all(said in each.reason for each in results.failed)
    assert all(each.hint for each in results.failed)
    assert {each["model"] for each in lab.log()} == {"large"}
    assert said in "".join(row for block in show(results)[2:] for row in block.items)


def test_results_are_kept_while_the_model_cannot_be_read(fake_lab):
    lab = fake_lab(devices=("east",), models=("small",))
    (first,) = lab.run().cells
    file = lab.folder / "small.null.json"
    content = file.read_bytes()
    file.unlink()
    for _ in range(2):
        (cell,) = lab.run().cells
        assert (cell.status, cell.bundle, cell.earlier) == ("failed", "", first)
    file.write_bytes(content)
    (cell,) = lab.run().cells
    assert cell == msgspec.structs.replace(first, kept=True)
    assert len(lab.log()) == 1


def test_results_are_kept_while_the_device_is_gone(fake_lab):
    lab = fake_lab(devices=("east",), models=("small",))
    (first,) = lab.run().cells
    lab.kill("east")
    (cell,) = lab.run().cells
    assert (cell.status, cell.earlier) == ("failed", first)
    lab.revive("east")
    (cell,) = lab.run().cells
    assert cell == msgspec.structs.replace(first, kept=True)
    assert len(lab.log()) == 1


def test_result_of_a_model_that_was_changed_is_not_kept(fake_lab):
    lab = fake_lab(devices=("east",), models=("small",))
    lab.run()
    missing_file(lab)
    lab.run()
    changed_model(lab)
    (cell,) = lab.run().cells
    assert (cell.status, cell.kept, cell.earlier) == ("done", False, None)
    assert len(lab.log()) == 2


def test_lab_without_a_readable_model_needs_no_device(fake_lab):
    lab = fake_lab(models=("small",))
    missing_file(lab)
    assert failure(lab.run()).exit_code == 4
    assert len(read_results(lab.folder / "results").failed) == 2


def test_comparison_that_is_interrupted_keeps_the_search(fake_lab):
    lab = fake_lab(devices=("east",), models=("small",))
    lab.answer_bench("held", 1.0, 1.1)
    lab.run(out="last")
    running = []

    def interrupt(event):
        if getattr(event, "data", {}).get("status") == "running":
            running.append(event)
            if len(running) == 2:  # the second command, which compares
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lab.run(out="next", against=lab.folder / "last", emit=interrupt)
    (cell,) = lab.run(out="next", against=lab.folder / "last").cells
    assert cell.kept
    assert cell.race.state == "held"


def test_finished_cell_stays_finished_while_it_is_compared(fake_lab):
    lab = fake_lab(models=("small",))
    lab.answer_bench("held", 1.0, 1.1)
    lab.run(out="last")
    lab.run(out="next")
    lab.hold("east", "west")
    running, stored = set(), []

    def release(event):
        cell = getattr(event, "data", {})
        if cell.get("status") == "running":
            running.add(cell["device"])
            if len(running) == 2:
                lab.release("east")
        if cell.get("race") is not None:
            stored.append(json.loads((lab.folder / "next/results.json").read_text()))
            lab.release("west")

    results = lab.run(out="next", against=lab.folder / "last", emit=release)
    assert [each.race.state for each in results.cells] == ["held", "held"]
    # The first comparison is in the file by the end of the second one.
    assert [each["status"] for each in stored[1]["cells"]] == ["done", "done"]


def test_damaged_earlier_bundle_costs_its_comparison_only(fake_lab):
    lab = fake_lab(devices=("east",))
    lab.answer_bench("held", 1.0, 1.1)
    lab.run(out="last")
    (lab.folder / "last/bundles/small/east.edgeopt/manifest.json").unlink()
    results = lab.run(out="next", against=lab.folder / "last")
    assert [each.race.against_digest != "" for each in results.cells] == [False, True]


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
        assert "Slower than before by more than 3%: small on east, large on east" in error.message
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


def test_second_run_into_the_same_folder_is_refused_until_the_first_one_ends(fake_lab):
    lab = fake_lab(devices=("east",), models=("small",))
    refused = []

    def run_again(event):
        if isinstance(event, Progress) and not refused:
            with pytest.raises(UsageError, match="Another run of a lab writes to") as error:
                lab.run()
            refused.append(error.value)

    assert failure(lab.run(emit=run_again)) is None
    assert "another folder" in refused[0].hint
    assert [each.kept for each in lab.run().cells] == [True]
    assert len(lab.log()) == 1


@pytest.mark.parametrize("out", ["lab.toml", "lab.toml/results", "results"])
def test_folder_that_cannot_be_created_is_refused_before_any_search(fake_lab, out):
    lab = fake_lab()
    (lab.folder / "results").mkdir()
    (lab.folder / "results" / "bundles").touch()
    with pytest.raises(UsageError, match=r"The results cannot be written to '.*': (File exists|Not a directory)"):
        lab.run(out)
    assert lab.log() == []


def test_results_are_not_written_into_a_bundle(fake_lab, conv_bundle):
    lab, before = fake_lab(), sorted(conv_bundle.rglob("*"))
    for out in (conv_bundle, conv_bundle / "results"):
        with pytest.raises(UsageError, match="is inside the bundle"):
            lab.run(out)
    assert sorted(conv_bundle.rglob("*")) == before


def test_results_of_another_lab_are_not_replaced(fake_lab):
    lab = fake_lab(devices=("east",))
    lab.run(models=("small",))
    before = read_results(lab.folder / "results")
    with pytest.raises(UsageError, match="has the results of other models and devices") as error:
        lab.run(models=("large",))
    assert "-o RESULTS" in error.value.hint
    assert read_results(lab.folder / "results") == before
    lab.run()
    assert len(lab.log()) == 2


def test_results_without_a_finished_cell_are_replaced(fake_lab):
    lab = fake_lab(devices=("east",))
    lab.kill("east")
    lab.run(models=("small",))
    lab.revive("east")
    assert failure(lab.run(models=("large",))) is None
