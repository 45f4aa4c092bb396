import math
import time
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from edgeopt.errors import MissingError
from edgeopt.events import Log, Progress, ignore
from edgeopt.hw.host import RecordedHost
from edgeopt.measure.instruments.energy import EnergyMeter
from edgeopt.measure.schedules import Schedule
from edgeopt.measure.stats import sign_interval
from edgeopt.pipeline.baseline import plain
from edgeopt.pipeline.context import SearchResources
from edgeopt.pipeline.goal import SearchGoal
from edgeopt.pipeline.notes import SearchNotes
from edgeopt.pipeline.objectives import ResourceLimits, objective_named
from edgeopt.pipeline.outcome import Candidate, Proof
from edgeopt.pipeline.plans.space import StartOptions, first_candidates, other_threads
from edgeopt.pipeline.prove.deliver import meets_conditions
from edgeopt.pipeline.race.race import meter_all, open_meter, race
from edgeopt.pipeline.race.tuning import tune
from edgeopt.pipeline.screen import screen
from edgeopt.pipeline.stopping import SearchClock, Stop, StopControl
from tests.conftest import still, this_device
from tests.pipeline.conftest import search

SPACE = {
    "onnxruntime-cpu": {"threads": (2, 1)},
    "openvino-cpu": {
        "threads": (2, 1),
        "precision": ("f32", "bf16"),
        "dynamic_quantization_group_size": (32, 128),
    },
}
BOTH = ("onnxruntime-cpu", "openvino-cpu")


def options(candidates):
    return [(c.backend, c.options) for c in candidates]


def test_a_float_variant_runs_once_for_each_precision():
    assert options(first_candidates("cleaned", BOTH, StartOptions(SPACE))) == [
        ("onnxruntime-cpu", {}),
        ("openvino-cpu", {"precision": "f32"}),
        ("openvino-cpu", {"precision": "bf16"}),
    ]


def test_compressed_weights_run_once_for_each_group_size():
    assert options(first_candidates("int8-groups", BOTH, StartOptions(SPACE))) == [
        ("onnxruntime-cpu", {}),
        ("openvino-cpu", {"dynamic_quantization_group_size": 32}),
        ("openvino-cpu", {"dynamic_quantization_group_size": 128}),
    ]


def test_a_form_runs_only_where_it_is_computed_faster_than_floats():
    assert {c.backend for c in first_candidates("int8-dynamic", BOTH, StartOptions(SPACE))} == {BOTH[0]}
    assert not first_candidates("int8-dynamic", BOTH[1:], StartOptions(SPACE))
    assert not first_candidates("a16w8", BOTH, StartOptions(SPACE))


def test_open_shapes_are_fixed_where_that_helps():
    shapes = {"x": [1, 3, 8, 8]}
    found = first_candidates("source", BOTH, StartOptions(SPACE, shapes))
    assert [c.options.get("shapes") for c in found] == [None, shapes, shapes]
    assert "shapes" not in found[1].name


def test_another_number_of_threads_changes_nothing_else():
    candidate = first_candidates("cleaned", ("openvino-cpu",), StartOptions(SPACE, {"x": [1]}))[1]
    (found,) = other_threads(candidate, SPACE)
    assert found.options == {**candidate.options, "threads": 1}
    assert found.variant == "cleaned"
    # Not back again: the search started there.
    assert other_threads(found, SPACE) == []


def test_a_container_that_allows_fewer_cores_sets_the_threads():
    found = first_candidates("cleaned", BOTH, StartOptions(SPACE, threads=3))
    assert all(c.options["threads"] == 3 for c in found)


def test_a_backend_without_options_has_no_other_threads():
    assert other_threads(plain("onnxruntime-cpu"), {}) == []


