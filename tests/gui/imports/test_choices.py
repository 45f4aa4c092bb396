"""What an import begins with, and the command line that follows; nothing is run."""

from pathlib import Path

import pytest

from edgeopt_gui.drops import sort_out
from edgeopt_gui.imports.choices import ImportChoices, choices_for, ending_in_the_app, names_in
from edgeopt_gui.jobs.ending import Ending

SCRIPT = """
from torch.nn import Module, Linear
SIZES = (3, 4)
class Net(Module): ...
class _Own(Module): ...
def build(wide=True): ...
def train(data): ...
net = Net()
"""


def test_names_of_a_script_are_those_that_can_be_a_model(tmp_path):
    script = tmp_path / "net.py"
    script.write_text(SCRIPT)
    assert names_in(script) == ("SIZES", "Net", "build", "net")
    script.write_text("def half(:")
    assert names_in(script) == ()


def test_command_line_is_that_of_the_choices(tmp_path):
    choices = ImportChoices(
        "net.py:Net", "out.onnx", "env/bin/python", True, "d.npz", "a=1x3 b=2", "batch, seq", "fill-mask"
    )
    assert choices.command.line == (
        "edgeopt import net.py:Net -o out.onnx --python env/bin/python --data d.npz --shape a=1x3 --shape b=2 "
        "--dynamic batch,seq --task fill-mask --trust"
    )
    assert ImportChoices("a.keras", "a.onnx").command.line == "edgeopt import a.keras -o a.onnx"


def test_model_is_written_beside_its_source_with_the_python_of_its_project(tmp_path):
    python = tmp_path / "project/.venv/bin/python"
    python.parent.mkdir(parents=True)
    python.touch()
    folder = tmp_path / "project/bert.base"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    script = tmp_path / "project/net.py"
    script.write_text(SCRIPT)
    for source, name in ((folder, "bert.base.onnx"), (script, "net.onnx"), (f"{script}:Net", "net.onnx")):
        found = choices_for(str(source), "another")
        assert (found.out, found.python) == (str(tmp_path / "project" / name), str(python))
    assert choices_for("package.models:Net", "another").out == str(Path.home() / "Net.onnx")
    assert choices_for(str(tmp_path / "a.keras"), "another").python == "another"


@pytest.mark.parametrize(
    ("name", "trust", "said"),
    [
        ("", False, "Choose a model."),
        ("net.py", False, "Name the class"),
        ("notes.txt", False, "not a model that can be imported"),
        ("forest.pkl", False, "is a pickle"),
        ("forest.pkl", True, ""),
        ("net.py:Net", False, ""),
        ("a.tflite", False, ""),
    ],
)
def test_what_is_missing_is_said(tmp_path, name, trust, said):
    (tmp_path / "net.py").touch()
    found = ImportChoices(str(tmp_path / name) if name else "", "out.onnx", trust=trust).problem
    assert said in found
    assert bool(found) == bool(said)


@pytest.mark.parametrize(
    "name",
    ["a.joblib", "a.pkl", "a.pt2", "a.pt", "net.py", "net.py:Net", "a.keras", "a.h5", "a.tflite", "tf", "hf"],
)
def test_each_source_is_dropped_as_one_and_an_onnx_model_is_not(tmp_path, name):
    for marker in ("tf/saved_model.pb", "hf/config.json", "net.py", "data.npz", name if "." in name else "x"):
        (tmp_path / marker).parent.mkdir(exist_ok=True)
        if ":" not in marker:
            (tmp_path / marker).touch()
    path = tmp_path / name
    found = sort_out([path, tmp_path / "data.npz"], has_model=False)
    assert (found.source, found.data, found.subject) == (str(path), tmp_path / "data.npz", None)
    (tmp_path / "plain.onnx").touch()
    assert sort_out([tmp_path / "plain.onnx"], has_model=False).source == ""
    assert "one model" in sort_out([tmp_path / "plain.onnx", path], has_model=False).refusal


def test_file_inside_a_saved_model_stands_for_its_folder(tmp_path):
    (tmp_path / "saved_model.pb").touch()
    assert sort_out([tmp_path / "saved_model.pb"], has_model=False).source == str(tmp_path)


def test_code_in_a_script_that_does_not_exist_is_refused(tmp_path):
    assert "does not exist" in sort_out([tmp_path / "none.py:Net"], has_model=False).refusal


def test_options_are_named_as_in_the_dialog():
    found = ending_in_the_app(Ending("failed", {}, "It runs code.", "Add --trust, or give --python."))
    assert found.next_step == "Add 'Trust its author', or give 'Python'."
