import os
import threading
import time

import pytest

from edgeopt.platform.pipes import PolledReader, ThreadReader


@pytest.fixture
def pipe():
    read, write = os.pipe()
    yield read, write
    os.close(read)


@pytest.fixture(params=[PolledReader, ThreadReader])
def reader(request, pipe):
    made = request.param(pipe[0], 4)
    yield made
    made.close()


def test_what_is_written_is_read_in_chunks_and_then_the_end(reader, pipe):
    os.write(pipe[1], b"abcdef")
    assert (reader.read(), reader.read()) == (b"abcd", b"ef")
    os.close(pipe[1])
    assert reader.wait(60)
    assert (reader.read(), reader.read()) == (b"", b"")


def test_waiting_ends_when_the_time_is_up(reader, pipe):
    assert not reader.wait(0)
    begin = time.monotonic()
    assert not reader.wait(0.05)
    assert time.monotonic() - begin >= 0.04
    os.close(pipe[1])


def test_waiting_ends_with_the_first_bytes(reader, pipe):
    timer = threading.Timer(0.05, os.write, (pipe[1], b"x"))
    timer.start()
    assert reader.wait(60)
    assert reader.read() == b"x"
    timer.join()
    os.close(pipe[1])


def test_a_thread_reads_ahead_only_a_little(pipe):
    os.set_blocking(pipe[1], False)
    reader = ThreadReader(pipe[0], 4)

    def fill():
        try:
            return os.write(pipe[1], b"x" * 4096)
        except BlockingIOError:
            return 0

    written = 0
    while more := fill():
        written += more
    assert written < 1 << 20
    reader.close()
    os.close(pipe[1])


def test_a_closed_reader_leaves_the_pipe_open(reader, pipe):
    reader.close()
    os.close(pipe[1])
    assert os.fstat(pipe[0])
