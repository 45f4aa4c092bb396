import numpy as np
import pytest

from edgeopt.data.samples import Samples, save_samples
from edgeopt.events import Progress
from edgeopt.quant.measured.proving.proof import Runner, compared, ranked

LIMIT_S = 30.0


@pytest.fixture
def samples(tmp_path):
    folder = tmp_path / "samples"
    save_samples(Samples({"x": np.ones((2, 1, 8), np.float32)}, {"x": 2}), folder)
    return folder


@pytest.fixture
def runner(null_model):
    def make(name, latency_ms=1.0, **faults):
        return Runner(name, null_model(name, latency_ms=latency_ms, **faults), "null", {})

    return make


@pytest.mark.timing
def test_the_quicker_one_is_called_faster_with_an_interval(runner, samples, tmp_path):
    told = []
    found = compared([runner("quick", 2.0), runner("slow", 6.0)], samples, tmp_path, LIMIT_S, told.append)

    speed = found.speeds["slow"]
    assert speed.verdict == "faster"
    assert 1 < speed.speedup.low <= speed.speedup.median
    assert 1.3 < speed.speedup.median < 6
    assert 2 <= speed.first_ms < speed.other_ms
    assert speed.other_ms / speed.first_ms == pytest.approx(speed.speedup.median)
    assert any(isinstance(event, Progress) for event in told)
    assert found.processes >= 3, "a process may be lucky for its whole life"
    assert len(found.taken["quick"].slices_ms) >= 4 * found.processes
    assert not found.warning


@pytest.mark.timing
def test_the_slower_one_is_called_slower(runner, samples, tmp_path):
    found = compared([runner("slow", 6.0), runner("quick", 2.0)], samples, tmp_path, LIMIT_S)

    assert found.speeds["quick"].verdict == "slower"


@pytest.mark.timing
def test_the_quickest_has_the_least_time(runner, samples, tmp_path):
    times = ranked([runner("a", 6.0), runner("b", 2.0), runner("c", 4.0)], samples, tmp_path)

    assert sorted(times, key=times.get) == [1, 2, 0]


def test_one_that_cannot_load_is_left_out_with_the_reason(runner, samples, tmp_path):
    missing = Runner("missing", tmp_path / "none.null.json", "null", {})

    assert list(ranked([missing, runner("a")], samples, tmp_path)) == [1]
    found = compared([runner("a"), missing], samples, tmp_path, LIMIT_S)
    assert not found.speeds
    assert "missing" in found.failures
    assert not ranked([missing], samples, tmp_path)


@pytest.mark.slow
def test_the_others_are_compared_where_one_cannot_load(runner, samples, tmp_path):
    found = compared(
        [runner("a", 2.0), runner("broken", fail="load"), runner("b", 6.0)], samples, tmp_path, LIMIT_S
    )

    assert list(found.speeds) == ["b"]
    assert found.speeds["b"].verdict == "faster"
    assert "as planted" in found.failures["broken"]
    assert compared([runner("broken", fail="load"), runner("b")], samples, tmp_path, LIMIT_S).speeds == {}
