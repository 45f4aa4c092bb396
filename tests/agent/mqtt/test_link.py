"""When the link reports again."""

import asyncio
from types import SimpleNamespace

import msgspec

from edgeopt_agent.mqtt.link import FleetLink
from tests.broker import DEADLINE_S, TOPICS


class Machine:
    """A deployment whose end is reported while the machine still tidies up."""

    newest = SimpleNamespace(final=True)
    busy = True


class Broker:
    """Takes reports; while it takes the first one, the machine gets ready and says so."""

    def __init__(self, machine, changed):
        self.machine, self.changed = machine, changed
        self.states = []
        self.enough = asyncio.Event()

    async def publish(self, _topic, content, *_, **__):
        self.states.append(msgspec.json.decode(content)["status"]["state"])
        self.machine.busy = False
        if len(self.states) == 1:
            self.changed.set()
        if len(self.states) == 2:
            self.enough.set()


def test_end_of_tidying_during_a_report_is_reported():
    machine = Machine()

    async def status(_model):
        return 200, {"state": "deploying" if machine.busy else "serving"}

    async def run():
        link = FleetLink.__new__(FleetLink)
        link._slots = SimpleNamespace(all=[SimpleNamespace(machine=machine)])
        link._answers = SimpleNamespace(status=status)
        link._orders = SimpleNamespace(following=None, refused=None)
        link._searches = SimpleNamespace(last=None)
        link._trust = lambda: "unsigned"
        link._topics, link._session, link._changed = TOPICS, 1, asyncio.Event()
        broker = Broker(machine, link._changed)
        reporting = asyncio.create_task(link._report(broker))
        try:
            await asyncio.wait_for(broker.enough.wait(), DEADLINE_S)
        finally:
            reporting.cancel()
        return broker.states

    assert asyncio.run(run()) == ["deploying", "serving"]
