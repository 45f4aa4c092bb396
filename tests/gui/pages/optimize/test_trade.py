"""What is given up for a candidate that did not win."""

import msgspec
import pytest

from edgeopt_gui.pages.optimize.result import Interval, Memory, read_result
from edgeopt_gui.pages.optimize.trade import trade_of


@pytest.fixture
def pair(result):
    """The winner, and one that is slower and smaller."""
    winner = next(each for each in result.candidates if each.candidate == result.winner)
    candidate = msgspec.structs.replace(winner.candidate, variant="other")
    other = msgspec.structs.replace(
        winner,
        candidate=candidate,
        status="lost",
        speedup=Interval(1.5),
        accuracy_db=33.1,
        memory=Memory(20 << 20),
        size_bytes=1 << 20,
    )
    winner = msgspec.structs.replace(
        winner,
        speedup=Interval(3.0),
        accuracy_db=128.9,
        memory=Memory(30 << 20),
        size_bytes=1 << 20,
    )
    return winner, other


def told(result, winner, other):
    return trade_of(other, msgspec.structs.replace(result, candidates=(winner, other)))


def test_speed_accuracy_and_memory_are_held_against_the_winner(result, pair):
    assert told(result, *pair) == (
        "Instead of the winner: 50 % slower, accuracy 33.1 dB instead of 128.9 dB, "
        "memory 20 MiB instead of 30 MiB."
    )


@pytest.mark.parametrize("status", ["below the floor", "over a limit", "failed", "not tried"])
def test_what_may_not_be_delivered_has_no_trade(result, pair, status):
    winner, other = pair
    assert told(result, winner, msgspec.structs.replace(other, status=status)) == ""
    assert told(result, winner, winner) == ""


def test_a_search_that_is_not_cached_delivers_no_other_candidate(found, pair):
    assert told(read_result({**found, "is_cached": False}), *pair) == ""


def test_beside_what_runs_today_it_is_held_against_the_model(found, pair):
    today = {**found["winner"], "variant": "current"}
    result = read_result({**found, "winner": today})
    assert told(result, *pair) == "It had 1.50x the speed of your model."
