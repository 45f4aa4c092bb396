"""What a bad contender may do in its turn: each a stated result within its limit, and the contest goes on."""

import os
import re
import time
from contextlib import ExitStack, closing

import msgspec
import numpy as np
import pytest

from edgeopt.backends.base import TensorInfo
from edgeopt.data.samples import check_samples, save_samples
from edgeopt.errors import TrialError
from edgeopt.measure import contender as contenders
from edgeopt.measure.contender import ask, enter
from edgeopt.measure.messages import Load, Loaded, Time, Timed
from edgeopt.measure.rounds import run_rounds
from edgeopt.workers.guard import LONGEST_LOG_BYTES
from edgeopt.workers.host import LocalHost
from edgeopt.workers.tasks import TRIAL as TRIAL_TASK

INPUTS = (TensorInfo("x", "float32", ("batch", 3)),)
OUTPUTS = (TensorInfo("y", "float32", ("batch", 2)),)
MIB = 2**20

# A trial as the real one, until it is asked for a time slice. It writes to stdout itself, as no real one does.
TRIAL = """
import os, signal, subprocess, sys, time
from edgeopt.workers.tasks import TaskRunner

runner = TaskRunner()
for line in sys.stdin.buffer:
    if b'"type":"time"' in line.replace(b": ", b":"):
        {fault}
    os.write(1, runner.answer(line) + b"\\n")
"""
EAT = "kept = []\nwhile True: kept.append(b'x' * (16 << 20))"
FAULTS = {
    "hangs": ("time.sleep(600)", r"^hung: no answer within 2 s; it was killed$"),
    "crashes": ("signal.raise_signal(signal.SIGSEGV)", r"^crashed: SIGSEGV"),
    "ends": ("print('no device', file=sys.stderr); os._exit(3)", r"^ended with exit code 3 \(no device\)$"),
    "is killed": (
        "os.kill(os.getpid(), signal.SIGKILL)",
        r"^was killed by the system, perhaps for memory \(it held [\d.]+ MiB\)$",
    ),
    "eats memory": (
        f"exec({EAT!r})",
        r"^used more than 300 MiB; it was killed$",
    ),
    "has a process that eats memory": (
        f"subprocess.run([sys.executable, '-c', {EAT!r}])",
        r"^used more than 300 MiB; it was killed$",
    ),
    "says no JSON": (
        "os.write(1, b'I am fine\\n'); continue",
        r"^sent an invalid answer: 'I am fine'; it was killed$",
    ),
    "says JSON of another kind": (
        'os.write(1, b\'{"type": "dance"}\\n\'); continue',
        r"^sent an invalid answer: .*dance.*; it was killed$",
    ),
    "answers another question": (
        'os.write(1, b\'{"type": "saved", "out_path": "x"}\\n\'); continue',
        r"^failed: unexpected answer Saved",
    ),
    "says half a line": (
        "os.write(1, b'{\"type\": '); time.sleep(600)",
        r"^sent an invalid answer: '\{\"type\": ' and no end of it within 2 s; it was killed$",
    ),
    "says a line without an end": (
        "[os.write(1, b'x' * 65536) for _ in iter(int, 1)]",
        r"^sent an invalid answer: 'xxx.*', only an endless line; it was killed$",
    ),
}
# The others end by themselves, however long a busy machine takes to that.
WAITED_FOR = ("hangs", "says half a line")


class Planted(LocalHost):
    """Starts a trial that goes wrong."""

    def start(self, task=TRIAL_TASK):
        with pytest.MonkeyPatch.context() as planted:
            planted.setattr("edgeopt.workers.host.WORKER_MODULE", "planted_trial")
            return super().start(task)


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A host whose trials do this when they are asked for a time slice."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def host(fault, memory_limit_bytes=300 * MIB):
        (tmp_path / "planted_trial.py").write_text(TRIAL.format(fault=fault))
        return Planted(memory_limit_bytes=memory_limit_bytes)

    return host


