import os
from pathlib import Path

import numpy as np
import pytest

from edgeopt.bench import memory

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system has no /proc")


def test_memory_that_is_used_is_counted():
    before = memory.resident_bytes()
    block = np.ones(8_000_000)
    grown = memory.resident_bytes() - before
    assert 0.8 * block.nbytes < grown < 3 * block.nbytes


def test_the_peak_remembers_what_is_given_back():
    block = np.ones(12_000_000)
    with_block = memory.resident_bytes()
    del block
    # The kernel counts resident pages for each processor and adds them up a little late.
    assert memory.peak_bytes() >= 0.97 * with_block


def test_any_process_of_ours_can_be_asked():
    assert memory.status_bytes("VmRSS", str(os.getppid())) > 0


@pytest.mark.parametrize(
    ("field", "process"), [("VmRSS", "no-such-process"), ("VmNothing", "self"), ("Name", "none")]
)
def test_what_the_system_does_not_tell_is_none(field, process):
    assert memory.status_bytes(field, process) is None
