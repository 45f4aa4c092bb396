"""Random graphs after every exact pass, in the reference evaluator and both runtimes: the same answers."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.differential.graphs import cases
from tests.differential.sweep import judged, sweep

QUICK, SWEPT, SHARDS = 150, 20_000, 40


@pytest.mark.timeout(600)
def test_random_graphs_mean_the_same_after_every_pass():
    kinds, counted = Counter(), Counter()

    @settings(
        max_examples=QUICK,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],  # what fails is made small by `tests.differential.reducing`, which takes seconds
    )
    @given(cases())
    def survives(case):
        counted["cases"] += 1
        kinds.update(node.op_type for node in case.model.graph.node)
        found = judged(case, counted["cases"])
        counted["useless"] += found is None
        assert not found, case.data.hex()

    survives()
    assert len(kinds) >= 80
    assert counted["useless"] < QUICK // 20


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_more_random_graphs(shard):
    """From seeded bytes, which are what names a case that fails."""
    found = list(sweep(shard, SWEPT // SHARDS))
    assert [(data.hex(), wrong[0]) for data, wrong in found if wrong] == []
    assert sum(wrong is None for _, wrong in found) < SWEPT // SHARDS // 20
