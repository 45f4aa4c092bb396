import json
import os
import subprocess
import sys
import time

import psutil
import pytest

from edgeopt.hw.host import LocalHost, RecordedHost, call_key
from edgeopt.hw.processes import family_seconds
from edgeopt.measure.instruments import machine_state
from edgeopt.measure.instruments.machine_state import StateSampler, sentence
from edgeopt.measure.report import RoundState

SPIN = "print('spins', flush=True)\nwhile True: pass"
CPU = "/sys/devices/system/cpu/cpu0"
ZONE = "/sys/class/thermal/thermal_zone0"
COOLING = "/sys/class/thermal/cooling_device0"


class Machine(RecordedHost):
    """A recorded machine whose files change between two looks."""

    def write(self, files):
        for path, text in files.items():
            file = self.root / path.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return self


@pytest.fixture
def machine(tmp_path):
    (tmp_path / "calls.json").write_text(json.dumps({"calls": {"os.getpid()": 10}}))
    return Machine(tmp_path).write(cores(busy=0, idle=0) | process(10, ticks=0))


@pytest.fixture
def round_of(machine):
    """Takes one round, in which these files come to be."""

    def take(sampler, number, files):
        sampler.begin_round(number)
        machine.write(files)
        return sampler.end_round()

    return take


def cores(busy, idle, steal=0):
    return {"/proc/stat": f"cpu  {busy} 0 0 {idle} 0 0 0 {steal} 0 0\n"}


