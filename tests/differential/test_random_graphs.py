"""Random graphs after every exact pass, in the reference evaluator and both runtimes: the same answers."""

import os
from collections import Counter

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.differential import openvino_sweep, turns_sweep
from tests.differential.graphs import Case, cases
from tests.differential.regimes import Input
from tests.differential.sweep import judged, sweep

QUICK, SWEPT, SHARDS = 60, 20_000, 40
QUICK_TURNS, SWEPT_TURNS = 12, 2000


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


@pytest.mark.slow
@pytest.mark.timeout(14400)
def test_random_graphs_mean_the_same_in_openvino():
    """EDGEOPT_OPENVINO_GRAPHS of them, each simplified and compared with its source there."""
    pytest.importorskip("openvino", reason="they run in OpenVINO")
    count = int(os.environ.get("EDGEOPT_OPENVINO_GRAPHS", "1000"))
    found = list(openvino_sweep.sweep(0, count))
    assert [(data.hex(), one.differences[0]) for data, one in found if one.differences and not one.caught] == []
    assert sum(bool(one.silent) for _, one in found) < count / 2


@pytest.mark.parametrize(
    "count", [QUICK_TURNS, pytest.param(SWEPT_TURNS, marks=[pytest.mark.slow, pytest.mark.timeout(14400)])]
)
def test_graphs_with_loops_answer_as_their_files_do_for_any_number_of_turns(count):
    pytest.importorskip("openvino", reason="they run in OpenVINO")
    differences, compared = [], Counter()
    for data, _, one in turns_sweep.sweep(0, count):
        differences += [(data.hex(), said) for said in one.differences[:1]]
        compared += one.compared
    assert differences == []
    assert {title.rpartition(", ")[2] for title in compared} == {"0 turns", "1 turns", "2 turns", "7 turns"}
    assert {title.rpartition(", ")[0] for title in compared} == set(turns_sweep.NAMES)


def test_the_shuffle_that_openvino_computes_wrong_is_found(make_model, monkeypatch):
    """With the Gather that `operator-forms` does not write any more, a graph differs in OpenVINO alone."""
    pytest.importorskip("openvino", reason="a fault of OpenVINO")
    monkeypatch.setattr("edgeopt.graph.passes.algebra.operator_forms._reaches_convolution", lambda _: False)
    random = np.random.default_rng(0)
    text = """g (float[2,4,6,5] picture) => (float[M,C,H,W] y) {
        a = Conv(picture, w)  p = Reshape(a, five)  q = Transpose<perm = [0, 2, 1, 3, 4]>(p)
        s = Reshape(q, four)  y = Conv(s, v) }"""
    weights = {"w": random.standard_normal((8, 4, 1, 1)), "v": random.standard_normal((4, 8, 1, 1))}
    shapes = {"five": np.int64([0, 2, 4, 6, 5]), "four": np.int64([0, 8, 6, 5])}
    model = make_model(text, **{n: a.astype(np.float32) for n, a in weights.items()}, **shapes)
    inputs = (Input("picture", np.float32, (2, 4, 6, 5)),)
    found = openvino_sweep.outcome(Case(ir.to_proto(model.ir), inputs))
    assert found.silent == ""
    assert {one.split(",")[0] for one in found.differences} == {"OpenVINO"}
    assert found.differences
    monkeypatch.undo()
    assert openvino_sweep.outcome(Case(ir.to_proto(model.ir), inputs)).differences == ()
