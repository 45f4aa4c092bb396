"""Searches for the least energy, with power readings that are recorded or made up: few machines tell them."""

import time
from contextlib import ExitStack

import pytest

from edgeopt.errors import MissingError
from edgeopt.events import ignore
from edgeopt.hw.host import RecordedHost
from edgeopt.measure.instruments.energy import EnergyMeter
from edgeopt.measure.stats import sign_interval
from edgeopt.measure.terms import Turns
from edgeopt.search.aim import Aim
from edgeopt.search.delivering.deliver import wins
from edgeopt.search.objectives import Limits, objective_named
from edgeopt.search.outcome import Candidate, Proof
from edgeopt.search.racing.race import meter_all, open_meter
from tests.conftest import still
from tests.search.conftest import search

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
        monkeypatch.setattr("edgeopt.search.racing.race.EnergyMeter.open", lambda **_: seen)

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
    meter_all(EnergyMeter((Rail(),)), [quick, slow], ignore, Turns("two", (2,)))
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
    aim = Aim(objective_named("energy"), Limits())
    assert wins(aim, None, proof, Candidate("source", "null")) is won


@pytest.mark.slow
def test_a_search_says_what_a_run_takes(tmp_path, relu_model, short_profile, monkeypatch):
    monkeypatch.setattr("edgeopt.search.racing.race.EnergyMeter.open", lambda **_: EnergyMeter((Rail(),)))
    profile = tmp_path / "still.toml"
    profile.write_text(still(short_profile.read_text()))
    outcome = search(relu_model, tmp_path, profile=profile, objective="energy").outcome
    proof = outcome.proof
    # The rail draws the same whatever runs, also while others have the cores.
    assert 2e-3 * proof.latency_ms < proof.figure < 0.4 * proof.latency_ms
    assert proof.less.rounds == 11
    assert (outcome.winner, "better (energy per run)" in outcome.summary) == (outcome.baseline, True)
