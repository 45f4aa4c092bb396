"""Eight curves of 100,000 samples are drawn within 8 ms a frame."""

import importlib.util
import statistics
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timing

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "live_curves.py"


def test_a_frame_takes_no_more_than_8_ms(qapp, no_qt_warnings):
    spec = importlib.util.spec_from_file_location("live_curves", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = script
    spec.loader.exec_module(script)
    found = script.measure(25)
    ours, theirs = (statistics.median(frame.cpu_ms for frame in taken) for taken in found.values())
    # On a machine that is busy with other things the caches are too: then against pyqtgraph's own way, in turns.
    assert ours < max(8.0, theirs / 4), f"{ours:.1f} ms; pyqtgraph by itself {theirs:.1f} ms"
