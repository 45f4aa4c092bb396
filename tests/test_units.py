import pytest

from edgeopt import units


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1.0 KiB"),
        (46_588, "45.5 KiB"),
        (104_800_000, "99.9 MiB"),
        (104_900_000, "100 MiB"),
        (1023.9 * 2**20, "1.0 GiB"),
        (32 * 2**20, "32 MiB"),
        (25_276_514_304, "23.5 GiB"),
        (3 * 2**50, "3072 TiB"),
    ],
)
def test_sizes_have_three_digits(size_bytes, text):
    assert units.size(size_bytes) == text


def test_counts_agree_with_their_noun():
    assert [units.count(n, "node") for n in (0, 1, 12_345)] == ["0 nodes", "1 node", "12,345 nodes"]
    assert units.count(1_000) == "1,000"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (11_645, "11,645"),
        (999_999, "999,999"),
        (4_600_000, "4.6 million"),
        (325_000_000, "325 million"),
        (7_240_000_000, "7.2 billion"),
    ],
)
def test_large_counts_become_words(number, text):
    assert units.short_count(number) == text


def test_clocks():
    assert units.clock(2_450_000_000) == "2.45 GHz"
    assert units.clock(600_000_000) == "600 MHz"


def test_a_candidate_that_looked_faster_says_why_it_is_behind():
    assert units.behind(1.03) == "3 % faster, too close"
    assert units.behind(1.03, "b").startswith("3 % faster than b: too close")
    assert units.behind(1 / 1.03, "b") == "3 % slower than b", (
        "what is 3 % faster for one is 3 % slower for the other"
    )
    assert units.behind(0.9, "b") == "11 % slower than b"
    assert units.behind(0.3, "b") == "3.3x the latency of b"
    assert units.behind(0.01) == "100x the latency"
    assert units.speed_difference(2.13) == "2.1x the speed"
    assert units.behind(0.0, "b") == "much slower than b"
    assert units.behind(1.01, "b") == "tied with b"


def test_times_have_the_unit_of_their_size():
    """The summary of a search said `0.00595 ms instead of 0.00635 ms`."""
    assert units.time_instead(0.00595, 0.00635) == "5.95 µs instead of 6.35 µs"
    assert units.time_instead(1.2, 1204.4) == "1.20 ms instead of 1,204 ms"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""),
        (0.2, ""),
        (-3.0, ""),
        (12.4, "about 12 s left"),
        (89, "about 89 s left"),
        (600, "about 10 min left"),
    ],
)
def test_time_left_claims_no_bound(seconds, text):
    assert units.time_left(seconds) == text
