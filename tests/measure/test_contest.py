import os
import re
import signal

import msgspec
import pytest

from edgeopt import events
from edgeopt.errors import TrialError
from edgeopt.hw.device import Unavailable
from edgeopt.measure import contest as contests
from edgeopt.measure import scoreboard
from edgeopt.measure.contender import Side
from edgeopt.measure.contest import contest, plan_legs
from edgeopt.measure.instruments.energy import EnergyMeter
from edgeopt.measure.report import ContestReport, RoundState
from edgeopt.measure.sequential import Rules
from edgeopt.measure.stats import UNDECIDED
from edgeopt.workers.host import NOT_STARTED, WORKER_MODULE, LocalHost
from edgeopt.workers.tasks import TRIAL

FEW = Rules(min_rounds=4, max_rounds=4)


class Counted(LocalHost):
    """The local machine, which counts the processes that it starts; one of them may be another program."""

    def __init__(self, modules=(), **limits):
        super().__init__(**limits)
        self.modules, self.pids = dict(modules), []

    def start(self, task=TRIAL):
        with pytest.MonkeyPatch.context() as planted:
            module = self.modules.get(len(self.pids), WORKER_MODULE)
            planted.setattr("edgeopt.workers.host.WORKER_MODULE", module)
            child = super().start(task)
        self.pids.append(child.pid)
        return child


class States:
    """Says of each attempt at a round what is planted."""

    judge_others = True

    def __init__(self, *bad):
        self.bad, self.number = list(bad), 0

    def begin_round(self, number):
        self.number = number

    def end_round(self):
        bad = ("Others took 80 % of the cores.",) if self.bad and self.bad.pop(0) else ()
        return RoundState(self.number, 0.0, 0.1, others_percent=80.0 if bad else 0.0, bad=bad)


def usable_median(comparison):
    """Returns the median speed-up, or None where a busy machine left an interval too wide to state."""
    return comparison.speedup and comparison.speedup.median


@pytest.fixture
def side(load_null):
    def make(name, **behaviour):
        return Side(name, load_null(name, **behaviour), f"{name}.null.json")

    return make


