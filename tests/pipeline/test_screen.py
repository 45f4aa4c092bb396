import dataclasses
import itertools
import math
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from edgeopt.bundle.deployment import Step
from edgeopt.data.samples import Samples, open_samples, save_samples
from edgeopt.errors import MissingExtraError, ModelError
from edgeopt.events import Progress, Standing
from edgeopt.hw.host import RecordedHost
from edgeopt.hw.probe import probe
from edgeopt.measure.messages import Calls
from edgeopt.measure.stats import Interval
from edgeopt.pipeline.baseline import baseline_order, first_running, judge_for, plain
from edgeopt.pipeline.builders.messages import PLANNED, REPAIR_BASE, PlannedVariant
from edgeopt.pipeline.goal import SearchGoal
from edgeopt.pipeline.objectives import OVER, ResourceLimits, objective_named
from edgeopt.pipeline.outcome import Candidate, CandidateReport, VariantReport
from edgeopt.pipeline.plans.gathering import ReadyVariant
from edgeopt.pipeline.plans.space import (
    Effects,
    OptionPoint,
    best_point,
    candidates_of,
    choices_on,
    point_of,
    subject_of,
)
from edgeopt.pipeline.race.race import add_lean, decide_repair
from edgeopt.pipeline.race.tuning import run_races
from edgeopt.pipeline.runner import TrialRunner
from edgeopt.pipeline.screen import PoolEntry, final, judge
from edgeopt.workers.host import LocalHost
from tests.conftest import seeded
from tests.pipeline.conftest import Track


def timed(latency_ms):
    return Candidate("source", "null", {"latency_ms": latency_ms})


@pytest.fixture
def ending(track):
    return track.ending()


def test_who_is_good_takes_part_and_whoever_watches_is_told(track, ending):
    entrants = track.entrants(ending)
    baseline, other = entrants.add(Candidate("source", "null")), entrants.add(timed(2.0))
    assert (baseline.accuracy_db, other.size_bytes, entrants.racing_count) == (200, 100, 2)
    assert [event.status for event in track.said if isinstance(event, Standing)] == ["racing", "racing"]
    entrants.close()
    assert entrants.candidates == [baseline.candidate, other.candidate]


def test_there_is_something_to_hand_out_once_somebody_but_the_baseline_takes_part(track, ending):
    entrants = track.entrants(ending)
    entrants.add(Candidate("source", "null"))
    assert not ending.stop.ready
    entrants.add(timed(2.0))
    assert ending.stop.ready


def test_what_takes_too_much_is_out_at_once(track, ending):
    entry = track.entrants(ending, ResourceLimits(size_bytes=99)).add(timed(2.0))
    assert (entry.contender, entry.status) == (None, OVER)
    assert "its files have" in entry.reason
    assert track.said[-1].status == OVER


def test_a_plan_takes_part_with_its_own_options_unless_the_search_was_stopped(track, ending):
    entrants = track.entrants(ending, maximum=1)
    path, report = track.null_model("planned"), VariantReport(PLANNED, "a plan", 7, backends=("null",))
    ready = ReadyVariant(
        PLANNED, ("null",), PlannedVariant("null", {"latency_ms": 1.0}, str(path), (), Step(PLANNED))
    )
    entrants.variants.enter(report, path, ready.planned.step)
    assert not entrants.full
    entrants.enter(ready)
    assert [entry.candidate.name for entry in entrants.entries] == ["planned · null · latency_ms=1.0"]
    assert entrants.full
    ending.stop.set()
    entrants.enter(ready)
    assert len(entrants.entries) == 1


def test_a_precision_in_which_the_source_misses_the_floor_is_not_screened_again(track, ending):
    entrants = track.entrants(ending)
    half = {"precision": "bf16"}
    entrants.entries.append(PoolEntry(Candidate("source", "null", half), status="below the floor"))
    assert entrants._floats_are_below(Candidate("cleaned", "null", {**half, "threads": 1}))
    assert not entrants._floats_are_below(Candidate("cleaned", "null", {"precision": "f32"}))
    assert not entrants._floats_are_below(Candidate("cleaned", "openvino-cpu", half))
    assert not entrants._floats_are_below(Candidate("source", "null", half))


