"""Real processes of null models: what one pair of them says of short runs is asked again of fresh ones."""

import time
from types import SimpleNamespace

import pytest

from edgeopt.search.delivering.legs import Sides, unsteady

ROUNDS, SPAN_MS = 3, 5.0


@pytest.fixture
def first(track):
    """A pair that says 1.1x, whatever the truth is."""
    old, new = (track.enter(name, latency_ms=0.5).contender for name in ("old", "new"))
    old.slices_ms, new.slices_ms = [1.1] * 11, [1.0] * 11
    return Sides(new, (old,))


def search_of(left_s=60.0, stopped=False):
    end = time.monotonic() + left_s
    return SimpleNamespace(until=lambda _: end, stop=SimpleNamespace(is_set=lambda: stopped))


def starter(track, old_ms, new_ms):
    started = []

    def start(_):
        number = len(started)
        started.append(number)
        old, new = (
            track.enter(f"{name}{number}", latency_ms=ms).contender for name, ms in (("a", old_ms), ("b", new_ms))
        )
        return Sides(new, (old,))

    return start, started


def doubts(search, sides, start):
    return unsteady(search, sides, sides.others, start, ROUNDS, SPAN_MS)


@pytest.mark.alone
def test_what_fresh_processes_do_not_say_again_is_doubted(track, first):
    start, started = starter(track, old_ms=0.4, new_ms=0.8)
    assert doubts(search_of(), first, start) == [first.rivals[0]]
    assert len(started) == 1
    assert len(first.bundle.slices_ms) == 11 + ROUNDS


@pytest.mark.alone
def test_what_they_all_say_again_stands(track, first):
    start, started = starter(track, old_ms=0.8, new_ms=0.4)
    assert doubts(search_of(), first, start) == []
    assert len(started) == 3
    assert len(first.bundle.slices_ms) == len(first.rivals[0].slices_ms) == 11 + 3 * ROUNDS


def test_what_is_clear_or_long_is_not_asked_again(track, first):
    start, started = starter(track, old_ms=0.4, new_ms=0.8)
    first.rivals[0].slices_ms = [2.0] * 11
    assert doubts(search_of(), first, start) == []
    first.rivals[0].slices_ms, first.bundle.slices_ms = [11.0] * 11, [10.0] * 11
    assert doubts(search_of(), first, start) == []
    assert not started


@pytest.mark.alone
@pytest.mark.parametrize("search", [search_of(left_s=-1.0), search_of(stopped=True)], ids=["late", "stopped"])
def test_one_fresh_pair_is_asked_even_when_time_is_over(track, first, search):
    start, started = starter(track, old_ms=0.8, new_ms=0.4)
    assert doubts(search, first, start) == []
    assert len(started) == 1
