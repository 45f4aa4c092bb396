"""Whatever became of a deployment, the next good one is taken, proved and committed: see `test_machine.py` too."""

import asyncio
from types import SimpleNamespace

import pytest

from edgeopt.bundle.manifest import release_id
from edgeopt_agent.deployments.machine import Machine
from edgeopt_agent.deployments.slots import Slots
from tests.agent.conftest import packed


@pytest.mark.parametrize("content", [b"", b"no zip", "cut"], ids=["empty", "no zip", "cut short"])
def test_after_bytes_that_are_no_bundle_the_next_one_commits(start_agent, old_bundle, new_bundle, content):
    agent = start_agent()
    whole = packed(old_bundle)
    status, _, answer = agent.send(whole[: len(whole) // 2] if content == "cut" else content)
    if status == 202:
        assert agent.ended(answer["deployment"]["id"])["state"] == "FAILED"
    assert agent.deploy(new_bundle)["state"] == "COMMITTED"
    agent.serves(new_bundle)


def test_after_a_cancelled_one_the_next_one_commits(agent, new_bundle):
    _, _, answer = agent.send(new_bundle, soak_s=600)
    assert agent.ask("POST", "/api/v1/cancel")[0] == 202
    assert agent.ended(answer["deployment"]["id"])["state"] in {"FAILED", "ROLLED_BACK"}
    assert agent.deploy(new_bundle)["state"] == "COMMITTED"
    agent.serves(new_bundle)


def test_a_first_deployment_that_goes_back_removes_only_its_own_release(start_agent, old_bundle, new_bundle):
    agent = start_agent()
    foreign = agent.data_dir / "releases" / "0123456789ab"
    foreign.mkdir()
    (agent.data_dir / "hooks").mkdir()
    hook = agent.data_dir / "hooks" / "before-commit"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o700)
    ended = agent.deploy(old_bundle)
    assert (ended["state"], ended["release"]) == ("ROLLED_BACK", release_id(old_bundle))
    assert [folder.name for folder in (agent.data_dir / "releases").iterdir()] == [foreign.name]
    assert agent.status()["state"] == "empty"
    hook.unlink()
    assert agent.deploy(new_bundle)["state"] == "COMMITTED"
    agent.serves(new_bundle)


def test_a_model_can_be_removed_while_its_last_deployment_is_tidied_up():
    done = []

    class Tidying(Machine):
        async def last(self):
            await asyncio.sleep(0)
            done.append("tidied")

    class Removing(Slots):
        async def _remove(self, _slot):
            done.append("removed")

    async def remove():
        machine, slots = Tidying(SimpleNamespace(model="m")), Removing.__new__(Removing)
        machine.recovered.set()
        machine._tidying = asyncio.create_task(machine.last())
        slot = SimpleNamespace(machine=machine, name="m", site=machine.site)
        slots._changing, slots.first, slots.named = asyncio.Lock(), object(), lambda _name: slot
        await slots.remove("m", "a test")

    asyncio.run(remove())
    assert done == ["tidied", "removed"]
