"""Numbers as people read them."""

import pytest

from edgeopt.measure.messages import Memory
from edgeopt.views import words


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0571, "57.1 µs"),
        (0.0042, "4.20 µs"),
        (0.182, "182 µs"),
        (1.5, "1.50 ms"),
        (45.6, "45.6 ms"),
        (1234, "1,234 ms"),
    ],
)
def test_latencies_have_three_digits(value, text):
    assert words.milliseconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(3.193, "3.19x"), (12.34, "12.34x"), (155.7, "156x"), (None, words.UNKNOWN)]
)
def test_speeds(value, text):
    assert words.ratio(value) == text


def test_memory_is_what_is_added_beside_the_whole_process():
    before, after = (Memory(peak_bytes=p << 20, added_bytes=a << 20) for p, a in ((59, 28), (73, 27)))
    assert words.memory(after) == "27 MiB (process 73 MiB)"
    assert words.memory_change(before, after) == "-3.6 %"
    assert words.memory(Memory(peak_bytes=73 << 20)) == "process 73 MiB"
    assert words.memory(None) == words.memory(Memory()) == words.UNKNOWN


def test_a_change_has_a_sign_and_a_tiny_one_is_none():
    assert words.change(100, 30) == "-70.0 %"
    assert words.change(100, 161) == "+61.0 %"
    assert words.change(100, 100.02) == "the same"
    assert words.change(None, 5) == words.UNKNOWN


def test_what_is_not_known_is_a_dash():
    assert {words.milliseconds(None), words.size(None), words.decibels(None)} == {words.UNKNOWN}