def test_how_fast_floats_are_is_told_of_those_with_the_same_options(track, ending):
    entrants = track.entrants(ending)
    entrants.add(timed(5.0))
    found_ms = entrants.floats_ms(Candidate(PLANNED, "null", {"latency_ms": 5.0}))
    assert 4.9 < found_ms < math.inf
    assert entrants.floats_ms(Candidate(PLANNED, "null")) == math.inf


SLOW, QUICK = ({"latency_ms": ms} for ms in (20.0, 0.1))


@pytest.mark.parametrize(
    ("found_db", "asked_db"), [((), 30.0), ((25.0,), 30.0), ((31.0,), 36.0), ((25.0, 45.0), None)]
)
def test_what_nncf_left_barely_within_the_floor_is_repaired_with_a_margin(track, ending, found_db, asked_db):
    """On the samples of its proof, such a model once had 12 dB less."""
    entrants = track.entrants(ending)
    entry = entrants.add(timed(1.0))
    for each in found_db:
        contender = entry.contender if each >= 30 else None
        entrants.entries.append(PoolEntry(Candidate("nncf-int8", "null"), contender, accuracy_db=each))
    decision = decide_repair(entrants, 30.0)
    assert decision.floor_db == asked_db
    assert (decision.reason == "") == (asked_db is not None)


@pytest.mark.parametrize(("latency_ms", "worth_a_repair"), [(40.0, False), (0.1, True)])
def test_model_that_eight_bits_do_not_make_faster_is_not_repaired(track, ending, latency_ms, worth_a_repair):
    entrants = track.entrants(ending)
    entrants.add(Candidate("source", "null"))
    path = track.null_model("quantized", latency_ms=latency_ms)
    entrants.variants.enter(VariantReport(REPAIR_BASE, "all in int8", 7, backends=("null",)), path)
    entrants.entries.append(PoolEntry(Candidate(REPAIR_BASE, "null"), status="below the floor", accuracy_db=20.0))
    decision = decide_repair(entrants, 30.0)
    assert decision.floor_db == (30.0 if worth_a_repair else None)
    assert ("no faster than source" in decision.reason) == (not worth_a_repair)


def test_search_for_least_memory_tries_the_options_that_save_memory(track, ending, conv_model):
    entrants = track.entrants(ending)
    entrants.variants.enter(VariantReport("cleaned", "exact", 7, backends=("onnxruntime-cpu",)), conv_model)
    first = Candidate("cleaned", "onnxruntime-cpu")
    # The samples are of the null model, which differs: what counts here is the list of candidates.
    entrants.search = dataclasses.replace(
        entrants.search, goal=SearchGoal(objective_named("memory"), ResourceLimits())
    )
    entry = PoolEntry(first, entrants.resources.baseline)
    entrants.entries.append(entry)
    add_lean(entrants, [entry])
    tried = [each.candidate.options for each in entrants.entries[1:]]
    assert tried == [{"threads": 1}, {"arena": False}, {"memory_pattern": False}, {"prepacking": False}]
    entry.contender = None


@pytest.fixture
def course(track):
    """What is raced: the source, and two that take longer and less long; with no time left but for two rounds."""

    def run(objective="latency", target_speedup=None, limit_s=0.0, stopped=False):
        ending = track.ending(limit_s)
        entrants = track.entrants(ending)
        parts = [
            [Candidate("source", "null"), Candidate("source", "null", SLOW)],
            [Candidate("source", "null", QUICK)],
        ]
        entrants.enter = entrants.add
        gathering = SimpleNamespace(
            first_parts=lambda: iter(parts),
            repairs=False,
            plans=False,
            uniform=lambda: iter(()),
            close=lambda: track.said.append("made"),
        )
        if stopped:
            ending.stop.set()
        aim = SearchGoal(objective_named(objective), ResourceLimits(), target_speedup)
        entrants.search = dataclasses.replace(entrants.search, goal=aim)
        best = run_races(entrants, gathering)
        return SimpleNamespace(best=best, entrants=entrants, ending=ending, said=track.said)

    return run


