import pytest

from edgeopt.errors import UsageError
from edgeopt.measure.messages import Memory
from edgeopt.search.objectives import Limits, excess, limits_from

MIB = 2**20


@pytest.mark.parametrize(
    ("given", "takes", "says"),
    [
        ({}, {}, ""),
        ({"max_memory_mib": 64}, {"memory": Memory(peak_bytes=64 * MIB)}, ""),
        ({"max_memory_mib": 64}, {"memory": Memory(peak_bytes=65 * MIB)}, "65 MiB of memory; the limit is 64"),
        ({"max_memory_mib": 64}, {"memory": Memory()}, ""),
        ({"max_size_mib": 0.5}, {"size_bytes": MIB}, "its files have 1 MiB; the limit is 0.5"),
        ({"max_latency_ms": 2}, {"latency_ms": 2.5}, "a run takes 2.5 ms; the limit is 2"),
        ({"max_latency_ms": 2, "max_size_mib": 3}, {"latency_ms": 1.0, "size_bytes": 2 * MIB}, ""),
    ],
)
def test_what_is_over_a_limit_is_said_in_its_unit(given, takes, says):
    found = excess(limits_from(**given), **takes)
    assert says in found
    assert bool(found) == bool(says)


def test_all_that_is_over_is_said():
    found = excess(Limits(1, 1, 1.0), Memory(peak_bytes=2), 2, 2.0)
    assert found.count("the limit is") == 3


@pytest.mark.parametrize("name", ["max_memory_mib", "max_size_mib", "max_latency_ms"])
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_nothing_can_keep_to_less_than_something(name, value):
    with pytest.raises(UsageError, match="not a possible limit"):
        limits_from(**{name: value})
