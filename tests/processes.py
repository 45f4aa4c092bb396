"""Waits for processes that are no children of the test."""

import time

import psutil


def has_ended(process):
    """Whether it runs no longer: an orphan that has ended stays a zombie until the system looks for it."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_ended(processes, within_s=60):
    """Waits until all of them have ended; raises AssertionError with those that have not."""
    deadline = time.monotonic() + within_s
    while left := [each for each in processes if not has_ended(each)]:
        assert time.monotonic() < deadline, f"still running: {left}"
        time.sleep(0.01)