def test_the_fastest_leads_and_the_others_say_by_how_much_they_are_behind(course):
    found = course()
    assert found.best[0].candidate.options == QUICK
    assert found.best[0].reason == "best in the race, but not proved better than the baseline"
    assert found.best[0].speedup.median > 1
    slow = found.entrants.entries[1]
    assert slow.reason.endswith("x the latency of source · null · latency_ms=0.1")
    assert slow.of_best == slow.lead.share < 0.5
    # Nothing runs any more, and no variant is being made.
    assert all(entry.contender is None for entry in found.entrants.entries)
    assert "made" in found.said


def test_enough_speed_ends_it_before_all_are_made(course):
    found = course(target_speedup=0.01)
    assert len(found.entrants.entries) == 2
    assert {entry.status for entry in found.best} == {"lost"}


def test_another_objective_ranks_by_its_figure(course):
    found = course("first-answer")
    assert found.best
    assert all("time to load and run once" in entry.reason for entry in found.best[1:])


def test_when_it_is_stopped_those_who_are_in_race_shortly(course):
    found = course(stopped=True, limit_s=60.0)
    assert len(found.entrants.entries) == 2
    assert found.best
    assert "while making variants" in found.ending.cut_short
    assert "stopping" in {event.phase for event in found.said if isinstance(event, Progress)}


FAKEROOTS = Path(__file__).parents[1] / "fakeroots"
ORT, OPENVINO = "onnxruntime-cpu", "openvino-cpu"
SPACE = {
    ORT: {"threads": (8, 1), "spinning": (True, False), "arena": (False,)},
    OPENVINO: {"threads": (8, 1), "precision": ("f32", "bf16")},
}


@pytest.mark.parametrize(
    ("board", "ort", "openvino"),
    [
        # Two performance cores with two threads each, and four others.
        ("intel-hybrid", {"threads": (8, 6, 2, 1), "cores": ("", "0,1,2,3")}, {"core_type": ("", "performance")}),
        ("amd-zen4", {"threads": (8, 6, 1)}, {}),
        ("raspberry-pi-5", {"threads": (8, 4, 1)}, {}),
    ],
)
def test_whole_and_fast_cores_are_tried_where_there_are_others(board, ort, openvino):
    device = probe(RecordedHost(FAKEROOTS / board))
    assert choices_on(ORT, SPACE, device) == {"spinning": (True, False), **ort}
    assert choices_on(OPENVINO, SPACE, device) == {"threads": ort["threads"], **openvino}
    # Where the profile leaves the threads alone, so does this.
    assert choices_on(ORT, {ORT: {"spinning": (True, False)}}, device) == {"spinning": (True, False)}


def test_every_combination_that_makes_sense_is_a_candidate():
    choices = {"threads": (4, 1), "spinning": (True, False), "cores": ("", "0,1")}
    start = Candidate("cleaned", ORT, {"arena": False})
    found = [candidate.options for candidate in candidates_of(start, choices)]
    assert all(options.pop("arena") is False for options in found)
    assert found == [
        {},
        {"cores": "0,1"},
        {"spinning": False},
        {"spinning": False, "cores": "0,1"},
        {"threads": 1},  # nobody waits for anybody there, and nothing is pinned
    ]


def test_what_a_container_allows_is_where_it_starts():
    choices = {"threads": (3, 1), "spinning": (True, False)}
    start = Candidate("cleaned", ORT, {"threads": 3})
    tried = Candidate("cleaned", ORT, {"threads": 1})
    assert [c.options for c in candidates_of(start, choices)] == [
        {"threads": 3},
        {"threads": 3, "spinning": False},
        {"threads": 1},
    ]
    assert point_of(start, choices).choices == {}
    assert point_of(tried, choices).choices == {"threads": 1}
    assert subject_of(start, choices) == start
    assert point_of(start, choices).subject == point_of(tried, choices).subject
    assert point_of(Candidate("source", ORT), choices).subject != point_of(start, choices).subject


SIZES = {"a": 5, "b": 4, "c": 3}


