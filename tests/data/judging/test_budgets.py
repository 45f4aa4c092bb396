import pytest

from edgeopt.data.judging.goals import floor_from
from edgeopt.errors import UsageError


@pytest.mark.parametrize(
    ("text", "db"),
    [
        ("exact", 80), ("transparent", 30), ("balanced", 20), ("Transparent", 30), (" balanced ", 20),
        ("30dB", 30), ("30DB", 30), ("30 db", 30), ("30", 30), ("12.5dB", 12.5), ("150", 150), ("0.5", 0.5),
    ],
)  # fmt: skip
def test_floors(text, db):
    assert floor_from(text) == db


def test_a_budget_that_only_a_metric_of_the_task_can_judge():
    with pytest.raises(UsageError, match="is only allowed with a task metric") as raised:
        floor_from("Aggressive")
    assert "balanced (20 dB)" in raised.value.hint
    assert floor_from("aggressive", beside_metric=True) == 12


@pytest.mark.parametrize("text", ["", "dB", "loud", "0", "-30", "151", "nan", "inf", "30%", "30 dB dB", "1e9"])
def test_what_is_no_floor(text):
    with pytest.raises(UsageError, match="not an accuracy floor") as raised:
        floor_from(text)
    assert "transparent (30 dB)" in raised.value.hint