@pytest.fixture
def entered(load_null):
    with ExitStack() as stack:

        def one(host, name):
            made = enter(host, name, load_null(name, latency_ms=1))
            stack.callback(made.close)
            return made

        yield one


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """One that goes through all contests."""
    folder = tmp_path_factory.mktemp("good")
    ports = {"inputs": INPUTS, "outputs": OUTPUTS, "latency_ms": 1}
    (folder / "good.null.json").write_bytes(msgspec.json.encode(ports))
    save_samples(check_samples({"x": np.ones((2, 3), np.float32)}, INPUTS), folder / "samples")
    load = Load("null", str(folder / "good.null.json"), {}, str(folder / "samples"))
    with closing(enter(LocalHost(), "good", load)) as one:
        yield one


@pytest.mark.parametrize("what", FAULTS)
def test_the_contest_goes_on_without_one_that(what, planted, entered, good, ends, monkeypatch):
    fault, told = FAULTS[what]
    bad, before = entered(planted(fault), "bad"), len(good.slices_ms)
    if what in WAITED_FOR:
        monkeypatch.setattr(contenders, "SLOWEST_ANSWER_S", 2.0)
    monkeypatch.setattr("edgeopt.workers.host.LONGEST_LINE_BYTES", 16 * MIB)
    begin = time.monotonic()
    run_rounds([bad, good], 3, 20.0)
    assert time.monotonic() - begin < 60
    assert re.search(told, bad.failure), bad.failure
    assert len(good.slices_ms) == before + 3
    assert good.failure is None
    if not bad.failure.startswith("failed"):
        assert ends(bad.child.pid)


def test_ten_megabytes_of_warnings_on_both_outputs_are_no_fault(start, load_null):
    child = start()
    assert isinstance(ask(child, load_null(flood_stderr_bytes=10 * MIB, stdout_bytes=10 * MIB)), Loaded)
    assert isinstance(ask(child, Time(1)), Timed)


def test_a_log_does_not_fill_the_disk_and_its_last_line_is_told(planted, entered):
    flood = "[os.write(2, b'warning ' * 8192) for _ in range(3000)]; time.sleep(0.2); sys.exit('\\nout of ink')"
    child = entered(planted(flood), "bad").child
    with pytest.raises(TrialError, match=r"^ended with exit code 1 \(out of ink\)$"):
        # The end closes the log, so its size is looked at while it still runs.
        _receive_and_look(child, sizes := [])
    assert max(sizes) < 3 * LONGEST_LOG_BYTES


def _receive_and_look(child, sizes):
    child.send(b'{"type": "time", "slice_ms": 1}')
    while not child.ready(0.01):
        sizes.append(os.fstat(child._log.fileno()).st_blocks * 512)
    child.receive(20)


def test_what_a_trial_held_is_seen_from_outside(planted, entered):
    one = entered(planted("kept = b'x' * (100 << 20); time.sleep(0.3)"), "big")
    before = one.child.outside_peak_bytes or 0
    assert isinstance(ask(one.child, Time(1)), Timed)
    assert one.child.outside_peak_bytes > before + 50 * MIB


def test_a_trial_that_was_killed_says_so_when_it_is_asked_again(planted, entered):
    child = entered(planted("time.sleep(600)"), "bad").child
    for _ in range(2):
        with pytest.raises(TrialError, match=r"^hung: no answer within 1 s; it was killed$"):
            ask(child, Time(1), timeout_s=1)
    assert child.ready(0.0)


def test_an_end_is_told_at_once_even_when_a_process_of_its_own_keeps_the_pipe(planted, entered, ends):
    fault = "subprocess.Popen(['sleep', '600'], stdout=1); os._exit(7)"
    child = entered(planted(fault), "bad").child
    begin = time.monotonic()
    with pytest.raises(TrialError, match=r"^ended with exit code 7"):
        ask(child, Time(1), timeout_s=30)
    assert time.monotonic() - begin < 60


def test_a_trial_may_use_most_of_what_is_available_unless_told():
    import psutil

    child = LocalHost().start()
    try:
        available = psutil.virtual_memory().available
        assert 0.1 * available < child._guard.limit_bytes < 0.95 * available
    finally:
        child.close()
