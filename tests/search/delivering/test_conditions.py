from types import SimpleNamespace

import pytest

from edgeopt.measure.stats import Interval
from edgeopt.search.aim import Aim
from edgeopt.search.delivering.deliver import told, wins
from edgeopt.search.objectives import Limits, objective_named
from edgeopt.search.outcome import Candidate

TWO = Candidate("source", "onnxruntime-cpu")
ONE = Candidate("cleaned", "onnxruntime-cpu", {"threads": 1})


AIM = Aim(objective_named("latency"), Limits())


def today_with(threads):
    """What runs today takes so many threads; None: as many as there are."""
    options = {} if threads is None else {"threads": threads}
    return SimpleNamespace(deployment=SimpleNamespace(run=SimpleNamespace(options=options)))


def proof_of(low, verdict="faster"):
    ratio = Interval(low + 0.05, low, low + 0.1, 22)
    return SimpleNamespace(
        by_size=(),
        verdict="no difference seen",
        speedup=ratio,
        current=ratio,
        current_verdict=verdict,
        figure=None,
    )


@pytest.mark.parametrize(
    ("threads", "candidate", "low", "won"),
    [
        (1, TWO, 1.05, False),
        (1, TWO, 1.12, False),
        (1, TWO, 1.20, True),
        (1, ONE, 1.05, True),
        (None, TWO, 1.05, True),
        (None, TWO, 0.99, False),
    ],
    ids=[
        "a-core-for-little",
        "a-core-for-what-a-race-asks",
        "a-core-for-more",
        "one-for-one",
        "several-for-several",
        "not-sure",
    ],
)
def test_to_take_more_cores_than_what_runs_today_must_be_worth_them(threads, candidate, low, won):
    today, proof = today_with(threads), proof_of(low, "faster" if low > 1 else "no difference seen")
    assert wins(AIM, today, proof, candidate) is won
    assert ("the gain of the other cores" in told(AIM, today, proof, candidate)) == (
        threads == 1 and candidate is TWO
    )


@pytest.mark.parametrize("verdict", ["faster", "no difference seen", "too few rounds to tell", "slower"])
def test_only_what_is_proved_faster_than_the_source_wins(verdict):
    proof = SimpleNamespace(by_size=(), verdict=verdict, current=None, figure=None)
    assert wins(AIM, None, proof, TWO) is (verdict == "faster")
