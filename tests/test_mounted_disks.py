"""The small file systems that tests mount."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

KILLED = """
import os, signal

def test_killed_with_a_mounted_disk(mount_disk):
    print(mount_disk("left", "1m"), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def mounted(place):
    """Whether a file system is mounted there."""
    return f" {place} " in Path("/proc/mounts").read_text(encoding="utf-8")


@pytest.mark.skipif(sys.platform != "linux", reason="mounts with Linux's commands")
def test_a_killed_test_run_leaves_no_mount(tmp_path):
    test = tmp_path / "test_killed.py"
    test.write_text(KILLED, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "tests.disks", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, f"--basetemp={tmp_path / 'inner'}", "--rootdir", str(tmp_path), str(test)],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    place = next((line for line in done.stdout.splitlines() if line.endswith("/left")), "")
    if not place:
        pytest.skip("no file system can be mounted here")
    deadline = time.monotonic() + 30
    while mounted(place) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not mounted(place)
