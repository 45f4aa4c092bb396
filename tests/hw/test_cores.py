from pathlib import Path

import msgspec
import pytest

from edgeopt.errors import UsageError
from edgeopt.hw.host import RecordedHost
from edgeopt.hw.probe import probe
from edgeopt.hw.topology import cores_for

FAKEROOTS = Path(__file__).parents[1] / "fakeroots"


def device(board):
    return probe(RecordedHost(FAKEROOTS / board))


@pytest.mark.parametrize(
    ("board", "usable", "physical", "performance"),
    [
        ("raspberry-pi-5", 4, 4, (4, ())),
        ("amd-zen4", 12, 6, (6, ())),
        ("intel-hybrid", 8, 6, (2, (0, 1, 2, 3))),
        ("rockchip-rk3588", 8, 8, (4, (4, 5, 6, 7))),
        ("arm-sve2", 9, 9, (5, (8, 4, 5, 6, 7))),
        ("macos-m2", 8, 8, (4, (4, 5, 6, 7))),
        # A container's share of time counts, and is no set of cores.
        ("container-cgroup2", 1, 1, (1, ())),
        # The kinds of its cores are not known, their number is.
        ("windows-11", 16, 12, (12, ())),
    ],
)
def test_what_the_words_stand_for(board, usable, physical, performance):
    known = device(board)
    assert cores_for("usable", known) == (usable, ())
    assert cores_for("physical", known) == (physical, ())
    assert cores_for("performance", known) == performance


def test_only_the_cores_that_this_process_may_use():
    known = device("rockchip-rk3588")
    limits = msgspec.structs.replace(known.limits, affinity="2-5", affinity_cores=4, usable_cores=4)
    narrow = msgspec.structs.replace(known, limits=limits)
    assert cores_for("performance", narrow) == (2, (4, 5))
    assert cores_for("physical", narrow) == (4, ())


def test_where_no_fast_core_is_left_the_number_still_is():
    known = device("rockchip-rk3588")
    limits = msgspec.structs.replace(known.limits, affinity="0-1", affinity_cores=2, usable_cores=2)
    assert cores_for("performance", msgspec.structs.replace(known, limits=limits)) == (2, ())


def test_another_word():
    with pytest.raises(UsageError, match="Unknown choice of cores 'fast'"):
        cores_for("fast", device("raspberry-pi-5"))
