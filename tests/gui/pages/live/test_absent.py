"""What stands where the curves would be."""

from pathlib import Path

from edgeopt_gui.pages.live.absent import awaited, nothing_of
from edgeopt_gui.subject import Subject


def test_there_is_a_way_on_whatever_is_open():
    assert nothing_of("", None)[1:] == ("app.open-model", "live.connect")
    model = nothing_of("", Subject(Path("a/m.onnx"), "model"))
    assert model.sentence.startswith("Run m.onnx")
    assert model[1:] == ("live.start", "live.connect")
    assert nothing_of("http://pi:8080", None)[1:] == ("live.start", "live.disconnect")


def test_what_is_waited_for_is_said():
    assert awaited("http://pi:8080", "", "x") == "Connecting to the agent at http://pi:8080…"
    assert awaited("", "Loading m.onnx", "m.onnx") == "Loading m.onnx…"
    assert awaited("", "", "m.onnx") == "Starting m.onnx…"
