"""Random graphs after every exact pass, in the reference evaluator and both runtimes: the same answers."""

import random
from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.differential import check
from tests.differential.graphs import BYTES, case_from, cases
from tests.differential.runtimes import RUNTIMES

QUICK, SWEPT, SHARDS = 150, 20_000, 40
# OpenVINO takes a third of a second to compile both graphs, as long as all else takes for three.
SHARE_IN_OPENVINO = 16


# OpenVINO rounds what it quantizes again as it likes: in one layout to the next step, in another to the last.
STEPPING = {"QLinearConv", "QLinearMatMul"}


def judged(case, number):
    """What is wrong with the simplified case, told so that it can be made again; None where it says nothing."""
    stepping = any(node.op_type in STEPPING for node in case.model.graph.node)
    names = check.USUAL if stepping or number % SHARE_IN_OPENVINO else tuple(RUNTIMES)
    try:
        return [str(one) for one in check.findings(case, names=names)]
    except check.UselessError:
        return None


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
    source, wrong, useless = random.Random(shard), [], 0  # noqa: S311 - graphs are no secrets
    for number in range(SWEPT // SHARDS):
        data = source.randbytes(BYTES + BYTES // 2)
        found = judged(case_from(data), number)
        useless += found is None
        if found:
            wrong.append((data.hex(), found[0]))
    assert wrong == []
    assert useless < SWEPT // SHARDS // 20
