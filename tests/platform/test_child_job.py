import ctypes
import subprocess
import sys

import pytest

from edgeopt.platform.child_job import ChildJob, ExtendedLimits
from tests.portable.lacking.fake_kernel32 import CALLS, JOB, PROCESS, FakeKernel32


@pytest.fixture
def child():
    CALLS.clear()
    with subprocess.Popen([sys.executable, "-"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


@pytest.mark.skipif(sys.maxsize < 2**32, reason="these are the sizes of 64-bit Windows")
def test_limits_are_laid_out_as_in_winnt_h():
    places = [getattr(ExtendedLimits, name).offset for name in ("LimitFlags", "Affinity", "IoInfo")]
    assert (places, ctypes.sizeof(ExtendedLimits)) == ([16, 48, 64], 144)


def test_a_child_ends_when_its_job_closes(child):
    job = ChildJob(child.pid, FakeKernel32())
    made, opened, (*told, limits, size), assigned, closed = CALLS
    assert (made, opened) == (("CreateJobObjectW", None, None), ("OpenProcess", 0x101, False, child.pid))
    assert (*told, limits._obj.LimitFlags, size) == ("SetInformationJobObject", JOB, 9, 0x2000, 144)
    assert (assigned, closed) == (("AssignProcessToJobObject", JOB, PROCESS), ("CloseHandle", PROCESS))
    assert child.poll() is None
    job.close()
    job.close()
    assert child.wait(20) == -9
    assert CALLS[5:] == [("CloseHandle", JOB)]


@pytest.mark.parametrize(
    ("refused", "closed"),
    [
        ("CreateJobObjectW", []),
        ("OpenProcess", [JOB]),
        ("SetInformationJobObject", [PROCESS, JOB]),
        ("AssignProcessToJobObject", [PROCESS, JOB]),
    ],
)
def test_a_child_without_a_job_lives_on_and_no_handle_stays_open(child, refused, closed):
    ChildJob(child.pid, FakeKernel32(refused)).close()
    assert child.poll() is None
    assert [call[1] for call in CALLS if call[0] == "CloseHandle"] == closed
