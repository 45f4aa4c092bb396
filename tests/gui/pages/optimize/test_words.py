"""Numbers in words."""

import pytest

from edgeopt_gui.pages.optimize import words


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
    ("value", "text"), [(3.193, "3.19x"), (12.34, "12.3x"), (155.7, "156x"), (None, words.NOTHING)]
)
def test_speeds(value, text):
    assert words.times(value) == text


def test_a_change_has_a_sign_and_a_tiny_one_is_none():
    assert words.change(100, 30).endswith("70 %")
    assert words.change(100, 30)[0] == "−"  # noqa: RUF001 - a true minus
    assert words.change(100, 161) == "+61 %"
    assert words.change(100, 100.2) == "same"
    assert words.change(None, 5) == ""


@pytest.mark.parametrize(
    ("value", "text"), [(None, ""), (0.2, ""), (9.6, "at most 10 s left"), (90, "at most 1 min 30 s left")]
)
def test_time_left(value, text):
    assert words.seconds_left(value) == text


def test_what_is_not_known_is_a_dash():
    assert {words.milliseconds(None), words.memory(None), words.accuracy(None)} == {words.NOTHING}
