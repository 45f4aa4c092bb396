import contextlib
import os
import resource
import signal
import sys
import time
from pathlib import Path

import msgspec
import pytest

from edgeopt.errors import TrialError
from edgeopt.measure.messages import Describe
from edgeopt.workers.host import NOT_STARTED, LocalHost

SERVES = """
import sys
from edgeopt.workers.protocol import serve
{before}
serve(lambda asked: (lambda line: {answer})(asked.strip()))
"""


@pytest.fixture
def child(tmp_path, monkeypatch, start):
    """A child process whose answer to a line is this expression."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(answer="line.upper()", before=""):
        (tmp_path / "planted_child.py").write_text(SERVES.format(answer=answer, before=before))
        return start("planted_child")

    return make


def ask(child, line=b"hello", timeout_s=20):
    child.send(line)
    return child.receive(timeout_s)


def test_one_line_is_answered_with_one_line(child):
    one = child()
    assert ask(one) == b"HELLO"
    assert ask(one, b"again\n") == b"AGAIN"


def test_answers_that_come_together_are_kept_apart(child):
    one = child()
    one.send(b"a\nb\nc")
    assert [one.receive(20) for _ in range(3)] == [b"A", b"B", b"C"]


def test_an_answer_may_be_longer_than_a_pipe_holds(child):
    assert len(ask(child("line * 300_000"))) == 1_500_000


def test_what_is_printed_is_no_answer(child):
    assert ask(child("(print('noise', flush=True), line)[1]")) == b"hello"


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGFPE"])
def test_a_crash_is_told_by_its_signal(child, name):
    one = child(f"__import__('os').kill(__import__('os').getpid(), {int(signal.Signals[name])})")
    with pytest.raises(TrialError, match=rf"^crashed: {name}"):
        ask(one)


def test_an_early_end_is_told_by_its_exit_code_and_last_words(child):
    before = "print('first', file=sys.stderr); sys.exit('no device found')"
    with pytest.raises(TrialError) as caught:
        ask(child(before=before))
    assert caught.value.message == "ended with exit code 1 (no device found)"


def test_an_error_that_nobody_caught_is_told(child):
    with pytest.raises(TrialError, match=r"^ended with exit code 1 \(ZeroDivisionError: division by zero\)$"):
        ask(child("1 / 0"))


def test_what_was_said_before_a_crash_is_told_without_the_trace(child):
    crash = "import faulthandler, os; faulthandler.enable(); print('no device', file=sys.stderr, flush=True)"
    with pytest.raises(TrialError) as caught:
        ask(child(before=f"{crash}; os.kill(os.getpid(), {int(signal.SIGSEGV)})"))
    assert caught.value.message == "crashed: SIGSEGV (no device)"


def test_last_words_are_short(child):
    with pytest.raises(TrialError) as caught:
        ask(child(before="sys.exit('x' * 100_000)"))
    assert len(caught.value.message) < 300


@pytest.mark.parametrize(
    "asleep", ["__import__('time').sleep(600)", "__import__('ctypes').PyDLL(None).sleep(600)"]
)
def test_what_hangs_is_killed_within_the_limit(child, ends, asleep):
    one = child(f"{asleep} if line == b'sleep' else line")
    assert ask(one) == b"hello"
    begin = time.monotonic()
    with pytest.raises(TrialError, match=r"^hung: no answer within 1 s; it was killed$"):
        ask(one, b"sleep", timeout_s=1)
    assert 1 <= time.monotonic() - begin < 10
    assert ends(one.pid)


def test_a_dead_child_can_be_asked_closed_and_closed_again(child, ends):
    one = child()
    assert ask(one) == b"HELLO"
    one.close()
    one.close()
    assert ends(one.pid)


def test_close_ends_what_the_child_started(child, ends):
    before = (
        f"import subprocess; kid = subprocess.Popen([{sys.executable!r}, '-c', 'import time; time.sleep(600)'])"
    )
    one = child("b'%d' % kid.pid", before)
    grandchild = int(ask(one))
    one.close()
    assert ends(one.pid, grandchild)


def test_a_second_close_harms_nobody_who_has_the_number_by_now(child, monkeypatch):
    one = child()
    one.close()
    killed = []
    monkeypatch.setattr("os.killpg", lambda *call: killed.append(call))
    one.close()
    assert killed == []


def test_the_child_is_no_member_of_our_group(child):
    answer = ask(child("b'%d %d' % (__import__('os').getpgrp(), __import__('os').getpid())"))
    group, pid = answer.split()
    assert group == pid


def test_a_local_file_is_where_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "model.onnx"
    path.touch()
    assert LocalHost().put(path.relative_to(tmp_path)) == str(path)


def test_stderr_goes_to_the_log_folder_and_leaves_nothing_there(child, tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    one = LocalHost(folder).start()
    one.close()
    assert list(folder.iterdir()) == []


def test_a_file_of_the_users_is_not_taken_for_a_library(tmp_path, monkeypatch, samples, load_null):
    (tmp_path / "msgspec.py").write_text("raise RuntimeError('the file of the user')")
    monkeypatch.chdir(tmp_path)
    with contextlib.closing(LocalHost().start()) as child:
        child.send(msgspec.json.encode(Describe("null", load_null().model_path)))
        assert b"described" in child.receive(20)


def test_ready_waits_for_an_answer_and_sees_one_that_came_with_another(child):
    one = child("line + bytes([10]) + line")
    assert not one.ready(0.0)
    one.send(b"twice")
    assert one.ready(20)
    one.receive(20)
    assert one.ready(0.0)
    one.receive(20)
    assert not one.ready(0.0)


def test_the_end_is_ready_too(child):
    one = child("__import__('os')._exit(3)")
    one.send(b"")
    assert one.ready(20)
    with pytest.raises(TrialError, match="exit code 3"):
        one.receive(20)


def open_files():
    return {int(file.name) for file in Path("/proc/self/fd").iterdir()}


@pytest.fixture
def files_at_most():
    """Lets this process open files only below such a number, until the end of the test."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield lambda maximum: resource.setrlimit(resource.RLIMIT_NOFILE, (maximum, hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.cold
