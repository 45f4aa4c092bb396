"""Processes that a worker started: none outlives it."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from edgeopt_agent.workers.memory import remove_group
from tests.agent.workers.test_process import with_worker
from tests.processes import wait_ended


@pytest.mark.parametrize("way", ["stop", "kill", "crash"])
def test_no_process_that_it_started_outlives_a_worker(null_bundle, settings, way):
    async def use(worker):
        (stray,) = psutil.Process(worker.pid).children(recursive=True)
        if way == "stop":
            await worker.stop(5.0)
        elif way == "kill":
            worker.kill("for a test")
        else:
            os.kill(worker.pid, signal.SIGSEGV)
        await asyncio.wait_for(worker.ended.wait(), 60)
        await asyncio.to_thread(wait_ended, [stray])

    with_worker(null_bundle(stray=True), settings, use)


def test_no_process_that_a_worker_started_outlives_the_agent(start_agent, null_bundle):
    agent = start_agent()
    assert agent.deploy(null_bundle(stray=True), force=1)["state"] == "COMMITTED"
    (stray,) = psutil.Process(agent.settled()["serving"]["pid"]).children(recursive=True)
    agent.process.kill()
    agent.process.wait()
    wait_ended([stray])


@pytest.fixture
def control_group():
    """A control group of the second version, with `cgroup.kill`."""
    for mounted in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
        folder = Path(mounted) / f"edgeopt-test-{os.getpid()}"
        if not (Path(mounted) / "cgroup.controllers").exists():
            continue
        try:
            folder.mkdir()
        except OSError:
            continue
        if (folder / "cgroup.kill").exists():
            yield folder
            if folder.exists():
                remove_group(folder)
            return
        folder.rmdir()
    pytest.skip("no control group can be made here")


def test_a_control_group_ends_with_all_its_processes(control_group):
    left = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True)
    try:
        (control_group / "cgroup.procs").write_text(str(left.pid))
        remove_group(control_group)
        assert left.wait(60) == -signal.SIGKILL
        assert not control_group.exists()
    finally:
        left.kill()
        left.wait()
