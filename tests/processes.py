"""Waits for processes: for servers that tests start, and for the end of processes that are no children of them."""

import contextlib
import os
import select
import socket
import time


def ends(*pids, within_s=60):
    """Whether all of these processes end within the limit.

    The kernel tells at once. psutil waits until somebody has collected them, which the first process of a
    container does seconds later, or never.
    """
    for pid in pids:
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            if not select.select([handle], [], [], within_s)[0]:
                return False
        finally:
            os.close(handle)
    return True


def wait_ended(found, within_s=60):
    """Waits until all of these processes of psutil have ended; raises AssertionError with those that have not."""
    left = [each for each in found if not ends(each.pid, within_s=within_s)]
    assert not left, f"still running: {left}"


def wait_listening(process, port, log, within_s):
    """Waits until a server accepts connections; raises AssertionError with its log where it does not."""
    deadline = time.monotonic() + within_s
    while True:
        assert process.poll() is None, log.read_text()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.02)
