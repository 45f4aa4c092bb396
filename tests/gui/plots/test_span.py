"""What the chart shows when it follows, is moved, or is zoomed."""

import pytest

from edgeopt_gui.plots.span import Span, moved, shown, stopped, zoomed

FIRST, LAST = 1000.0, 5000.0


def test_it_follows_the_newest_sample():
    assert shown(Span(30.0), FIRST, LAST) == (LAST - 30, LAST)
    assert shown(Span(30.0), FIRST, LAST + 5) == (LAST - 25, LAST + 5)


def test_all_is_all():
    assert shown(Span(None), FIRST, LAST) == (FIRST, LAST)
    assert shown(Span(None), FIRST, FIRST) == (FIRST, FIRST + 10)


def test_going_back_stops_following_and_going_forward_to_the_end_follows_again():
    back = moved(Span(100.0), -0.5, FIRST, LAST)
    assert not back.follows
    assert shown(back, FIRST, LAST + 60) == (LAST - 150, LAST - 50)
    assert moved(back, 0.6, FIRST, LAST) == Span(100.0)


def test_one_cannot_get_lost_before_the_first_sample():
    span = Span(100.0)
    for _ in range(1000):
        span = moved(span, -1.0, FIRST, LAST)
    assert shown(span, FIRST, LAST)[1] == FIRST


def test_zoom_keeps_what_lies_under_the_pointer():
    before = Span(100.0, 3000.0)
    after = zoomed(before, 0.5, 2925.0, FIRST, LAST)
    begin, end = shown(after, FIRST, LAST)
    assert end - begin == pytest.approx(50)
    assert (2925 - begin) / (end - begin) == pytest.approx(0.25)


def test_zoom_while_following_goes_on_following():
    assert zoomed(Span(100.0), 2.0, 4950.0, FIRST, LAST) == Span(200.0)
    assert zoomed(Span(100.0, 3000.0), 2.0, None, FIRST, LAST) == Span(200.0, 3000.0)


def test_zoom_has_ends():
    span = Span(100.0)
    for _ in range(100):
        span = zoomed(span, 0.5, None, FIRST, LAST)
    assert span.length_s == 1.0


def test_stopping_keeps_the_stretch():
    assert shown(stopped(Span(30.0), FIRST, LAST), FIRST, LAST + 100) == (LAST - 30, LAST)


def test_it_grows_from_the_first_sample_until_it_has_its_length():
    assert shown(Span(30.0), FIRST, FIRST + 3) == (FIRST, FIRST + 10)
    assert shown(Span(30.0), FIRST, FIRST + 20) == (FIRST, FIRST + 20)
    assert shown(Span(30.0), FIRST, FIRST + 40) == (FIRST + 10, FIRST + 40)
    assert shown(Span(5.0), FIRST, FIRST + 1) == (FIRST, FIRST + 5)


def test_zooming_out_of_what_still_grows_makes_it_longer():
    assert zoomed(Span(30.0), 2.0, None, FIRST, FIRST + 12) == Span(60.0)
    assert zoomed(Span(30.0), 0.5, None, FIRST, FIRST + 12) == Span(6.0)
