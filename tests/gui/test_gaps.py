import os
import threading
import time
from pathlib import Path

import pytest
from PySide6.QtCore import QTimer

from edgeopt_gui.gaps import GapMonitor, _waited_s


def test_a_loop_that_is_blocked_is_found_with_what_it_did(qtbot):
    monitor = GapMonitor(longest_ms=60)

    def block_the_loop():
        time.sleep(0.4)  # what the monitor is there to find

    with qtbot.waitSignal(monitor.found, timeout=60_000):
        monitor.start()
        QTimer.singleShot(50, block_the_loop)
    gaps = monitor.stop()
    worst = max(gaps, key=lambda gap: gap.length_ms)
    assert worst.length_ms > 200
    assert "block_the_loop" in worst.stack


def test_waiting_for_a_core_is_no_gap_of_the_window(qtbot, monkeypatch):
    monitor = GapMonitor(longest_ms=60)
    waited = iter(range(1000))
    monkeypatch.setattr("edgeopt_gui.gaps._waited_s", lambda _thread: next(waited))  # a second each time
    blocked = []

    def block_the_loop():
        time.sleep(0.4)
        blocked.append(1)

    monitor.start()
    QTimer.singleShot(50, block_the_loop)
    qtbot.waitUntil(lambda: bool(blocked), timeout=60_000)
    assert monitor.stop() == ()


def test_what_a_thread_waited_for_is_read_from_the_kernel():
    if not Path("/proc/self/schedstat").exists():
        pytest.skip("this kernel does not count it")
    thread = threading.get_native_id()
    before = _waited_s(thread)
    begin = time.perf_counter()
    for _ in range(100):
        os.sched_yield()
    assert 0 < before <= _waited_s(thread) <= before + time.perf_counter() - begin + 0.01
    assert _waited_s(0) == 0.0


def test_a_loop_that_answers_has_no_gap(qtbot):
    monitor = GapMonitor(longest_ms=5000)
    ticks = []
    timer = QTimer(interval=5)
    timer.timeout.connect(lambda: ticks.append(1))
    timer.start()
    monitor.start()
    qtbot.waitUntil(lambda: len(ticks) > 40, timeout=60_000)
    # From another thread, as a loop that waits for the end of the monitor gives no last answer.
    ending = threading.Thread(target=monitor.stop)
    ending.start()
    qtbot.waitUntil(lambda: not ending.is_alive(), timeout=60_000)
    assert monitor.gaps == []
