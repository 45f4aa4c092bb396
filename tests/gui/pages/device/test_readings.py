from edgeopt.hw.load import LoadSample
from edgeopt_gui.pages.device.readings import NAMES, not_known, readings

FULL = LoadSample(41.6, 6 * 2**30, 16 * 2**30, 2.4e9, 61.3)
EMPTY = LoadSample(None, None, None, None, None, {"clock_hz": "the kernel has no cpufreq files"})


def test_values_with_their_units():
    assert [(r.name, r.text, r.note) for r in readings(FULL)] == [
        ("Load", "42 %", "of all cores"),
        ("Memory in use", "6 GiB", "of 16 GiB"),
        ("Clock", "2.40 GHz", "mean of the cores"),
        ("Temperature", "61 °C", "the hottest sensor"),
    ]
    assert tuple(r.name for r in readings(FULL)) == NAMES


def test_a_missing_value_says_why_and_is_never_zero():
    assert all(r.value is None and r.text == "not known" for r in readings(EMPTY))
    assert readings(EMPTY)[2].note == "The kernel has no cpufreq files."
    assert readings(EMPTY)[0].note == "The device does not report it."


def test_the_axis_of_memory_ends_at_what_there_is():
    memory = readings(FULL)[1]
    assert (memory.value, memory.top) == (6 * 2**30, 16 * 2**30)


def test_what_is_not_known_takes_one_line():
    assert not_known(readings(FULL)) == ""
    some = LoadSample(41.6, 1, 2, None, None, {"clock_hz": "the kernel has no cpufreq files"})
    told = "Not known: clock (the kernel has no cpufreq files); temperature (the device does not report it)."
    assert not_known(readings(some)) == told
