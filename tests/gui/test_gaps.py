import time

from PySide6.QtCore import QTimer

from edgeopt_gui.gaps import GapMonitor


def test_a_loop_that_is_blocked_is_found_with_what_it_did(qtbot):
    monitor = GapMonitor(longest_ms=60)

    def block_the_loop():
        time.sleep(0.4)  # what the monitor is there to find

    with qtbot.waitSignal(monitor.found, timeout=10_000):
        monitor.start()
        QTimer.singleShot(50, block_the_loop)
    gaps = monitor.stop()
    worst = max(gaps, key=lambda gap: gap.length_ms)
    assert worst.length_ms > 200
    assert "block_the_loop" in worst.stack


def test_a_loop_that_answers_has_no_gap(qtbot):
    monitor = GapMonitor(longest_ms=5000)
    ticks = []
    timer = QTimer(interval=5)
    timer.timeout.connect(lambda: ticks.append(1))
    timer.start()
    monitor.start()
    qtbot.waitUntil(lambda: len(ticks) > 40, timeout=10_000)
    assert monitor.stop() == ()
