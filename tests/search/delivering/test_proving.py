import pytest

from edgeopt.bench.stats import Interval
from edgeopt.search.delivering.proving import LOOKS, is_settled


def ratio(low, median, high):
    return Interval(median, low, high, rounds=11, confidence=0.99)


CLEAR, SLOWER, PROMISING, NOTHING = (
    ratio(1.1, 1.2, 1.3),
    ratio(0.7, 0.8, 0.9),
    ratio(0.9, 1.1, 1.3),
    ratio(0.9, 1, 1.1),
)


@pytest.mark.parametrize(
    ("ratios", "at"),
    [
        ([CLEAR], 1),
        ([CLEAR, SLOWER], 1),
        ([PROMISING], None),
        ([NOTHING], 6),
        ([CLEAR, NOTHING], 6),
        ([CLEAR, PROMISING], None),
    ],
)
def test_rounds_go_on_while_it_is_not_clear_and_worth_it(ratios, at):
    found = (looks for looks in range(1, LOOKS[0] + 1) if is_settled(ratios, looks))
    assert next(found, None) == at
