"""Searches for throughput, in real processes."""

from contextlib import ExitStack

import msgspec
import numpy as np
import pytest

from edgeopt.bundle.read import read_bundle
from edgeopt.commands.cost.cost import of_bundle
from edgeopt.commands.report.report import gather
from edgeopt.data.judging.goals import Goal
from edgeopt.data.levels import Levels
from edgeopt.data.samples import Samples, save_samples
from edgeopt.data.split import split
from edgeopt.measure.contender import enter
from edgeopt.measure.host import LocalHost
from edgeopt.measure.messages import Calls, Load
from edgeopt.measure.rounds import run_rounds, speedup
from edgeopt.search.racing.ground import Ground, Standard
from edgeopt.search.racing.loads import Plain, no_batches
from tests.conftest import write_onnx
from tests.search.conftest import search

PROFILE = """
name = "load"
title = "One model in one runtime"
extends = "generic-cpu"
[precision]
ladder = ["source"]
[backends]
order = ["onnxruntime-cpu"]
[search]
max_candidates = 6
time_limit_s = 5
"""


@pytest.fixture(scope="module")
def under_load(tmp_path_factory, conv_model, conv_data):
    folder = tmp_path_factory.mktemp("load")
    profile = folder / "load.toml"
    profile.write_text(PROFILE)
    return search(conv_model, folder, data=conv_data, profile=profile, objective="throughput")


@pytest.mark.slow
@pytest.mark.timing
def test_the_most_throughput_wins_or_you_keep_what_you_have(under_load):
    outcome = under_load.outcome
    proof, winner = outcome.proof, outcome.winner
    assert outcome.objective == "throughput"
    if outcome.verdict == "faster":
        assert proof.speedup.low > 1
        assert f"run it with {winner.calls}" in outcome.summary
    else:
        assert winner == outcome.baseline
        assert "more throughput" in outcome.summary
    # The median of runs of batches, by so many callers; others that have the cores make some runs much longer.
    undisturbed = 1e3 * winner.calls.callers * winner.calls.batch / proof.latency_ms
    assert 0.02 * undisturbed < proof.figure < 3 * undisturbed


@pytest.mark.slow
@pytest.mark.timing
def test_callers_and_batches_are_tried_and_stand_in_the_record(under_load):
    tried = [each.candidate.calls for each in under_load.outcome.candidates]
    assert {each.batch for each in tried} > {1}
    assert all(each.throughput_per_s for each in under_load.outcome.candidates if each.latency_ms)
    names = [each.candidate.name for each in under_load.outcome.candidates]
    assert len(set(names)) == len(names)


@pytest.mark.slow
@pytest.mark.timing
def test_the_bundle_says_how_it_was_called_and_cost_reckons_with_that(under_load):
    deployment = read_bundle(under_load.out).deployment
    winner, load = under_load.outcome.winner, deployment.evidence.load
    assert (load.callers, load.batch) == (winner.calls.callers, winner.calls.batch)
    assert deployment.budget.objective == "throughput"
    measured = of_bundle(under_load.out)
    assert measured.counted
    assert (measured.runs_per_s, measured.how) == (load.samples_per_s, str(winner.calls))
    assert f"samples/s with {winner.calls}" in gather(under_load.out, nodes=False).speed.source


def test_callers_and_batches_are_compared_by_samples_a_second(tmp_path, null_model):
    samples = Samples({"x": np.random.default_rng(0).random((8, 8), np.float32)}, {"x": 2})
    save_samples(samples, tmp_path / "samples")
    model = str(null_model("slow", latency_ms=8))
    with ExitStack() as stack:
        sides = []
        for calls in (Calls(), Calls(2), Calls(1, 4)):
            load = Load("null", model, {}, str(tmp_path / "samples"), batch=calls.batch)
            sides.append(enter(LocalHost(tmp_path), str(calls), load, concurrency=calls.callers))
            stack.callback(sides[-1].close)
            sides[-1].by_sample = True
        run_rounds(sides, 3, 60)
        alone, two, four = sides
    assert 1.3 < speedup(alone, two).median < 2.7
    assert 2.7 < speedup(alone, four).median < 5.5
    assert all(side.run_ms > 7 for side in sides)


def asked(folder, nodes, shape, stack):
    """What a search knows of a model before it settles how that is called."""
    model = write_onnx(folder / "m.onnx", nodes, {}, {"x": shape}, {"y": shape})
    samples = Samples({"x": np.random.default_rng(1).random((8, 1, 4), np.float32)}, {"x": 2})
    save_samples(samples, folder / "samples")
    ground, chosen = Ground(LocalHost(folder), folder, folder / "samples"), split(8, False)
    contender = ground.enter("baseline", "onnxruntime-cpu", model)
    stack.callback(contender.close)
    standard = Standard(chosen, Goal(), ground.outputs(contender, chosen.check), Levels(samples))
    return Plain(model, contender.loaded.inputs, samples, standard), contender, ground


@pytest.mark.parametrize(
    ("nodes", "shape", "said"),
    [
        ([("Relu", ["x"], ["y"], {})], ["batch", 4], ""),
        ([("Relu", ["x"], ["y"], {})], [1, 4], "the first axis of the input 'x' is fixed"),
        # Each row is told from the others' mean.
        (
            [("ReduceMean", ["x"], ["m"], {"axes": [0]}), ("Add", ["x", "m"], ["y"], {})],
            ["batch", 4],
            "differ from outputs one by one",
        ),
    ],
)
def test_batches_need_an_open_axis_and_rows_that_do_not_depend_on_each_other(tmp_path, nodes, shape, said):
    with ExitStack() as stack:
        found = no_batches(*asked(tmp_path, nodes, shape, stack))
    assert said in found
    assert bool(said) == bool(found)


@pytest.mark.slow
@pytest.mark.timing
def test_how_a_candidate_is_called_survives_being_written(under_load):
    text = msgspec.json.encode(under_load.outcome)
    assert msgspec.json.decode(text, type=type(under_load.outcome)) == under_load.outcome
