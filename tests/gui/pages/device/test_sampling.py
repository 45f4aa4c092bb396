import threading

import pytest
from PySide6.QtCore import QThreadPool

from edgeopt_gui.pages.device import sampling
from edgeopt_gui.pages.device.sampling import LoadWatch


@pytest.fixture
def watch(qapp, monkeypatch):
    monkeypatch.setattr(sampling, "INTERVAL_MS", 20)
    made = LoadWatch()
    yield made
    made.stop()
    QThreadPool.globalInstance().waitForDone()


def test_samples_come_one_after_the_other_on_the_windows_own_thread(qtbot, watch):
    samples, threads = [], set()
    watch.sampled.connect(samples.append)
    watch.sampled.connect(lambda _: threads.add(threading.get_ident()))
    watch.start()
    qtbot.waitUntil(lambda: len(samples) >= 3)
    assert threads == {threading.get_ident()}
    assert samples[-1].memory_used_bytes > 0


def test_nothing_is_sampled_after_the_stop(qtbot, watch):
    with qtbot.waitSignal(watch.sampled):
        watch.start()
    watch.stop()
    assert not watch.running
    with qtbot.assertNotEmitted(watch.sampled, wait=100):
        QThreadPool.globalInstance().waitForDone()


def test_starts_again(qtbot, watch):
    for _ in range(2):
        with qtbot.waitSignal(watch.sampled):
            watch.start()
        watch.stop()
        QThreadPool.globalInstance().waitForDone()


def test_may_go_while_a_sample_is_taken(qtbot, watch):
    gone = LoadWatch()
    gone.start()
    gone.deleteLater()
    del gone
    with qtbot.waitSignal(watch.sampled):
        watch.start()