def test_a_settled_option_stands_in_every_candidate():
    settled = {"onnxruntime-cpu": {"arena": False}, "openvino-cpu": {"threads": 4, "precision": "f32"}}
    found = first_candidates(
        "cleaned", BOTH, StartOptions({"onnxruntime-cpu": {"threads": (2, 1)}}, None, 3, settled)
    )
    assert options(found) == [
        ("onnxruntime-cpu", {"threads": 3, "arena": False}),
        ("openvino-cpu", {"threads": 4}),
    ]
    (other,) = other_threads(found[0], {"onnxruntime-cpu": {"threads": (2, 1), "arena": (False,)}})
    assert other.options == {"threads": 1, "arena": False}


# How many times as long a run takes by each choice, None: it fails; the first of each is where candidates start.
LONGER = {"spinning": {True: 1.0, False: 0.6}, "level": {"all": 1.0, "layout": None, "basic": 0.7}}


@pytest.fixture
def tuned(track):
    """A field of one candidate on the null backend, whose runs take as long as its options say."""
    said = []

    def add(candidate):
        longer = [LONGER[option][value] for option, value in candidate.options.items()]
        how = {"fail": "load"} if None in longer else {"latency_ms": 4.0 * math.prod(longer)}
        path = track.null_model(f"m{len(entrants.entries)}", **how)
        # The null backend knows no such options.
        entry = screen(track.runner, track.reference, Candidate("source", "null"), path, 20.0)
        entry.candidate = candidate
        track.stack.callback(lambda: entry.contender and entry.contender.close())
        entrants.entries.append(entry)
        entrants.candidates.append(candidate)
        return entry

    space = {"null": {option: tuple(values) for option, values in LONGER.items()}}
    ending = StopControl(Stop(), SearchClock(0.0, 60.0), track.baseline, said.append)
    races = SearchResources(track.runner, SearchNotes(said.append), ending, track.baseline)
    entrants = SimpleNamespace(
        entries=[],
        candidates=[],
        starts=StartOptions(space),
        full=False,
        add=add,
        resources=races,
        search=SimpleNamespace(device=this_device()),
    )
    start = add(Candidate("source", "null"))
    two = Schedule("two", (2,), 2, keeps=(0.0,))
    alive = race(track.baseline, [start], two, said.append, "racing", time.monotonic() + 60)
    return SimpleNamespace(races=races, entrants=entrants, alive=alive, said=said)


def test_choices_that_help_are_found_and_combined_without_trying_all(tuned):
    alive = tune(tuned.entrants, tuned.alive, time.monotonic() + 60)
    tried = [candidate.options for candidate in tuned.entrants.candidates]
    assert {"spinning": False, "level": "basic"} in tried
    assert len(tried) <= 5  # of 6
    assert {"spinning": False, "level": "basic"} in [entry.candidate.options for entry in alive]
    # What failed once is not tried again in company.
    assert [entry.candidate.options for entry in tuned.entrants.entries if entry.status == "failed"] == [
        {"level": "layout"}
    ]
    told = [event.message for event in tuned.said if isinstance(event, Progress) and event.phase == "tuning"]
    assert any("not tried before" in message for message in told)
    (log,) = [event.message for event in tuned.said if isinstance(event, Log)]
    assert log.startswith(f"Tuned: tried {len(tried) - 1} of 6 combinations")
    # All are to race again, in the same rounds.
    assert not any(entry.contender.slices_ms for entry in alive)


@pytest.mark.timing
def test_no_longer_than_its_share_and_not_after_it_was_told_to_stop(tuned):
    begin = time.monotonic()
    tune(tuned.entrants, tuned.alive, begin + 4.0)
    assert time.monotonic() <= begin + 4.0
    before = len(tuned.entrants.entries)
    tuned.races.ending.stop.set()
    assert tune(tuned.entrants, tuned.alive, time.monotonic() + 60)
    assert len(tuned.entrants.entries) == before


# As recorded: nothing, counters for root alone (an empty file), a battery that is discharging.
RAPL = {"intel-rapl:0/name": "package-0", "intel-rapl:0/max_energy_range_uj": "262143328850"}
BATTERY = {"type": "Battery", "status": "Discharging", "power_now": "9000000"}


