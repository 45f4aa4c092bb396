import threading
import time
from types import SimpleNamespace

import pytest

from edgeopt.search.delivering.deliver import in_turn
from edgeopt.search.delivering.legs import LEGS


@pytest.fixture
def search():
    told = []
    made = SimpleNamespace(stop=threading.Event(), told=told, tell=told.append, left_s=60.0)
    made.until = lambda _share: time.monotonic() + made.left_s
    return made


def test_as_many_prove_themselves_as_there_are_legs_for(search):
    assert list(in_turn(search, "abcdef")) == list(zip("abcdef", LEGS, strict=False))
    assert search.told == []


def test_after_the_time_limit_nobody_but_the_first_does_and_it_is_told(search):
    taken = []
    for entry, _ in in_turn(search, "abcdef"):
        taken.append(entry)
        search.left_s = -1.0 if entry == "b" else search.left_s
    assert taken == ["a", "b"]
    (sentence,) = search.told
    assert "2 more candidates that raced well were not measured again" in sentence

    assert [entry for entry, _ in in_turn(search, "ab")] == ["a"]
    assert "1 more candidate that raced well was not" in search.told[1]

    search.told.clear()
    assert [entry for entry, _ in in_turn(search, "a")] == ["a"]
    assert search.told == []
