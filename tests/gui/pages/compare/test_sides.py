"""Which sides can be compared, why others cannot, and the command lines."""

from pathlib import Path

import pytest

from edgeopt_gui.pages.compare.sides import Sides, kind_of

A, B = Path("a.onnx"), Path("b.edgeopt")
REPORT = Path("monday.json")


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.onnx", "model"), ("a.xml", "model"), ("a.edgeopt", "bundle"), ("a.json", "report")],
)
def test_a_side_is_what_its_name_says(name, kind):
    assert kind_of(Path(name)) == kind


@pytest.mark.parametrize(("sides", "letter"), [(Sides(), "A"), (Sides(None, B), "A"), (Sides(A), "B")])
def test_an_empty_side_is_named(sides, letter):
    assert sides.why_not().startswith(f"Side {letter} is empty: choose")
    assert sides.commands() == {}


@pytest.mark.parametrize("sides", [Sides(REPORT, A), Sides(A, REPORT)])
def test_a_saved_report_and_a_model_cannot_be_compared_and_the_reason_says_what_to_do(sides):
    why = sides.why_not()
    assert "monday.json is a saved bench report" in why
    assert "not interleaved" in why
    assert "edgeopt bench MODEL --save FILE.json" in why
    assert sides.commands() == {}


def test_one_file_twice_is_refused():
    assert "same file" in Sides(A, A).why_not()


def test_models_are_compared_analyzed_and_measured_in_turns():
    commands = Sides(A, B, Path("data.npz"), 5).commands()
    assert [command.line for command in commands.values()] == [
        "edgeopt compare a.onnx b.edgeopt --data data.npz",
        "edgeopt analyze a.onnx --quick",
        "edgeopt analyze b.edgeopt --quick",
        "edgeopt bench b.edgeopt --against a.onnx --data data.npz --time-limit 5",
    ]
    assert commands["bench"].measures
    assert commands["compare"].alone


def test_two_saved_reports_are_compared_without_measuring():
    sides = Sides(REPORT, Path("tuesday.json"), renames=("old=new",))
    (command,) = sides.commands().values()
    assert command.line == "edgeopt bench compare monday.json tuesday.json --name old=new"
    assert not command.measures


def test_sides_of_one_name_are_told_apart_by_their_folders():
    assert Sides(Path("x/a.onnx"), Path("y/a.onnx")).names == ("A: x/a.onnx", "B: y/a.onnx")
    assert Sides(A, B).names == ("A: a.onnx", "B: b.edgeopt")
