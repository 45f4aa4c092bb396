import pytest

from edgeopt.search.settings import time_limit_for


def test_larger_models_get_more_time_up_to_ten_minutes():
    assert time_limit_for(0) == time_limit_for(10_000_000) == 60
    assert [time_limit_for(mb * 10**6) for mb in (30, 90, 110)] == pytest.approx([120, 240, 260])
    assert time_limit_for(10**10) == 600


def test_a_target_with_slow_cores_gets_longer():
    assert time_limit_for(0, 180) == 180
    assert time_limit_for(30_000_000, 180) == pytest.approx(240)
    assert time_limit_for(10**10, 900) == 900
