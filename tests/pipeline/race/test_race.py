import os
import signal
import time
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
from edgeopt.errors import ConstraintError, TrialError, UsageError
from edgeopt.events import Progress, Standing, ignore
from edgeopt.measure.contender import enter
from edgeopt.measure.messages import ONE, Calls, Load
from edgeopt.measure.rounds import run_rounds, speedup
from edgeopt.measure.schedules import Schedule
from edgeopt.pipeline.outcome import Candidate
from edgeopt.pipeline.race.loads import no_batches
from edgeopt.pipeline.race.race import race, ranked
from edgeopt.pipeline.runner import AccuracyReference, TrialRunner
from edgeopt.pipeline.screen import (
    LoadLimits,
    Ticker,
    at_first,
    final,
    load_limits,
    next_batches,
    other_callers,
    racing,
    to_try_on,
    with_calls,
)
from edgeopt.workers.host import LocalHost
from tests.conftest import seeded, write_onnx
from tests.pipeline.conftest import search


def of(*looks, share=0.0):
    """Heats of which each keeps who has such a share of the best speed."""
    return Schedule("heats", looks, 2, keeps=(share,) * len(looks))


SHORT = of(3, 5, share=0.5)


def later():
    return time.monotonic() + 120


@pytest.mark.timing
def test_the_fastest_leads_and_the_hopeless_leave_with_a_reason(track):
    fast, middle, slow = (track.enter(n, latency_ms=ms) for n, ms in (("ab", 1), ("abc", 1.5), ("abcd", 6)))
    order = race(track.baseline, [slow, middle, fast], SHORT, ignore, "racing", later())
    assert order == [fast, middle]
    assert slow.status == "lost"
    assert slow.contender is None
    assert fast.candidate.name in slow.reason
    assert slow.speedup.median < 0.6
    fast.measured(track.baseline)
    assert 1.1 < fast.speedup.median < 4


def test_of_equals_the_more_accurate_leads(track):
    """No clock: the slices are given, as two entries and a baseline measured them."""
    rough, exact, slower = track.enter("ab", noise=1e-3), track.enter("abc"), track.enter("abcd")
    track.baseline.slices_ms = [2.0] * 4
    rough.contender.slices_ms, exact.contender.slices_ms = [1.0] * 4, [1.005] * 4
    slower.contender.slices_ms = [1.2] * 4
    assert exact.accuracy_db > rough.accuracy_db
    assert ranked(track.baseline, [slower, rough, exact]) == [exact, rough, slower]
    rough.contender.slices_ms = [0.8] * 4
    assert ranked(track.baseline, [slower, rough, exact]) == [rough, exact, slower]


def test_the_deadline_ends_it(track):
    entries = [track.enter("ab"), track.enter("abc")]
    begin = time.monotonic()
    said = []
    order = race(track.baseline, entries, of(1000), said.append, "racing", begin + 0.3)
    assert time.monotonic() - begin < 60
    assert {id(entry) for entry in order} == {id(entry) for entry in entries}
    assert 1 <= sum(isinstance(event, Progress) for event in said) < 1000


@pytest.mark.timing
def test_without_time_just_enough_is_measured_to_choose_by(track):
    entry, said = track.enter("ab"), []
    assert race(track.baseline, [entry], of(50), said.append, "racing", time.monotonic()) == [entry]
    entry.measured(track.baseline)
    assert entry.speedup.rounds == 2
    assert [type(event) for event in said] == [Progress, Progress]


def test_what_was_measured_before_still_ranks_when_no_time_is_left(track):
    slow, quick = track.enter("abc"), track.enter("ab")
    first = race(track.baseline, [slow, quick], of(4), ignore, "racing", later())
    said = []
    assert race(track.baseline, [slow, quick], SHORT, said.append, "tuning", time.monotonic()) == first
    assert not said


@pytest.mark.processes
def test_a_baseline_that_falls_ends_the_race_with_a_sentence(track):
    entry = track.enter("ab")
    os.kill(track.baseline.child.pid, signal.SIGSEGV)
    with pytest.raises(TrialError, match="The source model crashed: SIGSEGV"):
        race(track.baseline, [entry], SHORT, ignore, "racing", later())