@pytest.mark.skipif(sys.platform != "linux", reason="counts this process's files in /proc")
def test_a_process_that_cannot_be_started_is_a_sentence_and_leaves_nothing_open(files_at_most, tmp_path):
    LocalHost(tmp_path).start().close()
    files_at_most(max(open_files()) + 20)
    with contextlib.ExitStack() as rest:
        spare = []
        with contextlib.suppress(OSError):
            while True:
                spare.append(rest.enter_context(open(os.devnull)))  # noqa: PTH123 - it only fills a place
        refused = []
        # Each step of a start is one that finds no place.
        for freed in range(1, 13):
            try:
                LocalHost(tmp_path).start().close()
            except TrialError as error:
                refused.append(error)
            # Whoever leaves a file open has one place less the next time.
            spare.pop().close()
            places = []
            with contextlib.suppress(OSError), contextlib.ExitStack() as free:
                while True:
                    places.append(free.enter_context(open(os.devnull)))  # noqa: PTH123 - as above
            assert len(places) == freed
    assert 4 < len(refused) < 12
    assert {error.message for error in refused} == {"could not be started: Too many open files"}
    assert all(error.code == NOT_STARTED and "ulimit" in error.hint for error in refused)


def test_a_folder_that_is_gone_is_a_sentence_too(tmp_path):
    with pytest.raises(TrialError, match="could not be started: No such file"):
        LocalHost(tmp_path / "gone").start()


def test_children_are_heard_beside_a_thousand_open_files(files_at_most, start):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1200:
        pytest.skip("the system allows fewer files")
    files_at_most(max(soft, 1200))
    with contextlib.ExitStack() as many:
        while many.enter_context(open(os.devnull)).fileno() < 1050:  # noqa: PTH123 - only its number counts
            pass
        child = start()
        assert child.fileno() > 1023
        assert ask(child, b"nonsense").startswith(b'{"type":"failed"')