@pytest.fixture
def garbage(tmp_path, monkeypatch):
    """A program that answers nonsense."""
    (tmp_path / "garbage_trial.py").write_text("import sys\nfor _ in sys.stdin: print('I am fine', flush=True)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return "garbage_trial"


@pytest.mark.slow
def test_a_clear_answer_ends_the_contest_early_in_fresh_processes(side, ends):
    host, told = Counted(), []
    found = contest(host, [side("quick", latency_ms=2), side("slow", latency_ms=6)], Rules(), told.append)
    (comparison,) = found.comparisons
    assert (comparison.first, comparison.second, comparison.verdict) == ("quick", "slow", "faster")
    assert 1 < comparison.speedup.low <= comparison.speedup.median < 6
    assert comparison.at_most_percent is None
    assert found.rounds == comparison.speedup.rounds < 100
    assert found.seconds < Rules().time_limit_s
    assert len(set(host.pids)) == 2 * found.rounds // 8, "each leg of eight rounds has processes of its own"
    assert ends(*host.pids)
    assert msgspec.json.decode(msgspec.json.encode(found), type=ContestReport) == found
    progress = [e for e in told if isinstance(e, events.Progress) and e.phase == "measuring"]
    assert [e.done for e in progress] == list(range(1, found.rounds + 1))
    assert all(e.time_left_s <= Rules().time_limit_s and e.total >= e.done for e in progress)
    assert re.fullmatch(r"quick \d\.\d\dx \[.*\]", progress[-1].best)


def test_what_each_side_gave_is_kept(side):
    quick, slow = contest(LocalHost(), [side("quick"), side("slow", latency_ms=6)], FEW, events.ignore).sides
    for each, least_ms in ((quick, 0), (slow, 6)):
        figures = each.figures
        assert least_ms <= figures.lowest_ms <= figures.p50_ms <= figures.p90_ms <= figures.p99_ms
        assert figures.throughput_per_s == pytest.approx(1e3 / figures.mean_ms, rel=0.5)
        assert [s.round for s in each.slices] == list(range(4))
        assert [s.begin_s for s in each.slices] == sorted(s.begin_s for s in each.slices)
        assert all(s.seconds > 0 and s.memory_bytes for s in each.slices)
        assert each.memory.peak_bytes
        assert each.outside_peak_bytes
        assert each.load_ms is not None
        assert each.failure is None
    assert (quick.subject, quick.kind, quick.backend) == ("quick.null.json", "model", "null")
    assert [len(s.latencies_ms) for s in quick.slices] == [len(s.starts_ms) for s in quick.slices]
    assert sum(len(s.latencies_ms) for s in slow.slices) == slow.figures.runs


@pytest.mark.timing
def test_of_very_many_runs_a_part_is_kept_and_the_figures_are_of_all(side, monkeypatch):
    monkeypatch.setattr(scoreboard, "KEPT_RUNS", 20)
    (quick,) = contest(LocalHost(), [side("quick")], FEW, events.ignore).sides
    for kept in quick.slices:
        assert len(kept.latencies_ms) == len(kept.starts_ms) == 20
        assert list(kept.starts_ms) == sorted(kept.starts_ms)
        assert kept.starts_ms[-1] > 0.3 * 1e3 * kept.seconds, "from all of the slice"
    assert quick.figures.runs > 4 * 20
    assert sum(kept.runs for kept in quick.slices) == quick.figures.runs


def test_equal_sides_are_not_told_apart(side):
    sides = [side("a", latency_ms=3), side("b", latency_ms=3)]
    found = contest(LocalHost(), sides, Rules(max_rounds=12), events.ignore)
    (comparison,) = found.comparisons
    assert comparison.verdict in {"no difference seen", "too noisy to tell"}  # the second on a busy machine
    assert (comparison.at_most_percent is not None) is (comparison.verdict == "no difference seen")
    assert found.rounds <= 12


def test_where_fresh_processes_would_take_too_long_only_large_differences_count(side):
    host = Counted()
    sides = [side("a", latency_ms=3, load_ms=700), side("b", latency_ms=3)]
    found = contest(host, sides, FEW, events.ignore)
    assert len(host.pids) == 2
    assert "differences below 4 % may be chance of one process" in found.warnings[0]


def test_the_first_is_compared_with_each_other(side):
    sides = [side("a", latency_ms=1), side("b", latency_ms=4), side("c", latency_ms=0.2)]
    found = contest(LocalHost(), sides, FEW, events.ignore)
    assert [(c.first, c.second) for c in found.comparisons] == [("a", "b"), ("a", "c")]
    to_slow, to_quick = (usable_median(c) for c in found.comparisons)
    assert to_slow is None or to_slow > 1
    assert to_quick is None or to_quick < 1


def test_what_a_contest_may_err_is_shared_out_among_its_comparisons(side):
    sides = [side(name, latency_ms=1) for name in "abc"]
    found = contest(LocalHost(), sides, FEW, events.ignore)
    assert [c.error for c in found.comparisons] == pytest.approx([Rules().error / 2] * 2)
    (alone,) = contest(LocalHost(), sides[:2], FEW, events.ignore).comparisons
    assert alone.error == Rules().error
    assert all(c.speedup is None or c.speedup.usable for c in (*found.comparisons, alone)), "no ratio without one"


def test_one_side_alone_is_compared_with_nobody(side):
    host = Counted()
    found = contest(host, [side("alone", latency_ms=1)], Rules(max_rounds=9), events.ignore)
    assert (found.rounds, found.comparisons, found.warnings) == (9, (), ())
    assert len(found.sides[0].slices) == 9
    assert len(host.pids) == 1


FAULTS = {
    "loads and crashes": ({"crash": "load"}, r"^crashed: SIGSEGV.* \(while loading\)$"),
    "runs and crashes": ({"crash": "run"}, r"^crashed: SIGSEGV"),
    "hangs": ({"hang": "run"}, r"^hung: no answer within 3 s; it was killed"),
    "fails": ({"fail": "load"}, r"^failed: The null model fails while it should load, as planted\.$"),
    "eats memory": ({"eat_memory_at": "load"}, r"^used more than 400 MiB; it was killed \(while loading\)$"),
    "answers nonsense": (
        {},
        r"^sent an invalid answer: 'I am fine'; it was killed",
    ),
}


def test_loading_has_a_patience_of_its_own(side):
    """Longer than a slice may hang, or as short as is asked for."""
    slow = side("slow", load_ms=1500)
    found = contest(LocalHost(), [side("a"), slow], msgspec.structs.replace(FEW, patience_s=0.8), events.ignore)
    assert found.sides[1].failure is None
    rules = msgspec.structs.replace(FEW, load_patience_s=0.8)
    with pytest.raises(TrialError, match=r"'slow' hung: no answer within 1 s.*while loading"):
        contest(LocalHost(), [slow], rules, events.ignore)


def test_sides_that_fall_are_results_and_the_contest_goes_on(side, garbage):
    bad = [side(name, **fault) for name, (fault, _) in FAULTS.items()]
    host = Counted({len(FAULTS): garbage}, memory_limit_bytes=400 << 20)
    rules = msgspec.structs.replace(FEW, patience_s=3.0, load_patience_s=3.0)
    found = contest(host, [side("a", latency_ms=2), *bad, side("z", latency_ms=6)], rules, events.ignore)
    first, *fallen, last = found.sides
    for each, (_, reason) in zip(fallen, FAULTS.values(), strict=True):
        assert re.search(reason, each.failure), each.name
        assert (each.slices, each.figures) == ((), None)
    assert (first.failure, last.failure) == (None, None)
    assert [len(s.slices) for s in (first, last)] == [4, 4]
    assert [(c.first, c.second) for c in found.comparisons] == [("a", "z")]
    median = usable_median(found.comparisons[0])
    assert median is None or median > 1.5


def test_a_side_that_falls_in_the_middle_keeps_what_it_gave(side, monkeypatch):
    # No process starts anew between rounds, however slow these are: the killed one must be in use.
    monkeypatch.setattr(contests, "_START_SHARE", 1e-9)
    host, killed = Counted(), []

    def kill_the_second(event):
        if isinstance(event, events.Progress) and event.done == 2 and event.phase == "measuring" and not killed:
            killed.append(host.pids[1])
            os.kill(host.pids[1], signal.SIGKILL)

    found = contest(host, [side("a"), side("bad"), side("c")], FEW, kill_the_second)
    assert [len(s.slices) for s in found.sides] == [4, 2, 4]
    assert "killed by the system" in found.sides[1].failure
    assert [c.second for c in found.comparisons] == ["c"]


@pytest.mark.slow
def test_a_comparison_that_was_decided_outlives_its_side(side):
    """The first pair is clear at once; the other two go on, and then the side of the first pair crashes."""
    host, killed = Counted(), []

    def kill_the_slow(event):
        if isinstance(event, events.Progress) and event.phase == "measuring" and event.done == 18 and not killed:
            killed.append(host.pids[len(host.pids) // 3 * 3 - 2])
            os.kill(killed[0], signal.SIGKILL)

    rules = Rules(max_rounds=24, at_most_percent=0.0)
    sides = [side("quick", latency_ms=1), side("slow", latency_ms=6), side("same", latency_ms=1)]
    found = contest(host, sides, rules, kill_the_slow)
    assert "killed by the system" in found.sides[1].failure
    decided = {c.second: c.verdict for c in found.comparisons}
    assert decided["slow"] == "faster"
    (said,) = (text for text in found.warnings if "compared before" in text)
    assert said.startswith("'quick' and 'slow' were compared before 'slow' failed: it was killed by the system")


class Refusing(Counted):
    """The local machine, which has no process left after so many."""

    def __init__(self, maximum):
        super().__init__()
        self.maximum = maximum

    def start(self, task=TRIAL):
        if len(self.pids) >= self.maximum:
            raise TrialError("could not be started: Too many open files", "See `ulimit -n`.", NOT_STARTED)
        return super().start(task)


@pytest.mark.timing
def test_a_device_without_further_processes_ends_the_contest_with_what_is_known(side):
    host = Refusing(5)
    rules = Rules(at_most_percent=0.0, min_rounds=200)
    found = contest(host, [side("a", latency_ms=2), side("b", latency_ms=4)], rules, events.ignore)
    (comparison,) = found.comparisons
    assert (comparison.verdict, found.rounds) == ("faster", 16)
    assert [s.failure for s in found.sides] == [None, "could not be started: Too many open files"]
    assert found.sides[1].failure_hint == "See `ulimit -n`."
    assert "compared before 'b' failed: it could not be started" in found.warnings[0]


def test_a_side_without_a_first_process_is_left_out_and_the_others_go_on(side):
    found = contest(Refusing(2), [side("a"), side("b"), side("c")], FEW, events.ignore)
    assert [c.second for c in found.comparisons] == ["b"]
    assert "could not be started" in found.sides[2].failure
    # Where processes start slowly, each leg has fresh ones, and the first leg is the last.
    assert 1 <= found.rounds <= 4


def test_what_a_trial_says_of_its_failure_reaches_the_report_and_the_error(side):
    wrong = msgspec.structs.replace(side("wrong").load, options={"no_such_option": 1})
    sides = [side("a"), Side("wrong", wrong)]
    found = contest(LocalHost(), sides, FEW, events.ignore).sides[1]
    assert (found.failure_code, bool(found.failure_hint)) == ("usage", True)
    with pytest.raises(TrialError) as caught:
        contest(LocalHost(), sides[1:], FEW, events.ignore)
    assert (caught.value.code, caught.value.exit_code, caught.value.hint) == ("usage", 2, found.failure_hint)


def test_without_the_first_side_nothing_is_compared(side):
    found = contest(LocalHost(), [side("bad", crash="run"), side("b"), side("c")], FEW, events.ignore)
    assert found.comparisons == ()
    assert [len(s.slices) for s in found.sides] == [0, 4, 4]


def test_when_nobody_can_run_each_is_named_with_its_reason(side):
    with pytest.raises(TrialError) as caught:
        contest(LocalHost(), [side("a", crash="load"), side("b", fail="run")], FEW, events.ignore)
    assert re.search(r"^'a' crashed: SIGSEGV.*; 'b' failed: The null model fails", caught.value.message)
    assert ".." not in caught.value.message
    assert caught.value.hint


def test_a_round_that_the_device_spoils_is_run_again(side):
    states = States(False, True, True, False)
    found = contest(LocalHost(), [side("a"), side("b")], FEW, events.ignore, states)
    assert [(s.round, s.repeated) for s in found.states] == [
        (0, False), (1, True), (1, True), (1, False), (2, False), (3, False),
    ]  # fmt: skip
    assert [s.round for s in found.sides[0].slices] == list(range(4))
    assert "in 2 of 6 rounds" in found.measured_while


def test_a_device_that_is_never_quiet_is_measured_all_the_same(side):
    states = States(*[True] * 100)
    found = contest(LocalHost(), [side("a")], Rules(max_rounds=6), events.ignore, states)
    assert found.rounds == 6
    assert sum(s.repeated for s in found.states) == 3
    assert sum(bool(s.bad) for s in found.states if not s.repeated) == 6


def test_latency_and_memory_are_told_while_it_runs(side):
    told = []
    found = contest(LocalHost(), [side("slow", latency_ms=25)], Rules(max_rounds=4), told.append)
    metrics = [e for e in told if isinstance(e, events.Metric)]
    latencies = [m for m in metrics if m.name == "latency_ms"]
    measured_s = sum(s.seconds for s in found.sides[0].slices)
    assert len(latencies) >= 10 * measured_s
    assert {m.subject for m in metrics} == {"slow"}
    assert all(25 <= m.value < 2000 for m in latencies)
    times = [m.time_s for m in latencies]
    assert times == sorted(times)
    for name in ("process_memory_bytes", "device_memory_bytes", "load_percent"):
        assert sum(m.name == name for m in metrics) >= 4


class Meter:
    """A source that has drawn another half joule each time."""

    name, resolution_s, drawn = "planted", 0.0, 0.0

    def joules(self):
        self.drawn += 0.5
        return self.drawn

    def close(self):
        """Nothing to close."""


def test_the_energy_of_a_side_is_that_of_its_slices(side):
    found = contest(LocalHost(), [side("a")], FEW, events.ignore, meter=EnergyMeter((Meter(),)))
    (one,) = found.sides
    assert [s.energy_j for s in one.slices] == [0.5] * 4
    assert one.energy.source == "planted"
    assert one.energy.joules_per_run > 0


def test_where_energy_is_not_measurable_the_reason_is_told(side):
    found = contest(LocalHost(), [side("a")], FEW, events.ignore, meter=Unavailable("no meter here"))
    assert found.sides[0].energy.reason == "no meter here"
    assert contest(LocalHost(), [side("b")], FEW, events.ignore).sides[0].energy is None


def test_time_is_kept(side):
    sides = [side("a", latency_ms=3), side("b", latency_ms=3)]
    found = contest(LocalHost(), sides, Rules(time_limit_s=1.0, at_most_percent=0.0), events.ignore)
    assert found.rounds >= 1
    assert found.seconds < 20, "a leg that was begun is ended, and no further one begins"
    assert found.comparisons[0].verdict in UNDECIDED


@pytest.mark.parametrize(
    ("rules", "round_s", "starting_s", "rounds", "fresh"),
    [
        (Rules(), 0.08, 1.2, 8, True),
        (Rules(), 0.8, 1.2, 8, True),
        (Rules(), 0.8, 5.0, 6, True),
        (Rules(), 4.0, 2.0, 2, True),
        (Rules(), 0.8, 12.0, 3, True),
        (Rules(), 0.8, 20.0, 8, False),
        (Rules(), 9.0, 20.0, 1, False),
        (Rules(max_rounds=6), 0.08, 1.2, 1, False),
        (Rules(max_rounds=30), 0.8, 1.2, 5, True),
        (Rules(time_limit_s=1.0), 0.08, 1.2, 2, False),
    ],
)
def test_legs_fit_into_the_rounds_and_the_time(rules, round_s, starting_s, rounds, fresh):
    plan = plan_legs(rules, 40.0, round_s, starting_s)
    assert (plan.leg_rounds, plan.fresh) == (rounds, fresh)
    assert plan.leg_s == pytest.approx(rounds * round_s + starting_s * fresh)
