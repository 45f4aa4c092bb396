import pytest

from edgeopt import events
from edgeopt.bench.duel import Side, duel
from edgeopt.errors import TrialError

pytestmark = pytest.mark.alone


@pytest.fixture
def side(load_null):
    def make(name, **behaviour):
        return Side(name, load_null(name, **behaviour))

    return make


def test_two_sides_are_measured_and_the_first_is_compared_with_the_second(side):
    told = []
    result = duel([side("quick", latency_ms=2), side("slow", latency_ms=6)], 6, told.append)
    quick, slow = result.sides
    assert (quick.subject, slow.subject) == ("quick", "slow")
    assert result.verdict == "faster"
    assert 2.4 < result.speedup.median < 3.6
    assert result.speedup.rounds == 6
    for measured, least in ((quick, 2), (slow, 6)):
        assert least <= measured.p50_ms <= measured.p90_ms <= measured.p99_ms
        assert measured.runs >= 6
    metrics = [event for event in told if isinstance(event, events.Metric)]
    assert [metric.subject for metric in metrics] == ["quick", "slow"] * 6
    steps = [event.done for event in told if isinstance(event, events.Progress) and event.total]
    assert steps == list(range(6))


def test_one_side_alone_is_compared_with_nobody(side):
    result = duel([side("alone", latency_ms=1)], 3, events.ignore)
    assert len(result.sides) == 1
    assert (result.speedup, result.verdict) == (None, "")


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ({"crash": "load"}, "'bad' crashed: SIGSEGV"),
        ({"fail": "run"}, "'bad' failed: The null model fails while it should run, as planted."),
    ],
)
def test_a_side_that_cannot_run_is_named_with_its_reason(side, fault, sentence):
    with pytest.raises(TrialError) as caught:
        duel([side("good"), side("bad", **fault)], 3, events.ignore)
    assert caught.value.message.startswith(sentence)
    assert ".." not in caught.value.message
    assert caught.value.hint


def test_nothing_is_left_behind(side, tmp_path, monkeypatch):
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    duel([side("alone")], 3, events.ignore)
    with pytest.raises(TrialError):
        duel([side("bad", crash="load")], 3, events.ignore)
    assert list(folder.iterdir()) == []
