"""Faults at every place of a deployment: afterwards exactly one release serves, and the next one is taken."""

import contextlib
import http.client
import random
import shutil
import signal
import threading

import pytest

from edgeopt_agent.releases import release_id
from tests.agent.deployments.soaks import soaking

PAGE_BYTES = 4096
slow = pytest.mark.slow


def outcome(agent, bundle):
    """The state in which a deployment ends; empty where it was not taken."""
    status, _, answer = agent.send(bundle)
    return agent.ended(answer["deployment"]["id"])["state"] if status == 202 else ""


@pytest.mark.parametrize(
    "pages", [pytest.param(n, marks=[] if n in {0, 12, 40} else slow) for n in range(0, 72, 2)]
)
def test_a_disk_that_is_full_after_so_many_pages(
    start_agent,
    serving_folder,
    small_disk,
    old_bundle,
    new_bundle,
    make_null_bundle,
    pages,
):
    folder = shutil.copytree(serving_folder, small_disk / "agent", symlinks=True)
    agent = start_agent(folder)
    agent.settled()
    free = shutil.disk_usage(small_disk).free // PAGE_BYTES
    (small_disk / "filler").write_bytes(bytes(max(free - pages, 0) * PAGE_BYTES))
    ended = outcome(agent, new_bundle)
    serves = new_bundle if ended == "COMMITTED" else old_bundle
    agent.serves(serves)
    agent.process.kill()
    agent.process.wait()  # the folder is locked until it is gone
    again = start_agent(folder)
    again.serves(serves)
    (small_disk / "filler").unlink()
    assert outcome(again, make_null_bundle(model={"noise": 0.5})) == "COMMITTED"


@pytest.mark.parametrize("seed", [pytest.param(n, marks=[] if n < 2 else slow) for n in range(40)])
def test_a_flipped_bit_in_the_journal(start_agent, serving_folder, tmp_path, old_bundle, new_bundle, seed):
    folder = shutil.copytree(serving_folder, tmp_path / "copy", symlinks=True)
    rng = random.Random(seed)  # noqa: S311 - the same each time
    journal = folder / "state.db"
    content = bytearray(journal.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    journal.write_bytes(content)
    agent = start_agent(folder)
    agent.serves(old_bundle)
    assert agent.ask("GET", "/api/v1/events?after=0")[0] == 200
    assert outcome(agent, new_bundle) == "COMMITTED"


@pytest.mark.parametrize("seed", [pytest.param(n, marks=[] if n < 2 else slow) for n in range(40)])
def test_a_kill_at_any_moment(
    start_agent, serving_folder, tmp_path, old_bundle, new_bundle, make_null_bundle, seed
):
    folder = shutil.copytree(serving_folder, tmp_path / "copy", symlinks=True)
    agent = start_agent(folder)
    agent.settled()
    after_s = random.Random(seed).uniform(0, 1.0)  # noqa: S311 - the same each time
    killing = threading.Timer(after_s, agent.process.send_signal, [signal.SIGKILL])
    killing.start()
    with contextlib.suppress(OSError, http.client.HTTPException):
        agent.send(new_bundle)
    agent.process.wait(60)
    killing.join()
    again = start_agent(folder)
    again.settled()
    serving = again.status()["serving"]["release"]
    assert serving in {release_id(old_bundle), release_id(new_bundle)}
    again.serves(old_bundle if serving == release_id(old_bundle) else new_bundle)
    assert outcome(again, make_null_bundle(model={"noise": 0.5})) == "COMMITTED"


FAULTS = {
    "crashes when it is loaded": {"crash": "load"},
    "crashes when it runs": {"crash": "run"},
    "fails when it is loaded": {"fail": "load"},
    "hangs when it is loaded": {"hang": "load"},
    "hangs when it runs": {"hang": "run"},
    "floods its log": {"flood_stderr_bytes": 50 << 20},
}


# What `test_next_one.py` tries as well is slow here.
QUICK_FAULTS = {("crashes when it is loaded", True), ("hangs when it is loaded", False), ("floods its log", False)}
FAULTS_AND_FIRST = [(fault, first) for fault in FAULTS for first in (True, False)]


@pytest.mark.parametrize(
    ("fault", "first"), [pytest.param(*e, marks=[] if e in QUICK_FAULTS else slow) for e in FAULTS_AND_FIRST]
)
def test_a_worker_that(start_agent, serving_folder, tmp_path, old_bundle, make_null_bundle, fault, first):
    folder = tmp_path / "copy"
    if not first:
        shutil.copytree(serving_folder, folder, symlinks=True)
    agent = start_agent(folder, probe_timeout_s=3.0)
    if not first:
        agent.settled()
    ended = outcome(agent, make_null_bundle(**FAULTS[fault]))
    assert ended == ("COMMITTED" if fault == "floods its log" else "FAILED")
    if ended == "FAILED" and first:
        assert agent.status()["state"] == "empty"
    elif ended == "FAILED":
        agent.serves(old_bundle)
    assert outcome(agent, make_null_bundle(model={"noise": 0.5})) == "COMMITTED"


@pytest.mark.parametrize("first", [pytest.param(True, marks=slow), False])
def test_a_release_that_gets_slow_late_in_its_soak(
    start_agent, serving_folder, tmp_path, old_bundle, make_null_bundle, first
):
    folder = tmp_path / "copy"
    if not first:
        shutil.copytree(serving_folder, folder, symlinks=True)
    agent = start_agent(folder)
    if not first:
        agent.settled()
    number = soaking(agent, make_null_bundle(late_s=1.5, late_ms=20.0))
    done = agent.ended(number)
    assert done["state"] == "ROLLED_BACK"
    assert "golden inputs take 2" in done["reason"]
    if first:
        assert agent.status()["state"] == "empty"
    else:
        agent.serves(old_bundle)


@pytest.mark.parametrize(("stopped", "times"), [(signal.SIGSTOP, 1), (signal.SIGKILL, 2)])
def test_a_serving_worker_that_is(start_agent, serving_folder, tmp_path, old_bundle, stopped, times):
    agent = start_agent(shutil.copytree(serving_folder, tmp_path / "copy", symlinks=True), hang_timeout_s=3.0)
    for _ in range(times):
        pid = agent.settled()["serving"]["pid"]
        next(each for each in agent.workers() if each.pid == pid).send_signal(stopped)
        agent.until(lambda pid=pid: (s := agent.status()["serving"]) and s["pid"] != pid, "the next worker")
    agent.serves(old_bundle)
