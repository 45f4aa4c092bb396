import pytest

from edgeopt.commands.report.charts import Scale, scale_for, shortened


@pytest.mark.parametrize(
    ("values", "logarithmic"),
    [([1.0, 2.0], False), ([0.01, 5.0], True), ([3.0], False), ([0.0, 0.0], False), ([-2.0, 40.0], False)],
)
def test_ticks_are_round_and_within(values, logarithmic):
    scale = scale_for(values, 0, 900)
    assert scale.logarithmic is logarithmic
    ticks = scale.ticks(8)
    assert 2 <= len(ticks) <= 8 or max(values) == min(values)
    assert all(scale.low <= tick <= scale.high for tick in ticks)
    assert all(float(f"{tick:.6g}") == tick for tick in ticks)


def test_a_hand_s_width_still_has_two_numbers():
    for high in (31.0, 1.7, 990.0):
        assert len(scale_for([high / 7, high], 60, 346).ticks(3)) >= 2


def test_places_keep_order_and_stay_inside():
    scale = Scale(1.0, 100.0, 10.0, 110.0, logarithmic=True)
    assert [scale.place(value) for value in (1.0, 10.0, 100.0, 1e6)] == [10.0, 60.0, 110.0, 110.0]


def test_a_long_name_keeps_both_ends():
    cut = shortened("the_first_of_very_many_layers_of_this_model", 100)
    assert cut.startswith("the_")
    assert cut.endswith("odel")
    assert len(cut) <= 14
