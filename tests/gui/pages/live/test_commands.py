"""The command lines are those that a person would type."""

from pathlib import Path

from edgeopt_gui.pages.live import commands

MODEL, DATA = Path("a model.onnx"), Path("data.npz")


def test_what_runs_here():
    assert commands.watch_here(MODEL, None, None).line == "edgeopt watch 'a model.onnx'"
    assert commands.watch_here(MODEL, DATA, 30.0).line == "edgeopt watch 'a model.onnx' --data data.npz --rate 30"


def test_what_is_asked_of_agents():
    assert commands.watch_agent("device", None, DATA).line == "edgeopt fleet watch --url device"
    sent = "edgeopt fleet watch --url device --send 0 --data data.npz"
    assert commands.watch_agent("device", 0.0, DATA).line == sent
    other = "edgeopt fleet watch --url device --model other --send 5"
    assert commands.watch_agent("device", 5.0, None, "other").line == other
    assert commands.deploy(Path("m.edgeopt"), "device").line == "edgeopt fleet deploy m.edgeopt --url device"
    assert commands.roll_back("device").line == "edgeopt fleet rollback --url device"
    back = "edgeopt fleet rollback --url device --model other"
    assert commands.roll_back("device", "other").line == back
    assert commands.status("device").line == "edgeopt fleet status --url device"