def test_it_tells_how_far_it_is(track):
    said = []
    entries = [track.enter("ab"), track.enter("abc")]
    race(track.baseline, entries, of(3), said.append, "final", later())
    told = [event for event in said if isinstance(event, Progress)]
    assert [(event.phase, event.done, event.total) for event in told] == [("final", k, 3) for k in (1, 2, 3)]
    # On a busy machine the ratio may not be usable; then it is left out.
    names = tuple(entry.candidate.name for entry in entries)
    assert all(event.best.startswith(names) for event in told)


@pytest.mark.timing
def test_it_tells_how_each_candidate_stands_and_who_leaves(track):
    quick, slow = track.enter("ab", latency_ms=1), track.enter("abc", latency_ms=6)
    said = []
    race(track.baseline, [slow, quick], of(6, 12, share=0.5), said.append, "racing", later())
    told = [event for event in said if isinstance(event, Standing)]
    running = [event for event in told if event.candidate == quick.candidate.name]
    assert {event.status for event in running} == {"racing"}
    assert 1.4 < running[-1].speedup < 2.6
    assert running[-1].speedup_low <= running[-1].speedup <= running[-1].speedup_high
    assert running[-1].latency_ms >= 1
    assert running[-1].accuracy_db == quick.accuracy_db
    last = [event for event in told if event.candidate == slow.candidate.name][-1]
    assert (last.status, last.reason) == ("lost", slow.reason)
    assert [event.candidate for event in told].count(slow.candidate.name) == 1 + sum(
        event.status == "racing" for event in told if event.candidate == slow.candidate.name
    )


@pytest.mark.processes
def test_who_crashes_in_the_race_is_out_which_is_told_and_the_others_go_on(track):
    good, crashing = track.enter("ab"), track.enter("abc")
    os.kill(crashing.contender.child.pid, signal.SIGKILL)
    said = []
    assert race(track.baseline, [crashing, good], of(2), said.append, "racing", later()) == [good]
    assert "killed by the system" in crashing.reason
    (end,) = [event for event in said if isinstance(event, Standing) and event.status != "racing"]
    assert (end.candidate, end.status, end.reason) == (crashing.candidate.name, "failed", crashing.reason)


def test_an_interval_of_few_rounds_is_not_told(track):
    entry = track.enter("ab", latency_ms=2)
    track.baseline.slices_ms, entry.contender.slices_ms = [4.0, 4.0], [2.0, 2.0]
    early = racing(entry, track.baseline)
    assert (early.speedup, early.speedup_low, early.speedup_high) == (None, None, None)
    track.baseline.slices_ms, entry.contender.slices_ms = [4.0] * 4, [2.0] * 4
    assert racing(entry, track.baseline).speedup_low == 2.0
    entry.measured(track.baseline)
    entry.drop("lost", "a reason")
    assert (final(entry).status, final(entry).reason, final(entry).speedup) == ("lost", "a reason", 2.0)


def test_it_is_told_seldom_enough_not_to_lengthen_the_race(track):
    entry, said = track.enter("ab"), []
    ticker = Ticker(said.append)
    for _ in range(50):
        ticker.update(track.baseline, [entry])
    assert len(said) <= 1


@pytest.fixture(scope="module")
def small(tmp_path_factory, short_profile):
    """A search for the smallest files, however slow, of a model that is all weights."""
    folder = tmp_path_factory.mktemp("small")
    nodes = [("MatMul", ["x", "w"], ["y"], {})]
    model = write_onnx(folder / "m.onnx", nodes, {"w": seeded(128, 128)}, {"x": [1, 128]}, {"y": [1, 128]})
    data = {"x": np.random.default_rng(5).standard_normal((24, 1, 128)).astype(np.float32)}
    options = {"objective": "size", "max_latency_ms": 1000.0, "time_limit_s": 120, "floor": "15dB"}
    return search(model, folder, data=data, profile=short_profile, **options).outcome


@pytest.mark.slow
def test_the_smallest_files_win_although_another_is_quicker(small):
    assert (small.objective, small.verdict, small.winner.variant) == ("size", "better", "int8")
    assert small.proof.figure < 0.5 * small.proof.baseline_figure
    assert "Size of the files" in small.summary
    assert small.proof.accuracy_db >= 15


@pytest.mark.slow
def test_what_lost_says_by_what(small):
    sizes = [c.reason for c in small.candidates if c.status == "lost" and c.candidate != small.baseline]
    assert all("size of the files" in reason for reason in sizes)


