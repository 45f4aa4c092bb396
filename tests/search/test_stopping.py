import time

import numpy as np
import pytest

from edgeopt.bundle.read import read_bundle
from edgeopt.errors import StoppedError
from edgeopt.events import Log, Progress, ignore
from edgeopt.measure.terms import Turns
from edgeopt.search.optimize import optimize
from edgeopt.search.racing.race import race
from edgeopt.search.stopping import Stop
from tests.conftest import write_onnx


def test_the_first_interrupt_counts_once_there_is_something_to_hand_out():
    stop = Stop()
    assert not stop.interrupt()
    assert not stop.is_set()
    stop.ready = True
    assert stop.interrupt()
    assert stop.is_set()


def test_a_race_that_is_stopped_has_just_enough_rounds_to_choose_by(track):
    entry, stop = track.enter("ab"), Stop()
    stop.set()
    turns = Turns("many", (50,), 2, keeps=(0.0,))
    found = race(track.baseline, [entry], turns, ignore, "racing", time.monotonic() + 60, stop)
    assert found == [entry]
    assert len(entry.contender.slices_ms) == 2


@pytest.fixture
def slowed(tmp_path, monkeypatch, quick_profile):
    """What to search, where the cleaned model is surely faster than the source, with a cache of its own."""
    monkeypatch.setenv("EDGEOPT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("EDGEOPT_CACHE_LIMIT", "50MB")
    # Softmax in its parts, which ONNX Runtime leaves as they are and the exact rewrites put together.
    nodes = []
    for k in range(4):
        x, y = f"y{k}" if k else "x", f"y{k + 1}" if k < 3 else "y"
        nodes += [
            ("ReduceMax", [x], [f"most{k}"], {"axes": [1]}),
            ("Sub", [x, f"most{k}"], [f"less{k}"], {}),
            ("Exp", [f"less{k}"], [f"exp{k}"], {}),
            ("ReduceSum", [f"exp{k}", "axes"], [f"sum{k}"], {}),
            ("Div", [f"exp{k}", f"sum{k}"], [y], {}),
        ]
    axes = {"axes": np.array([1], np.int64)}
    path = write_onnx(tmp_path / "m.onnx", nodes, axes, {"x": [64, 2048]}, {"y": [64, 2048]})
    profile = tmp_path / "quick.toml"
    profile.write_text(quick_profile.read_text().replace(', "lowered", "int8", "int8-dynamic"', ""))
    return {"model": path, "out": tmp_path / "out.edgeopt", "profile": profile, "time_limit_s": 60}


@pytest.mark.timing
def test_what_is_best_when_it_is_stopped_is_proved_handed_out_and_not_kept_as_the_end(slowed):
    stop, said = Stop(), []

    def tell(event):
        said.append(event)
        if isinstance(event, Progress) and event.phase == "racing":
            stop.set()

    outcome = optimize(**slowed, stop=stop, emit=tell)
    assert outcome.verdict == "faster"
    assert outcome.winner.variant == "cleaned"
    assert outcome.proof.speedup.low > 1
    assert "The search was stopped after" in outcome.cut_short
    assert outcome.summary.endswith(outcome.cut_short)
    assert read_bundle(slowed["out"]).deployment.summary == outcome.summary
    assert outcome.winner.name in outcome.front
    assert any(isinstance(event, Log) and event.message.startswith("Stopping: ") for event in said)
    assert "tuning" not in {getattr(event, "phase", "") for event in said}
    # A second one searches; and while nobody but the source takes part there is nothing to hand out.
    stop.clear()
    again = []

    def stop_at_once(event):
        again.append(event)
        if isinstance(event, Progress) and event.phase == "making variants":
            stop.set()

    with pytest.raises(StoppedError, match="nothing is proved faster yet") as caught:
        optimize(**{**slowed, "out": slowed["out"].with_name("b.edgeopt")}, stop=stop, emit=stop_at_once)
    assert (caught.value.exit_code, caught.value.code) == (130, "cancelled")
    assert not slowed["out"].with_name("b.edgeopt").exists()
