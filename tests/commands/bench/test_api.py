import json

import numpy as np
import pytest

import edgeopt
from edgeopt.commands.bench.api import bench
from edgeopt.commands.bench.saved import read_saved
from edgeopt.errors import UsageError
from edgeopt.measure.report import Limits


def test_two_models_in_turns_from_python(null_model, tmp_path):
    feeds = ({"x": np.full((1, 8), k, np.float32)} for k in range(3))
    said = []
    report = edgeopt.bench(
        null_model("fast", latency_ms=1), against=null_model("slow", latency_ms=4), data=feeds, rounds=8,
        save=tmp_path / "run.json", emit=said.append,
    )  # fmt: skip
    assert [side.name for side in report.sides] == ["fast.null.json", "slow.null.json"]
    assert report.comparisons[0].verdict != "slower"
    assert "3 samples" in report.data
    assert said
    assert read_saved(tmp_path / "run.json") == report


def test_what_is_asked_is_what_the_command_line_would_read(monkeypatch):
    asked = []
    monkeypatch.setattr("edgeopt.commands.bench.api.measure", lambda request, _emit: asked.append(request))
    bench("m.onnx", against=["a.onnx", "threads=1"], options={"threads": 2, "spin": False}, concurrency=(1, 2))
    (request,) = asked
    assert (request.against, request.concurrency) == (("a.onnx", "threads=1"), "1,2")
    assert request.options == ("threads=2", "spin=off")


def test_unknown_and_missing_arguments_are_refused():
    with pytest.raises(UsageError, match="Missing argument"):
        edgeopt.bench()
    with pytest.raises(TypeError, match="nonsense"):
        edgeopt.bench("m.onnx", nonsense=1)


def test_wrong_wishes_are_said_before_anything_runs(tmp_path):
    (tmp_path / "m.null.json").write_text(json.dumps({}))
    with pytest.raises(UsageError, match="needs a rate"):
        edgeopt.bench(tmp_path / "m.null.json", duty="paced")
    with pytest.raises(UsageError, match="--rounds must be from 6 to 1000, not 0"):
        edgeopt.bench(tmp_path / "m.null.json", rounds=0)


@pytest.mark.slow
def test_limits_are_judged_and_nothing_is_raised(null_model):
    feeds = [{"x": np.full((1, 8), k, np.float32)} for k in range(3)]
    report = edgeopt.bench(
        null_model("slow", latency_ms=4), against=null_model("fast", latency_ms=1), data=feeds,
        max_slowdown=0.02, min_speedup="1.1x",
    )  # fmt: skip
    assert report.judgement.limits == Limits(0.02, 1.1)
    assert [each.state for each in report.judgement.checks] == ["broken", "broken"]
    assert not report.judgement.passed
    with pytest.raises(UsageError, match="no other side"):
        edgeopt.bench(null_model("slow"), max_slowdown=0.02)
