import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from edgeopt.measure import memory
from edgeopt.platform import memory as platform_memory
from edgeopt.platform.processes import group_members

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


def test_an_exact_count_is_near_the_quick_one():
    exact = memory.exact_sizes()
    assert exact.resident_bytes == pytest.approx(memory.resident_bytes(), rel=0.05)
    assert exact.resident_bytes == pytest.approx(platform_memory.quick_resident_bytes(os.getpid()), rel=0.05)
    assert exact.peak_bytes >= exact.resident_bytes
    assert 0 < platform_memory.own_share_bytes(os.getpid()) <= 1.05 * exact.resident_bytes


def test_without_proc_the_sizes_are_those_of_psutil():
    now, peak = platform_memory.library_sizes(os.getpid())
    assert now == pytest.approx(memory.exact_sizes().resident_bytes, rel=0.05)
    assert peak is None  # only Windows keeps it
    assert platform_memory.library_sizes(2**22 + 1) == (None, None)


def test_the_members_of_a_group_are_found():
    with subprocess.Popen(["/bin/sh", "-c", "sleep 60 & echo; wait"], stdout=-1, process_group=0) as shell:
        try:
            shell.stdout.readline()
            members = group_members(shell.pid)
            assert shell.pid in members
            assert len(members) == 2
            assert memory.sizes_of_others(shell.pid).resident_bytes > 100_000
        finally:
            os.killpg(shell.pid, 9)


@pytest.mark.parametrize(
    ("peak", "empty", "added"), [(120, 50, 70), (49, 50, 0), (None, 50, None), (120, None, None)]
)
def test_added_memory_is_the_peak_less_an_empty_process(peak, empty, added):
    assert memory.added_bytes(peak, empty) == added
