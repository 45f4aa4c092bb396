import os
import signal

import pytest

from edgeopt_gui.end_signals import EndSignals


# Not in a worker of many tests: what ends by the signal must be this process alone.
@pytest.mark.timing
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_told_in_the_event_loop_and_ends_nothing_by_itself(qtbot, number):
    before = signal.getsignal(number)
    signals = EndSignals()
    with qtbot.waitSignal(signals.came, timeout=60_000):
        os.kill(os.getpid(), number)
    signals.close()
    assert signal.getsignal(number) is before
