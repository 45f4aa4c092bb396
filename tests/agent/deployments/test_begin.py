"""A deployment while the journal writes its begin: nobody sees it without its number."""

import asyncio
from types import SimpleNamespace

import msgspec
import pytest

from edgeopt_agent.deployments.machine import Machine
from edgeopt_agent.deployments.record import Record
from edgeopt_agent.deployments.refused import RefusedError
from edgeopt_agent.deployments.site import Work


def test_deployment_is_never_called_number_0(monkeypatch):
    async def played():
        written = asyncio.Event()

        async def begin(record, _hold):
            await written.wait()
            return msgspec.structs.replace(record, id=7)

        site = SimpleNamespace(journal=SimpleNamespace(begin=begin), option="")
        monkeypatch.setattr(Machine, "_start", lambda *_: None)
        machine = Machine(site)
        machine.recovered.set()
        begun = asyncio.create_task(machine._begin(Work(Record(id=0))))
        await asyncio.sleep(0)
        with pytest.raises(RefusedError, match="Another deployment begins"):
            machine.check_idle()
        cancelled = asyncio.create_task(machine.cancel())
        await asyncio.sleep(0)
        written.set()
        await begun
        return await cancelled

    assert asyncio.run(played()).id == 7