def point(values):
    return OptionPoint(
        "model", "backend", {name: value for name, value in zip(SIZES, values, strict=True) if value}
    )


def found_in(seed, maximum=12):
    """How much slower than the best of a space of sums the best is that was tried, and in how many points."""
    drawn = np.random.default_rng(seed)
    effects = [np.concatenate([[0.0], drawn.normal(0, 0.1, size - 1)]) for size in SIZES.values()]
    times = {
        values: sum(effect[value] for effect, value in zip(effects, values, strict=True))
        for values in itertools.product(*map(range, SIZES.values()))
    }
    model, best, tried = Effects(), (0, 0, 0), {(0, 0, 0)}
    while len(tried) < maximum:
        left = {repr(point(v)): v for v in times if v not in tried}
        found = best_point([point(v) for v in left.values()], model, point(best))
        if found is None or found[1].hoped < 0.01:
            break
        values = left[repr(found[0])]
        tried.add(values)
        longer = times[values] - times[best] + drawn.normal(0, 0.01)
        model.learn(point(values), point(best), longer, 0.01)
        if longer < 0:
            best = values
    return times[best] - min(times.values()), len(tried)


def test_a_dozen_points_find_what_a_grid_of_sixty_holds():
    gaps, tried = zip(*(found_in(seed) for seed in range(40)), strict=True)
    assert max(tried) <= 12
    assert np.mean(np.array(gaps) < 0.01) >= 0.9
    assert np.mean(np.array(gaps) < 0.03) >= 0.97


def test_what_a_choice_does_is_the_same_for_all_on_one_backend():
    model = Effects()
    model.learn(OptionPoint("one", "x", {"a": 1}), OptionPoint("one", "x", {}), -0.2, 0.01)
    other = model.gain(OptionPoint("two", "x", {"a": 1}), OptionPoint("two", "x", {}))
    elsewhere = model.gain(OptionPoint("one", "y", {"a": 1}), OptionPoint("one", "y", {}))
    assert other.expected == pytest.approx(0.2, abs=0.02)
    assert other.spread < 0.03
    assert (elsewhere.expected, elsewhere.spread > 0.1) == (0, True)


def test_choices_that_each_helped_are_tried_together():
    model, start = Effects(), OptionPoint("one", "x", {})
    model.learn(OptionPoint("one", "x", {"a": 1}), start, -0.1, 0.01)
    model.learn(OptionPoint("one", "x", {"b": 1}), start, -0.05, 0.01)
    both = OptionPoint("one", "x", {"a": 1, "b": 1})
    best = OptionPoint("one", "x", {"a": 1})
    found, gain = best_point([both, start], model, best)
    assert found == both
    assert gain.expected == pytest.approx(0.05, abs=0.02)


def test_nothing_is_hoped_of_what_was_slow_and_two_new_choices_are_not_tried_at_once():
    model, start = Effects(), OptionPoint("one", "x", {})
    model.learn(OptionPoint("one", "x", {"a": 1}), start, 0.1, 0.01)
    assert model.gain(OptionPoint("one", "x", {"a": 1}), start).hoped < 0.001
    assert best_point([OptionPoint("one", "x", {"b": 1, "c": 1})], model, start) is None
    found, gain = best_point([OptionPoint("one", "x", {"b": 1}), OptionPoint("one", "x", {"a": 1})], model, start)
    assert found.choices == {"b": 1}
    assert gain.hoped > 0.01


@pytest.mark.parametrize(("noise", "passes"), [(1e-4, True), (0.2, False)])
def test_the_floor_decides(track, noise, passes):
    entry = track.enter("noisy", noise=noise)
    assert (entry.contender is not None) is passes
    assert (entry.accuracy_db > 30) is passes
    if not passes:
        assert entry.status == "below the floor"
        assert "on 8 samples not used for calibration" in entry.reason
        assert "the floor is 30 dB" in entry.reason