class Rail:
    """A source that draws four watts."""

    name = "a rail"

    def __init__(self, resolution_s=0.01):
        self.resolution_s = resolution_s

    def joules(self):
        return 4.0 * time.monotonic()

    def close(self):
        """Nothing to close."""


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Lets a search see the meters of a recorded machine."""

    def record(where, files):
        for name, text in files.items():
            file = tmp_path / where / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{text}\n")
        seen = EnergyMeter.open(RecordedHost(tmp_path))
        monkeypatch.setattr("edgeopt.pipeline.race.race.EnergyMeter.open", lambda **_: seen)

    return record


def opened(stack, name="energy"):
    return open_meter(objective_named(name), ("onnxruntime-cpu",), stack)


@pytest.mark.parametrize(
    ("where", "files", "says"),
    [
        ("sys/class/powercap", {}, "no RAPL counters"),
        ("sys/class/powercap", RAPL, "only root read the RAPL counters"),
        ("sys/class/power_supply/BAT0", BATTERY, "needs 30 s of one candidate without interruption"),
    ],
)
def test_where_the_device_does_not_tell_it_says_what_to_do(machine, where, files, says):
    machine(where, files)
    with pytest.raises(MissingError, match=says) as raised, ExitStack() as stack:
        opened(stack)
    assert raised.value.exit_code == 5
    assert "latency" in raised.value.hint


def test_other_searches_need_no_meter(machine):
    machine("sys/class/powercap", {})
    with ExitStack() as stack:
        assert opened(stack, "latency") is None


def test_counters_that_can_be_read_are_used(machine):
    machine("sys/class/powercap", {**RAPL, "intel-rapl:0/energy_uj": "1000000"})
    with ExitStack() as stack:
        assert opened(stack).source.startswith("RAPL")


@pytest.mark.timing
def test_a_run_takes_what_is_drawn_while_it_lasts(track):
    quick, slow = track.enter("quick", latency_ms=2.0).contender, track.enter("slow", latency_ms=20.0).contender
    meter_all(EnergyMeter((Rail(),)), [quick, slow], ignore, Schedule("two", (2,)))
    assert (len(quick.joules), len(slow.joules)) == (2, 2)
    # Four watts for 20 ms, or for more where others take the cores.
    assert all(0.079 < each < 0.3 for each in slow.joules)
    assert max(quick.joules) < min(slow.joules)


@pytest.mark.parametrize(
    ("figure", "ratios", "won"),
    [(0.5, [2.0] * 11, True), (0.5, [0.9, 2.0] * 6, False), (0.99, [1.01] * 11, False), (0.5, None, False)],
)
def test_less_must_be_clear_round_by_round(figure, ratios, won):
    less = None if ratios is None else sign_interval(ratios, 0.98)
    same = sign_interval([1.0] * 11, 0.98)
    proof = Proof(
        "no difference seen", same, 1.0, 1.0, 99.0, 8, True, figure=figure, baseline_figure=1.0, less=less
    )
    aim = SearchGoal(objective_named("energy"), ResourceLimits())
    assert meets_conditions(aim, None, proof, Candidate("source", "null")) is won


@pytest.mark.slow
def test_a_search_says_what_a_run_takes(tmp_path, relu_model, short_profile, monkeypatch):
    monkeypatch.setattr("edgeopt.pipeline.race.race.EnergyMeter.open", lambda **_: EnergyMeter((Rail(),)))
    profile = tmp_path / "still.toml"
    profile.write_text(still(short_profile.read_text()))
    outcome = search(relu_model, tmp_path, profile=profile, objective="energy").outcome
    proof = outcome.proof
    # The rail draws the same whatever runs, also while others have the cores.
    assert 2e-3 * proof.latency_ms < proof.figure < 0.4 * proof.latency_ms
    assert proof.less is None  # the bundle runs the baseline itself
    assert (outcome.winner, "better (energy per run)" in outcome.summary) == (outcome.baseline, True)
