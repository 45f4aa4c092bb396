import os
import sys

import numpy as np
import pytest

from edgeopt.measure.contender import ask
from edgeopt.measure.messages import Describe, Described, Load, Loaded, Outputs, Time, Timed, Watch
from edgeopt.workers.protocol import Failed

PROGRAM = """
import os, sys, time
import numpy as np

data = dict(np.load(os.environ["EDGEOPT_DATA"]))
print("loading")
{before}
print("ready", flush=True)
for line in sys.stdin:
    number = int(line.split()[1])
    {run}
    print("done", flush=True)
"""


@pytest.fixture
def program(tmp_path, samples):
    """The request to load a program that does this on each run."""

    def request(run="pass", before="", **more):
        (tmp_path / "mine.py").write_text(PROGRAM.format(run=run, before=before))
        return Load("command", f"'{sys.executable}' '{tmp_path}/mine.py'", {}, str(samples), **more)

    return request


def test_a_program_is_timed_by_the_same_rules(start, program):
    child = start()
    loaded = ask(child, program("time.sleep(0.004)", "time.sleep(0.1)"))
    assert isinstance(loaded, Loaded), loaded
    assert loaded.load_ms >= 100
    assert (loaded.inputs, loaded.outputs) == ((), ())
    taken = ask(child, Time(100))
    assert isinstance(taken, Timed)
    assert 3 <= len(taken.latencies_ms) <= 25
    assert all(4 <= latency < 100 for latency in taken.latencies_ms)


def test_it_gets_the_samples_in_rotation(start, program, tmp_path):
    keep = f"open('{tmp_path}/seen', 'a').write(f'{{number}} {{data[\"x\"][number].tolist()}}\\n')"
    child = start()
    assert isinstance(ask(child, program(keep)), Loaded)
    seen = []
    # A busy machine has no time for six runs in one slice, and the first sample is run once more when it loads.
    while len(seen) < 7:
        assert isinstance(ask(child, Time(20)), Timed)
        seen = (tmp_path / "seen").read_text().splitlines()
    rows = np.arange(18, dtype=np.float32).reshape(6, 1, 3).tolist()
    assert {line.split(" ", 1)[0] for line in seen} == set("012345")
    assert all(line.split(" ", 1)[1] == str(rows[int(line[0])]) for line in seen)


@pytest.mark.timing
def test_a_quick_program_is_told_what_the_way_costs(start, program):
    (warning,) = ask(start(), program()).warnings
    assert "for the pipe" in warning
    assert ask(start(), program("time.sleep(0.05)")).warnings == ()


def test_what_it_prints_while_it_runs_is_no_answer(start, program):
    child = start()
    ask(child, program("print('warning: slow'); sys.stdout.flush(); os.write(1, b'x' * 100_000 + b'\\n')"))
    assert isinstance(ask(child, Time(20)), Timed)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the memory of another process here")
def test_the_memory_is_the_programs_own(start, program):
    child = start()
    loaded = ask(child, program(before="kept = np.ones(12_000_000)"))
    memory = ask(child, Time(5)).memory
    assert 96e6 < loaded.memory.load_bytes < 500e6
    assert memory.peak_bytes >= memory.steady_bytes > 96e6
    assert memory.import_bytes is None


def test_it_sees_the_users_own_pythonpath(start, program, monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", f"/nowhere{os.pathsep}/else")
    child = start()
    ask(child, program(f"open('{tmp_path}/path', 'w').write(os.environ['PYTHONPATH'])"))
    assert (tmp_path / "path").read_text() == f"/nowhere{os.pathsep}/else"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("no-such-program --x", "The program 'no-such-program' cannot be started: No such file or directory."),
        ("python 'mine.py", "cannot be read: No closing quotation."),
        ("  ", "The command is empty."),
        (
            "sh -c 'echo broken >&2; exit 4'",
            "The program ended with exit code 4 before it printed 'ready': broken",
        ),
        ("sh -c 'kill -SEGV $$'", "The program crashed (SIGSEGV) before it printed 'ready'"),
    ],
)
def test_one_that_does_not_start_says_why(any_trial, samples, command, says):
    answer = ask(any_trial, Load("command", command, {}, str(samples)))
    assert isinstance(answer, Failed)
    assert says in answer.message
    assert answer.hint


def test_one_that_is_never_ready_is_given_up(start, program, ends, tmp_path):
    before = f"open('{tmp_path}/pid', 'w').write(str(os.getpid())); time.sleep(600)"
    answer = ask(start(), program(before=before, patience_s=2.0))
    assert isinstance(answer, Failed)
    assert answer.message == "The program did not print 'ready' within 2 s."
    assert ends(int((tmp_path / "pid").read_text()))


def test_one_that_ends_while_it_is_timed_says_how(start, program, tmp_path):
    child = start()
    assert isinstance(ask(child, program(f"os.path.exists('{tmp_path}/end') and sys.exit('no ink')")), Loaded)
    (tmp_path / "end").touch()
    for _ in range(2):
        answer = ask(child, Time(20))
        assert isinstance(answer, Failed)
        assert answer.message == "The program ended with exit code 1 before it printed 'done': no ink"


def test_it_ends_with_its_trial(start, program, ends, tmp_path):
    child = start()
    ask(child, program(f"open('{tmp_path}/pid', 'w').write(str(os.getpid()))"))
    child.close()
    assert ends(int((tmp_path / "pid").read_text()))


def test_what_a_program_cannot_do_is_a_sentence(start, program, tmp_path):
    child, request = start(), program()
    assert (
        "no backend options"
        in ask(child, Load("command", request.model_path, {"threads": 1}, request.samples_path)).message
    )
    ask(child, request)
    assert "one sample at a time" in ask(child, Time(5, 2)).message
    assert "so they cannot be compared" in ask(child, Outputs(0, 1, str(tmp_path / "out"))).message


def test_a_program_can_be_watched_and_says_nothing_of_its_inputs(start, program):
    child, request = start(), program("time.sleep(0.002)")
    assert ask(child, Describe("command", request.model_path)) == Described((), ())
    ask(child, request)
    assert len(np.frombuffer(ask(child, Watch(50.0)).latencies_ms, "<f4")) > 2
