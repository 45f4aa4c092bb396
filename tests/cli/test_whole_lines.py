"""Records as what reads them gets them: whole, one at a time, whatever the pipe and the reader are like."""

import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
import termios
import time

import pytest

from edgeopt import events

# Tells records of so many bytes, and then waits for the signal that ends it.
TELLS = """
import os, sys, threading
import typer
from edgeopt.cli import program, progress
from edgeopt.cli.console import JsonFlag, execute
from edgeopt.events import Log

progress.PATIENCE_S = float(os.environ.get("PATIENCE_S", progress.PATIENCE_S))

def work(emit):
    for number, length in enumerate(sys.argv[3:]):
        emit(Log("info", f"{number}" + "x" * int(length)))
    threading.Event().wait(60)

def build():
    application = program.application(lambda: None)
    application.command("other")(lambda: None)

    @application.command("tell")
    def tell(lengths: list[str], json: JsonFlag = False) -> None:
        execute("test", work, lambda _: (), json)
    return application

program.leave(lambda arguments: program.run("test", build, arguments))
"""
BIG = 1 << 20


@pytest.fixture
def telling(start, tmp_path):
    def begin(stdout, *lengths, **variables):
        (tmp_path / "telling.py").write_text(TELLS)
        return start("tell", "--json", *lengths, module="telling", stdout=stdout, **variables).process

    return begin


def messages(out):
    """What the whole records say; the last one is an error."""
    *told, last = [events.decode(line) for line in out.split(b"\n")[:-1]]
    assert isinstance(last, events.Error)
    return [each.message[0] for each in told], last.code


def read_all(descriptor):
    with open(descriptor, "rb") as pipe:  # noqa: PTH123 - a descriptor
        return pipe.read()


def test_each_record_is_one_write(telling):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # keeps writes apart
    with ours:
        for each in (ours, theirs):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BIG)
        process = telling(theirs, 10, 9000, 100_000)
        theirs.close()
        told = [ours.recv(BIG) for _ in range(3)]
        process.terminate()
        told.append(ours.recv(BIG))
        assert ours.recv(BIG) == b""
    assert [each.count(b"\n") for each in told] == [1, 1, 1, 1]
    assert messages(b"".join(told)) == (["0", "1", "2"], "terminated")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, "terminated"), (signal.SIGINT, "cancelled")])
def test_a_signal_waits_until_the_reader_has_taken_the_rest_of_a_record(telling, number, code):
    ours, theirs = os.pipe()
    process = telling(theirs, 10, BIG)
    os.close(theirs)
    wait_until_full(ours)  # it is in the second one now, which is longer than a pipe
    process.send_signal(number)
    out = read_all(ours)
    process.wait(60)
    assert messages(out) == (["0", "1"], code)
    assert out.endswith(b"}\n")


def test_a_pipe_that_does_not_wait_loses_nothing(telling):
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    process = telling(theirs, BIG, 10)
    os.close(theirs)
    select.select([ours], [], [], 20)
    process.send_signal(signal.SIGTERM)
    out = read_all(ours)
    process.wait(60)
    told, code = messages(out)
    assert told in (["0"], ["0", "1"])
    assert code == "terminated"


@pytest.mark.parametrize("lengths", [(BIG,), (*[4000] * 40,)], ids=["within a record", "between records"])
def test_a_reader_that_takes_nothing_more_does_not_keep_it_alive(telling, lengths):
    ours, theirs = os.pipe()
    process = telling(theirs, *lengths, PATIENCE_S="0.2")
    os.close(theirs)
    wait_until_full(ours)
    begin = time.monotonic()
    process.terminate()
    assert process.wait(60) == 143
    assert time.monotonic() - begin < 60
    # Nothing stands behind what could not be finished.
    *whole, rest = read_all(ours).split(b"\n")
    assert {type(events.decode(line)) for line in whole} <= {events.Log}
    assert rest.count(b'"event"') <= 1


def wait_until_full(pipe, within_s=60):
    """Nobody can wait for that: it is looked at until there is no room for a piece more."""
    deadline, held = time.monotonic() + within_s, 0
    while held <= fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) - select.PIPE_BUF:
        assert time.monotonic() < deadline
        held = int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)
        os.sched_yield()


def test_who_reads_no_more_ends_it_as_ever(telling):
    ours, theirs = os.pipe()
    process = telling(theirs, BIG, 10)
    os.close(theirs)
    os.read(ours, 200)
    os.close(ours)
    assert process.wait(60) == 141
    assert process.stderr.read() == ""


def test_what_was_printed_before_comes_before(start, tmp_path):
    lines = "from edgeopt.cli.progress import JsonLines; from edgeopt import events; print('first'); "
    (tmp_path / "printing.py").write_text(lines + "JsonLines().emit(events.Log('info', 'second')); print('third')")
    code, out, _ = start(module="printing", stdout=subprocess.PIPE).finish()
    first, second, third = out.splitlines()
    assert (code, first, events.decode(second).message, third) == (0, "first", "second", "third")
