from hypothesis import given, strategies

from edgeopt.data.split import split


def places(found):
    return (
        set(range(found.calibration_count)),
        set(range(found.check_first, found.check_first + found.check_count)),
        set(found.prove),
    )


@given(strategies.integers(12, 5000))
def test_no_sample_does_two_of_these(count):
    found = split(count, given=True)
    calibration, check, prove = places(found)
    assert calibration
    assert check
    assert prove
    assert not calibration & check
    assert not calibration & prove
    assert not check & prove
    assert calibration | check | prove <= set(range(count))


@given(strategies.integers(1, 5000), strategies.booleans())
def test_all_are_samples_that_exist(count, given):
    found = split(count, given)
    calibration, check, prove = places(found)
    assert check
    assert prove
    assert calibration | check | prove <= set(range(count))


@given(strategies.integers(1, 500))
def test_generated_samples_never_calibrate(count):
    assert split(count, given=False).calibration_count == 0


@given(strategies.integers(4, 11))
def test_few_samples_calibrate_with_one_half_and_are_judged_by_the_other(count):
    found = split(count, given=True)
    calibration, check, prove = places(found)
    assert found.is_shared
    assert check == prove
    assert calibration
    assert not calibration & check
    assert calibration | check == set(range(count))


@given(strategies.integers(1, 3))
def test_too_few_samples_never_calibrate(count):
    assert split(count, given=True).calibration_count == 0


def test_the_first_half_calibrates():
    assert split(32, given=True).calibration_count == 16
    assert split(10_000, given=True).calibration_count == 100
