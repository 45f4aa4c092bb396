import re

import pytest

from edgeopt.measure.duties.records import Window
from edgeopt.measure.duties.sustained import judge


def windows(p50s_ms, busy=1.0, **series):
    """Of five seconds each; a series is one value for all, or one a window; from the sixth on `busy` so much."""
    told = [{n: v[k] if isinstance(v, list) else v for n, v in series.items()} for k in range(len(p50s_ms))]
    return [
        Window(5.0 * k, 5.0, 100, p50, 1.2 * p50, 1e3 * (busy if k > 5 else 1) / p50, **told[k])
        for k, p50 in enumerate(p50s_ms)
    ]


def test_a_speed_that_is_kept():
    found = judge(windows([10.0, 10.1, 9.9, 10.0, 10.2, 9.8] * 10, clock_hz=2e9))
    assert found.course == "kept its speed"
    assert found.speed_at_end == pytest.approx(1, abs=0.03)
    assert re.fullmatch(r"kept its speed: the last 60 s ran at 1\.\d\dx of the first", found.verdict)


def test_a_slow_spell_in_between_is_not_hidden():
    found = judge(windows([10.0] * 30 + [16.0] * 3 + [10.0] * 30, clock_hz=2e9))
    assert found.course == "kept its speed"
    assert "its slowest 5 s ran at 0.62x of the middle" in found.verdict


def test_throttling_is_said_with_when_and_what_the_clock_did():
    clocks = [2.4e9] * 48 + [1.7e9] * 48
    heat = [60.0 + k / 2 for k in range(48)] + [84.0] * 48
    found = judge(windows([10.0] * 48 + [14.1] * 48, clock_hz=clocks, temperature_c=heat))
    assert found.course == "slowed"
    assert found.speed_at_end == pytest.approx(0.709, abs=0.001)
    assert found.changed_after_s == 240
    assert found.verdict.startswith("slowed to 0.71x after 4 min, while the clock fell from 2.40 to 1.70 GHz")
    assert "the temperature rose from 63 to 84 °C" in found.verdict


def test_a_device_that_tells_nothing():
    found = judge(windows([10.0] * 6 + [12.0] * 6))
    assert found.verdict == "slowed to 0.83x after 30 s; this device reports neither its clock nor its temperature"


def test_others_are_named_when_they_took_the_cores():
    found = judge(windows([10.0] * 6 + [20.0] * 6, others_percent=[2.0] * 6 + [50.0] * 6, clock_hz=2e9))
    assert found.verdict == "slowed to 0.50x after 30 s, while other processes went from 2 to 50 % of the cores"


def test_ups_and_downs_are_no_course():
    found = judge(windows([10.0, 20.0, 11.0, 19.0, 10.0, 25.0, 12.0, 22.0, 24.0], others_percent=40.0))
    assert found.course == "no clear course"
    assert "went up and down" in found.verdict
    assert "other processes took 40 to 40 % of the cores" in found.verdict


def test_a_process_that_is_held_up_between_its_runs():
    found = judge(windows([10.0] * 18, busy=0.5))
    assert found.course == "kept its speed"
    assert "ran at 1.00x of the first (runs a second: 0.50x)" in found.verdict


def test_getting_faster():
    assert judge(windows([12.0] * 6 + [10.0] * 12)).course == "got faster"


@pytest.mark.parametrize("count", [0, 1, 5])
def test_too_short(count):
    assert judge(windows([10.0] * count)).course == "too short to tell"