@pytest.mark.parametrize(("error", "status"), [(1e-5, "lost"), (2e-3, "below the floor")])
def test_the_weakest_level_of_input_decides(tmp_path, null_model, error, status):
    with ExitStack() as stack:
        track = Track(tmp_path, stack, null_model, quiet=3)
    samples = open_samples(track.runner.samples_path)
    right = [{"y": samples.feeds(k)["x"]} for k in range(len(samples))]
    entry = PoolEntry(Candidate("source", "null", {}))
    answers = [{"y": answer["y"] + np.float32(error)} for answer in right]
    judge(dataclasses.replace(track.reference, outputs=right), entry, answers)
    assert entry.status == status
    assert ("on the 3 samples at 0.0" in entry.reason) is (status != "lost")


@pytest.mark.processes
@pytest.mark.parametrize(
    ("faults", "says"),
    [
        ({"fail": "load"}, "fails while it should load"),
        ({"fail": "run"}, "fails while it should run"),
        ({"crash": "load"}, "SIGSEGV"),
        ({"crash": "run"}, "SIGSEGV"),
        ({"outputs": [{"name": "z", "dtype": "float32", "shape": ["batch", 8]}]}, "'y' is missing"),
        ({"outputs": [{"name": "y", "dtype": "float32", "shape": ["batch", 9]}]}, "shape"),
        ({"inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 9]}]}, "'x' must have"),
    ],
)
def test_a_candidate_that_fails_is_out_with_its_reason(track, faults, says):
    entry = track.enter("faulty", **faults)
    assert entry.status == "failed"
    assert says in entry.reason
    assert entry.contender is None


@pytest.mark.processes
def test_a_candidate_that_hangs_is_killed(track):
    entry = track.enter("hanging", timeout_s=0.5, hang="run")
    assert entry.status == "failed"
    assert "hung" in entry.reason


def test_a_trial_runs_the_samples_of_the_ground_as_it_is_called(track):
    contender = track.runner.enter("two", "null", track.path, calls=Calls(2, 4), timeout_s=20.0)
    try:
        assert (contender.concurrency, contender.batch) == (2, 4)
        together = track.runner.outputs(contender, range(1, 5))
        alone = track.runner.outputs(contender, range(1, 5), 1)
    finally:
        contender.close()
    assert [sorted(answer) for answer in together] == [["y"]] * 4
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_allclose(one["y"], other["y"])


@pytest.fixture
def runner(tmp_path):
    save_samples(Samples({"x": seeded(4, 1, 8)}, {"x": 2}), tmp_path / "samples")
    return TrialRunner(LocalHost(tmp_path), tmp_path, tmp_path / "samples")


def test_the_processor_judges_what_accelerators_answer():
    order = ("onnxruntime-cuda", "openvino-gpu", "openvino-cpu", "onnxruntime-cpu")
    assert baseline_order(order) == ["onnxruntime-cpu", "openvino-cpu", "onnxruntime-cuda", "openvino-gpu"]


def test_the_baseline_is_the_source_with_defaults(runner, null_model):
    found = first_running(runner, null_model("m"), ["null"])
    try:
        assert found.candidate == plain("null")
        assert (found.candidate.name, found.candidate.options) == ("source · null", {})
        with judge_for(runner, found.contender, "null", null_model("m")) as judge:
            assert judge is found.contender
    finally:
        found.contender.close()


def test_where_no_runtime_runs_it_each_says_why(runner, null_model):
    with pytest.raises(ModelError, match=r"No installed runtime can run the model\. null: .*should load"):
        first_running(runner, null_model("m", fail="load"), ["null"])


def test_where_no_runtime_is_here_it_says_what_to_install(runner, null_model):
    with pytest.raises(MissingExtraError, match="Optimizing a model"):
        first_running(runner, null_model("m"), ["onnxruntime-coreml"])


@pytest.mark.parametrize(("high", "shown"), [(2.6, (2.0, 1.5, 2.6)), (2.8e13, (None, None, None))])
def test_standing_has_no_ratio_without_a_usable_interval(high, shown):
    """The page said 333.17x of a candidate whose interval reached to 28 trillion."""
    report = CandidateReport(Candidate("cleaned", "x"), "lost", "", Interval(2.0, 1.5, high, 9), 0.5)
    told = final(report)
    assert (told.speedup, told.speedup_low, told.speedup_high) == shown
    assert told.latency_ms == 0.5
