from types import SimpleNamespace

import pytest

from edgeopt.errors import UsageError
from edgeopt.measure.messages import Memory
from edgeopt.search.objectives import OBJECTIVES, objective_named

RAN = SimpleNamespace(
    latencies_ms=[1.0] * 98 + [5.0, 9.0],
    memory=Memory(peak_bytes=3 * 2**20),
    loaded=SimpleNamespace(load_ms=20.0, first_run_ms=4.0),
    joules=[0.003, 0.004, 0.009],
)


@pytest.mark.parametrize(
    ("name", "figure", "shown"),
    [
        ("p99", 5.04, "5.04 ms"),
        ("memory", 3 * 2**20, "3 MiB"),
        ("size", 2**19, "0.5 MiB"),
        ("first-answer", 24.0, "24 ms"),
        ("energy", 0.004, "4 mJ"),
    ],
)
def test_each_is_one_figure_with_its_unit(name, figure, shown):
    objective = objective_named(name)
    found = objective.figure(RAN, 2**19)
    assert found == pytest.approx(figure)
    assert objective.shown(found) == shown


def test_contests_decide_latency_and_throughput():
    assert [each.name for each in OBJECTIVES if each.figure is None] == ["latency", "throughput"]
    assert objective_named("throughput").shown(42_760.3) == "42,760 samples/s"
    assert [each.name for each in OBJECTIVES if each.of_time] == ["latency", "throughput", "p99", "energy"]


def test_what_is_not_known_stays_so():
    nothing = SimpleNamespace(latencies_ms=[], memory=Memory(), joules=[])
    assert objective_named("energy").figure(nothing, 1) is None
    assert objective_named("p99").figure(nothing, 1) is None
    assert objective_named("memory").figure(nothing, 1) is None


def test_another_name_is_refused_with_the_nearest():
    with pytest.raises(UsageError, match="no objective 'memry'") as caught:
        objective_named("memry")
    assert "memory" in caught.value.hint
