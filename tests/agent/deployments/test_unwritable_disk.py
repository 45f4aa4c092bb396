"""A file system that takes nothing: what serves goes on serving, also when the agent is started again."""

import contextlib
import shutil
import subprocess

import pytest


def fill(place):
    with contextlib.suppress(OSError), (place / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    assert shutil.disk_usage(place).free == 0


def make_read_only(place):
    subprocess.run(["/bin/mount", "-o", "remount,ro", str(place)], check=True)


@pytest.fixture
def served(start_agent, small_disk, old_bundle, new_bundle):
    """Starts an agent on the small disk, where two releases have been deployed."""
    first = start_agent(small_disk / "agent")
    for bundle in (old_bundle, new_bundle):
        assert first.deploy(bundle)["state"] == "COMMITTED"
    first.stop()
    return lambda: start_agent(small_disk / "agent")


@pytest.mark.parametrize("damage", [fill, make_read_only])
def test_a_restart_on_a_disk_that_takes_nothing_serves(served, small_disk, new_bundle, damage):
    damage(small_disk)
    agent = served()
    agent.serves(new_bundle)
    assert "cannot be written" in agent.status()["reason"]
    assert agent.status()["deployment"]["state"] == "COMMITTED"
    assert agent.send(new_bundle)[0] in {500, 507}
    agent.serves(new_bundle)


def test_a_rollback_on_a_full_disk_goes_back(served, small_disk, old_bundle):
    fill(small_disk)
    agent = served()
    agent.settled()
    done = agent.roll_back()
    assert (done["kind"], done["state"]) == ("rollback", "COMMITTED")
    agent.serves(old_bundle)
    (small_disk / "filler").unlink()
    agent.stop()
    served().serves(old_bundle)


def test_a_disk_that_fills_up_while_a_bundle_is_tried_fails_it_in_every_view(
    served, small_disk, new_bundle, make_null_bundle
):
    agent = served()
    agent.settled()
    number = agent.send(make_null_bundle(load_ms=1500.0))[2]["deployment"]["id"]
    agent.until(lambda: agent.status()["deployment"]["state"] == "PROBING", "the probe")
    fill(small_disk)
    done = agent.ended(number)
    assert done["state"] == agent.status()["deployment"]["state"] == "FAILED"
    assert agent.ask("GET", "/api/v1/events?after=0")[2]["events"][-1]["state"] == "FAILED"
    agent.serves(new_bundle)
    (small_disk / "filler").unlink()
    assert agent.deploy(make_null_bundle(model={"noise": 0.5}))["state"] == "COMMITTED"