def process(pid, ticks, children="", ended=0):
    """Half of its ticks in the kernel; `ended` is what its ended children took."""
    fields = ["R", "1", *["0"] * 9, str(ticks // 2), str(ticks - ticks // 2), str(ended), "0", *["0"] * 10]
    return {
        f"/proc/{pid}/stat": f"{pid} (a (strange) name) {' '.join(fields)}\n",
        f"/proc/{pid}/task/{pid}/children": children,
    }


def test_what_edgeopt_and_its_trials_take_is_no_load_of_others(machine, round_of):
    machine.write(process(10, 0, children="20 ") | process(20, 0) | process(30, 0))
    sampler = StateSampler(lambda: [30], machine)
    state = round_of(
        sampler,
        7,
        cores(busy=150, idle=50)
        | process(10, 10, children="20 21 ")
        | process(20, 60)
        | process(21, 40)
        # 20 ticks of a descendant that began and ended meanwhile count as well.
        | process(30, 10, ended=20),
    )
    assert (state.round, state.others_percent, state.steal_percent, state.bad) == (7, 5.0, 0.0, ())
    assert state.seconds > 0


def test_without_lists_of_children_all_processes_are_looked_at(machine, round_of):
    child = process(20, 0)
    del child["/proc/20/task/20/children"]
    (machine.root / "proc/10/task/10/children").unlink()
    machine.write({path: text.replace("R 1 ", "R 10 ") for path, text in child.items()})
    sampler = StateSampler(list, machine)
    grown = {path: text.replace("R 1 ", "R 10 ") for path, text in process(20, 90).items()}
    del grown["/proc/20/task/20/children"]
    assert round_of(sampler, 0, cores(busy=100, idle=100) | grown).others_percent == 5.0


@pytest.mark.parametrize(
    ("busy", "total", "judge", "bad"),
    [(40, 100, True, True), (40, 100, False, False), (12, 100, True, False), (4, 16, True, False)],
)
def test_a_round_in_which_others_were_busy_is_bad(machine, round_of, busy, total, judge, bad):
    sampler = StateSampler(list, machine, judge_others=judge)
    state = round_of(sampler, 0, cores(busy=busy, idle=total - busy))
    assert state.others_percent == 100 * busy / total
    # Of 16 ticks 4 are 25 %, but 3 may be rounding.
    assert state.bad == ((f"Other processes took {busy} % of the cores.",) if bad else ())


class Clock:
    """Rounds of 45 ms, one after another."""

    def __init__(self, monkeypatch):
        self.now_s = 0.0
        monkeypatch.setattr(machine_state.time, "monotonic", lambda: self.now_s)


@pytest.fixture
def short_rounds(machine, monkeypatch):
    """Takes short rounds, of nine ticks each, in which others took so many."""
    clock, spent = Clock(monkeypatch), [0, 0]

    def take(sampler, number, ticks):
        sampler.begin_round(number)
        spent[0], spent[1] = spent[0] + ticks, spent[1] + 9 - ticks
        machine.write(cores(busy=spent[0], idle=spent[1]))
        clock.now_s += 0.045
        return sampler.end_round()

    return take


def test_others_are_seen_in_rounds_too_short_to_tell_alone(machine, short_rounds):
    """A third of the cores, of which each round alone could be rounding."""
    sampler = StateSampler(list, machine)
    states = [short_rounds(sampler, k, 3) for k in range(20)]
    assert not states[0].bad
    assert [state.bad for state in states[-10:]] == [("Other processes took 33 % of the cores.",)] * 10


def test_a_quiet_round_is_not_bad_for_those_before_it(machine, short_rounds):
    sampler = StateSampler(list, machine)
    for k in range(20):
        short_rounds(sampler, k, 4)
    assert short_rounds(sampler, 20, 0).bad == ()
    states = [short_rounds(sampler, k, 0) for k in range(21, 34)]
    assert (states[-1].others_percent, states[-1].bad) == (0.0, ())


def test_rounding_in_every_tenth_round_is_no_load(machine, short_rounds):
    sampler = StateSampler(list, machine)
    assert not any(short_rounds(sampler, k, 2 * (k % 10 == 0)).bad for k in range(40))


def test_a_device_is_not_called_quiet_above_the_threshold():
    found = sentence([state(0, others_percent=3.0), state(1, others_percent=33.0)])
    assert "quiet" not in found
    assert "others took 3 to 33 % of the cores" in found


def test_time_taken_by_the_hypervisor(machine, round_of):
    sampler = StateSampler(list, machine)
    state = round_of(sampler, 0, cores(busy=0, idle=180, steal=20))
    assert state.steal_percent == 10.0
    assert state.others_percent == 0.0
    assert "hypervisor took 10 %" in state.bad[0]


def test_a_clock_that_fell_against_the_rounds_before(machine, round_of):
    machine.write({f"{CPU}/cpufreq/scaling_cur_freq": "2400000\n"})
    sampler = StateSampler(list, machine)
    states = [round_of(sampler, k, {}) for k in range(4)]
    states.append(round_of(sampler, 4, {f"{CPU}/cpufreq/scaling_cur_freq": "2300000\n"}))
    assert [state.bad for state in states] == [()] * 5
    assert states[4].clock_hz == 2.3e9
    fallen = round_of(sampler, 5, {f"{CPU}/cpufreq/scaling_cur_freq": "1800000\n"})
    assert fallen.bad == ("The clock fell to 1.80 GHz, 25 % below the median of the rounds before.",)


def test_heat(machine, round_of):
    throttle = f"{CPU}/thermal_throttle/core_throttle_count"
    machine.write(
        {
            f"{ZONE}/type": "cpu-thermal",
            f"{ZONE}/temp": "60000",
            f"{ZONE}/trip_point_0_type": "passive",
            f"{ZONE}/trip_point_0_temp": "85000",
            f"{COOLING}/type": "cpufreq-cpu0",
            f"{COOLING}/cur_state": "0",
            throttle: "17",
        }
    )
    sampler = StateSampler(list, machine)
    cool = round_of(sampler, 0, {})
    assert (cool.temperature_c, cool.bad) == (60.0, ())
    hot = round_of(sampler, 1, {f"{ZONE}/temp": "84000", f"{COOLING}/cur_state": "2", throttle: "19"})
    assert hot.temperature_c == 84.0
    assert hot.bad == (
        "Throttled: the kernel's thermal governor limits the clock (cpufreq-cpu0).",
        "Throttled: the core was too hot.",
        "cpu-thermal was at 84 °C; the device throttles it from 85 °C.",
    )
    # What the counters of x86 counted before is of no concern.
    assert round_of(sampler, 2, {f"{ZONE}/temp": "60000", f"{COOLING}/cur_state": "0"}).bad == ()


@pytest.mark.parametrize(
    ("stat", "before", "after"),
    [
        ("cpu.max", "throttled_usec 5000", "throttled_usec 47000"),
        ("cfs", "throttled_time 5000000", "throttled_time 47000000"),
    ],
)
def test_a_quota_is_told_and_makes_no_round_bad(machine, round_of, stat, before, after):
    old = stat == "cfs"
    folder = "/sys/fs/cgroup/cpu" if old else "/sys/fs/cgroup"
    limit = {f"{folder}/cpu.cfs_quota_us": "50000", f"{folder}/cpu.cfs_period_us": "100000"}
    machine.write({f"{folder}/cpu.stat": before, **(limit if old else {f"{folder}/cpu.max": "50000 100000"})})
    state = round_of(StateSampler(list, machine), 0, {f"{folder}/cpu.stat": after})
    assert (state.held_up_ms, state.bad) == (42.0, ())


def test_what_is_not_told_is_none_with_a_reason(tmp_path):
    sampler = StateSampler(list, RecordedHost(tmp_path))
    sampler.begin_round(0)
    state = sampler.end_round()
    told = ("clock_hz", "temperature_c", "others_percent", "steal_percent", "held_up_ms")
    assert [getattr(state, name) for name in told] == [None] * 5
    assert sampler.unavailable.keys() == set(told)
    assert "cpufreq" in sampler.unavailable["clock_hz"]
    assert (
        sentence([state])
        == "Measured without information about other load: none is reported, or rounds are too short."
    )


def test_a_round_shorter_than_a_tick_has_no_load(machine, round_of):
    sampler = StateSampler(list, machine)
    state = round_of(sampler, 0, cores(busy=2, idle=1))
    assert (state.others_percent, state.steal_percent) == (None, None)
    assert "shorter" in sampler.unavailable["others_percent"]


def test_a_system_without_proc_is_asked_through_psutil(tmp_path):
    class Asked(RecordedHost):
        answers = {}  # noqa: RUF012 - changed between two looks

        def call(self, library, function, *arguments):
            return self.answers.get(call_key(library, function, *arguments))

    def answers(user_s, idle_s, own_s):
        return {
            "os.getpid()": 10,
            "psutil.cpu_times()": {"user": user_s, "idle": idle_s},
            "edgeopt.hw.processes.family_seconds(10)": own_s,
        }

    host = Asked(tmp_path)
    host.answers.update(answers(10.0, 90.0, 1.0))
    sampler = StateSampler(list, host)
    sampler.begin_round(0)
    # Ten seconds later, all busy, four of them with edgeopt.
    host.answers.update(answers(20.0, 90.0, 5.0))
    state = sampler.end_round()
    assert (state.others_percent, state.steal_percent) == (60.0, None)
    assert "hypervisor" in sampler.unavailable["steal_percent"]


def test_the_seconds_of_a_family_by_psutil():
    program = "import time\nwhile time.process_time() < 0.2: pass\nprint('done', flush=True)\ninput()"
    before = family_seconds(os.getpid())
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        assert family_seconds(os.getpid(), child.pid) - before > 0.15
        child.communicate(b"\n")
    assert family_seconds(2**22 + 1) == 0.0


def state(number, bad=(), repeated=False, **told):
    return RoundState(number, float(number), 0.5, bad=tuple(bad), repeated=repeated, **told)


QUIET = [
    state(0, others_percent=1.2, clock_hz=2.41e9, temperature_c=51.0),
    state(1, others_percent=3.4, clock_hz=2.4e9, temperature_c=54.0),
]
BUSY = state(1, ["Other processes took 35 % of the cores."], True, others_percent=35.0)
STOLEN = state(
    2, ["The hypervisor took 9 % of the cores' time for other virtual machines."], True, steal_percent=9.0
)
SLOW = state(2, ["The clock fell to 1.20 GHz, 50 % below the median of the rounds before."], clock_hz=1.2e9)


@pytest.mark.parametrize(
    ("states", "words"),
    [
        (QUIET, ["the device was quiet (others took 1 to 3 % of", "clock 2.40 to 2.41 GHz, 51 to 54 °C)."]),
        ([QUIET[0], BUSY], ["other processes were busy in 1 of 2 rounds (repeated, and it does not count)"]),
        # What a repeated round showed is no figure of those that count.
        ([QUIET[0], BUSY], ["counted rounds: others took 1 % of the cores"]),
        (
            [QUIET[0], BUSY, STOLEN],
            ["busy and the hypervisor took time in 2 of 3 rounds (repeated, and they do not"],
        ),
        ([QUIET[0], STOLEN, SLOW], ["the clock had fallen in 2 of 3 rounds (1 repeated and left out, 1 counted)"]),
        ([QUIET[0], SLOW], ["the clock had fallen in 1 of 2 rounds (it counts)", "clock 1.20 to 2.41 GHz"]),
        ([state(0, others_percent=0.0, held_up_ms=1500.0)], ["throttled by the CPU quota for 1.5 s"]),
    ],
)
def test_the_sentence_of_a_report(states, words):
    found = sentence(states)
    assert found.startswith("Measured while ")
    assert all(each in found for each in words), found


def test_without_rounds_there_is_nothing_to_say():
    assert sentence([]) == ""


@pytest.mark.timing
@pytest.mark.skipif(sys.platform != "linux", reason="reads this machine's /proc")
def test_a_look_costs_less_than_a_round_can_bear():
    sampler = StateSampler(list)
    taken = []
    for number in range(30):
        begin = time.process_time()
        sampler.begin_round(number)
        sampler.end_round()
        taken.append(time.process_time() - begin)
    assert min(taken) < 1e-3


@pytest.mark.timing
@pytest.mark.skipif(sys.platform != "linux", reason="reads this machine's /proc")
def test_a_busy_process_is_other_load_unless_it_is_a_trial():
    with subprocess.Popen([sys.executable, "-c", SPIN], stdout=subprocess.PIPE) as child:
        try:
            child.stdout.readline()
            spins = psutil.Process(child.pid)
            stranger, trial = StateSampler(list, _Orphan(child.pid)), StateSampler(list)
            stranger.begin_round(0)
            trial.begin_round(0)
            before = spins.cpu_times()
            while (took_s := sum(spins.cpu_times()[:2]) - sum(before[:2])) < 0.5:
                pass  # this process is busy as well, and is no other
            others, none = stranger.end_round(), trial.end_round()
        finally:
            child.kill()
    expected = 100 * took_s / (others.seconds * psutil.cpu_count())
    assert others.others_percent - none.others_percent == pytest.approx(expected, rel=0.3)


class _Orphan:
    """This machine, on which one process is not shown as a child of its parent."""

    def __init__(self, pid):
        self._pid, self._host = pid, LocalHost(cache_folder=None)

    def read(self, path):
        text = self._host.read(path)
        return text.replace(f"{self._pid} ", "") if path.endswith("/children") and text else text

    def __getattr__(self, name):
        return getattr(self._host, name)