@pytest.mark.slow
def test_limits_that_nothing_keeps_to_are_an_error_and_no_bundle(tmp_path, conv_model, conv_data, short_profile):
    asked = {"data": conv_data, "profile": short_profile, "max_size_mib": 1e-4}
    with pytest.raises(ConstraintError, match="No proved candidate is within the limits") as caught:
        search(conv_model, tmp_path, **asked)
    assert "its files have" in caught.value.message
    assert not (tmp_path / "out.edgeopt").exists()


@pytest.mark.slow
def test_a_search_ends_when_something_is_fast_enough(tmp_path, conv_model, short_profile, monkeypatch):
    """Anything is fast enough here, so nothing is made that the source does not need."""
    monkeypatch.setattr("edgeopt.pipeline.request.checked_target", lambda speedup: speedup)
    found = search(conv_model, tmp_path, profile=short_profile, target_speedup=0.01).outcome
    assert {c.candidate.variant for c in found.candidates} == {"source"}


@pytest.mark.slow
def test_less_than_now_is_no_target(tmp_path, conv_model):
    with pytest.raises(UsageError, match="is not a speed-up"):
        search(conv_model, tmp_path, target_speedup=0.9)


FOUR = load_limits(4, batches=True)
OPENVINO = Candidate("cleaned", "openvino-cpu", {"precision": "bf16", "shapes": {"x": [1, 3, 8]}})


def test_there_is_room_for_a_caller_on_each_core_and_for_batches_where_rows_stand_alone():
    assert LoadLimits((1, 2, 4), (1, 2, 4, 8, 16, 32)) == FOUR
    assert load_limits(6, batches=False) == LoadLimits((1, 2, 4, 6), (1,))
    assert load_limits(1, batches=False).cores == 1


@pytest.mark.parametrize(("callers", "threads"), [(4, 1), (2, 3)])
def test_callers_of_onnxruntime_work_beside_the_threads_that_are_left(callers, threads):
    found = with_calls(Candidate("source", "onnxruntime-cpu"), Calls(callers), FOUR)
    assert found.options == {"threads": threads}
    assert with_calls(found, ONE, FOUR) == Candidate("source", "onnxruntime-cpu")


def test_callers_of_openvino_have_a_stream_each_and_its_shapes_are_those_of_the_batch():
    found = with_calls(OPENVINO, Calls(4, 8), FOUR)
    assert found.options == {
        "precision": "bf16", "performance_hint": "throughput", "streams": 4, "shapes": {"x": [8, 3, 8]},
    }  # fmt: skip
    assert found.name.endswith("performance_hint=throughput · streams=4 · 4 callers, batch 8")
    assert with_calls(found, ONE, FOUR) == OPENVINO


def test_a_search_for_something_else_leaves_candidates_as_they_are():
    assert at_first(OPENVINO, None) is OPENVINO
    assert at_first(OPENVINO, FOUR).calls == Calls(4)


def test_what_is_tried_next_is_other_callers_and_the_batches_beside():
    found = with_calls(OPENVINO, Calls(4, 8), FOUR)
    assert [each.calls for each in other_callers(found, FOUR)] == [Calls(2, 8), Calls(1, 8)]
    assert [each.calls for each in next_batches(found, FOUR)] == [Calls(4, 16), Calls(4, 4)]
    largest = with_calls(OPENVINO, Calls(4, 32), FOUR)
    assert [each.calls for each in next_batches(largest, FOUR)] == [Calls(4, 16)]


@pytest.mark.parametrize(("run_ms", "batch"), [(0.1, 8), (20.0, 4), (80.0, 2), (800.0, 2)])
def test_the_baseline_is_tried_alone_and_in_company(run_ms, batch):
    assert to_try_on(FOUR, run_ms) == [Calls(1, 1), Calls(1, batch), Calls(4, 1), Calls(4, batch)]
    assert to_try_on(LoadLimits((1,)), run_ms) == [ONE]


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
        assert "higher throughput" in outcome.summary
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
    runner, chosen = TrialRunner(LocalHost(folder), folder, folder / "samples"), split(8, False)
    contender = runner.enter("baseline", "onnxruntime-cpu", model)
    stack.callback(contender.close)
    reference = AccuracyReference(chosen, Goal(), runner.outputs(contender, chosen.check), Levels(samples))
    return contender.loaded.inputs, samples, reference, contender, runner


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
