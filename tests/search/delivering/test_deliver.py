import threading
import time

import pytest

from edgeopt.bench.terms import PROOF
from edgeopt.events import ignore
from edgeopt.search.clock import Clock
from edgeopt.search.delivering.deliver import in_turn
from edgeopt.search.notes import Notes
from edgeopt.search.stopping import Ending


@pytest.fixture
def notes():
    return Notes(ignore)


def ending_in(seconds):
    return Ending(threading.Event(), Clock(time.monotonic(), seconds), None, ignore)


def test_as_many_prove_themselves_as_there_are_legs_for(notes):
    assert list(in_turn(ending_in(60.0), notes, "abcdef")) == list(zip("abcdef", PROOF.legs, strict=False))
    assert notes.kept == []


def test_after_the_time_limit_nobody_but_the_first_does_and_it_is_told(notes):
    taken, ending = [], ending_in(60.0)
    for entry, _ in in_turn(ending, notes, "abcdef"):
        taken.append(entry)
        ending.clock = Clock(0.0, 0.0) if entry == "b" else ending.clock
    assert taken == ["a", "b"]
    (sentence,) = notes.kept
    assert "2 more candidates that raced well were not measured again" in sentence

    assert [entry for entry, _ in in_turn(ending, notes, "ab")] == ["a"]
    assert "1 more candidate that raced well was not" in notes.kept[1]

    notes.kept.clear()
    assert [entry for entry, _ in in_turn(ending, notes, "a")] == ["a"]
    assert notes.kept == []
