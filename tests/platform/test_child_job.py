import ctypes
import subprocess
import sys

import pytest

from edgeopt.platform.child_job import BasicLimits, ChildJob, ExtendedLimits
from tests.portable.lacking import fake_kernel32

HELD = ["CreateJobObjectW", "SetInformationJobObject", "OpenProcess", "AssignProcessToJobObject", "CloseHandle"]


@pytest.fixture
def child():
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


@pytest.fixture
def calls():
    fake_kernel32.CALLS.clear()
    return fake_kernel32.CALLS


@pytest.mark.skipif(sys.maxsize < 2**32, reason="these are the sizes of 64-bit Windows")
def test_records_are_laid_out_as_in_winnt_h():
    assert (ctypes.sizeof(BasicLimits), ctypes.sizeof(ExtendedLimits)) == (64, 144)
    assert (BasicLimits.LimitFlags.offset, ExtendedLimits.MemoryLimitsAndPeaks.offset) == (16, 112)


def test_a_child_ends_when_its_job_closes(child, calls):
    kernel32 = fake_kernel32.FakeKernel32()
    job = ChildJob(child.pid, kernel32)
    assert (calls, kernel32.flags) == (HELD, 0x2000)
    assert child.poll() is None
    job.close()
    job.close()
    assert child.wait(20) == -9
    assert calls == [*HELD, "CloseHandle"]


@pytest.mark.parametrize("refused", HELD[:-1])
def test_a_child_without_a_job_lives_on_and_no_handle_stays_open(child, calls, refused):
    kernel32 = fake_kernel32.FakeKernel32(refused)
    ChildJob(child.pid, kernel32).close()
    assert child.poll() is None
    assert calls.count("CloseHandle") == {"CreateJobObjectW": 0, "AssignProcessToJobObject": 2}.get(refused, 1)
