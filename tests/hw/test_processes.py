import os

import pytest

from edgeopt.hw.processes import busiest, look

HZ = 100
UPTIME = {"/proc/uptime": "1000.00 1900.00\n"}


def stat(pid, name, state, *, parent=1, flags=0, used_s=0.0, started_s=0.0):
    used, started = int(used_s * HZ), int(started_s * HZ)
    return f"{pid} ({name}) {state} {parent} 1 1 0 -1 {flags} 0 0 0 0 {used} 0 0 0 20 0 1 0 {started} 0 0\n"


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Looking ends after some milliseconds, which pass sooner than they should on a busy machine."""
    monkeypatch.setattr("edgeopt.hw.processes._LONGEST_S", 60.0)


@pytest.fixture
def processes(machine):
    def make(*texts):
        return machine(UPTIME | {f"/proc/{text.split()[0]}/stat": text for text in texts})

    return make


def test_the_busy_ones_the_busiest_first(processes):
    host = processes(
        stat(50, "trainer (gpu) x", "S", used_s=1500, started_s=0),
        stat(60, "python3", "R", used_s=97, started_s=900),
        stat(70, "idle", "S", used_s=3, started_s=0),
        stat(80, "compiler", "R", used_s=0.1, started_s=999.5),
    )
    assert look(host, 1, HZ) == ["trainer (gpu) x 150 %", "python3 97 %", "compiler running now"]


def test_systems_without_a_tick_length_have_no_answer(monkeypatch):
    monkeypatch.delattr(os, "sysconf")
    assert busiest() is None


def test_this_process_and_its_parents_do_not_count(processes):
    host = processes(
        stat(10, "make", "S", parent=5, used_s=900),
        stat(5, "shell", "R", parent=1, used_s=900),
        stat(20, "edgeopt", "R", parent=10, used_s=900),
        stat(30, "other", "R", parent=1, used_s=900),
    )
    assert look(host, 20, HZ) == ["other 90 %"]


def test_a_kernel_thread_that_runs_for_a_moment_does_not_count(processes):
    assert look(processes(stat(9, "kworker", "R", parent=2, flags=0x00208040)), 1, HZ) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "9 (",
        "9 (x) R",
        "9 (x) R a b c",
        "9 (x) R " + "-1 " * 30,
        "9 (x) R" + f" {'9' * 400}" * 30,
        "9 (x) R " + "9" * 400,
        "9 (x) R" + " ²" * 30,
    ],
)
def test_absurd_contents_are_left_out(machine, text):
    assert look(machine(UPTIME | {"/proc/9/stat": text, "/proc/x9/stat": text}), 1, HZ) == []


@pytest.mark.parametrize("uptime", [None, "", "never", "-5 1", "nan 1", "inf 1"])
def test_without_an_uptime_nothing_is_told(machine, uptime):
    host = machine({} if uptime is None else {"/proc/uptime": uptime})
    assert look(host, 1, HZ) is None


def test_this_machine_answers_without_naming_this_process():
    found = busiest()
    if not os.path.exists("/proc/uptime"):  # noqa: PTH110 - one look
        assert found is None
        return
    assert len(found) <= 8
    assert all(isinstance(words, str) and words for words in found)
