import pytest

from edgeopt.commands.cost.cost import check_terms, read_load, read_prices
from edgeopt.commands.cost.figures import Terms
from edgeopt.errors import UsageError


@pytest.mark.parametrize(
    ("text", "per_s"), [("5000/s", 5000), ("5000", 5000), ("6k/min", 100), ("86.4M/day", 1000), ("3600 / h", 1)]
)
def test_loads(text, per_s):
    assert read_load(text) == pytest.approx(per_s)


@pytest.mark.parametrize("text", ["", "fast", "5/year", "-3/s", "0/s", "1.2.3/s", "5//s", "1e999"])
def test_what_is_no_load_is_said(text):
    with pytest.raises(UsageError, match="is not a load"):
        read_load(text)


def test_prices_for_all_and_for_one():
    assert read_prices(["0.5", "b=2"], ["a", "b"]) == {"a": 0.5, "b": 2.0}


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        ([], "Missing option"),
        (["c=1"], "no device 'c'"),
        (["a=1"], "no price for 'b'"),
        (["1", "2"], "for all is given twice"),
        (["a=1", "a=2"], "of 'a' is given twice"),
        (["cheap"], "is not a price"),
        (["-1"], "above 0, not -1"),
        (["0"], "above 0, not 0"),
        (["inf"], "above 0, not inf"),
    ],
)
def test_what_is_wrong_with_prices_is_said(texts, says):
    with pytest.raises(UsageError, match=says) as raised:
        read_prices(texts, ["a", "b"])
    assert raised.value.hint


def test_a_currency_in_small_letters_will_do():
    assert check_terms(Terms(currency="eur")).currency == "EUR"


@pytest.mark.parametrize(
    ("terms", "says"),
    [
        ({"currency": "EUX"}, "no currency 'EUX'"),
        ({"utilization_percent": 0}, "--utilization must be above 0"),
        ({"utilization_percent": 101}, "at most 100"),
        ({"hours_per_day": 25}, "at most 24"),
        ({"batch": 0}, "--batch must be 1 or more"),
        ({"devices": 0}, "--devices must be 1 or more"),
        ({"devices": 2, "load_per_s": 1}, "exclude each other"),
        ({"pay_back_months": -1}, "--pay-back-months must be above 0"),
        ({"engineering_hours": 5}, "needs --rate"),
        ({"hourly_rate": 5}, "needs --engineering-hours"),
        ({"engineering_hours": -5, "hourly_rate": 5}, "0 or more, not -5"),
    ],
)
def test_terms_that_make_no_sense_are_said(terms, says):
    with pytest.raises(UsageError, match=says) as raised:
        check_terms(Terms(**terms))
    assert raised.value.hint
