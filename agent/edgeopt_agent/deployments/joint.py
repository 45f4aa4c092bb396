"""An order of several models: they wait for each other, and all of them are committed or none."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from edgeopt.errors import EdgeoptError
from edgeopt_agent.deployments.record import Member, Record
from edgeopt_agent.deployments.states import FIRST, ROWS, Event, State
from edgeopt_agent.journal import Journal

Verdict = Literal["go on", "back", "commit"]
replace = msgspec.structs.replace


@dataclass(frozen=True, slots=True)
class JoinedDeployment:
    """A deployment of the order while it runs."""

    stop: Callable[[str], None]
    stop_requested: asyncio.Event


class Joint:
    """One order while it runs; its record decides what a start of the agent makes of its deployments."""

    def __init__(self, record: Record, journal: Journal, on_change: Callable[[], None]) -> None:
        self.record = record
        self.verdict: Verdict = "go on"
        """The end that a start of the agent gives to the deployments that the last run left."""
        self.why = ""
        """The reason for which all of it is taken back; empty while it is not."""
        self.deciding = asyncio.Lock()
        """Held while it is decided whether all are committed or all are taken back."""
        self.probing = asyncio.Lock()
        """Held by the candidate that is probed: two would slow each other down."""
        self.decided = asyncio.Event()
        self.ended = asyncio.Event()
        self._journal = journal
        self._on_change = on_change
        self._beginning = False
        self._joined: dict[str, JoinedDeployment] = {}
        self._awaited: set[str] = set()
        """The slots whose deployments a start of the agent is about to go on with."""
        self._results: dict[str, Record] = {}
        self._met: dict[State, set[str]] = {State.STAGED: set(), State.READY: set(), State.SOAKING: set()}
        self._all_met = {state: asyncio.Event() for state in self._met}
        self._agreed: set[str] = set()
        self._expected = sum(not member.done for member in record.members)

    @property
    def committed(self) -> bool:
        return self.record.state is State.COMMITTED

    @property
    def size(self) -> int:
        return len(self.record.members)

    async def begin(self) -> None:
        """Writes the order down, before any of its deployments begins."""
        self._beginning = True
        self.record = await self._journal.begin(self.record)

    async def begun(self, members: tuple[Member, ...]) -> None:
        """Writes down which deployments are of the order."""
        problem = ""
        async with self.deciding:
            self._beginning = False
            self.record = replace(self.record, members=members)
            if not self.why:
                try:
                    self.record = await self._journal.write(self.record)
                except EdgeoptError as error:
                    problem = error.message
        if problem:
            await self.fail(None, problem)
        await self.look_for_end()

    def resume(self, slots: set[str]) -> None:
        """Counts the deployments that a start of the agent goes on with."""
        self._awaited, self._expected = set(slots), len(slots)

    def join(self, slot: str, stop: Callable[[str], None], stop_requested: asyncio.Event) -> None:
        self._awaited.discard(slot)
        self._joined[slot] = JoinedDeployment(stop, stop_requested)
        if self.why:
            stop(self.why)

    async def meet(self, slot: str, state: State) -> None:
        """Waits until every model of the order has come as far as this state."""
        if self.record.state is not State.ACCEPTED and state is not State.SOAKING:
            return  # a start of the agent goes on with it
        self._met[state].add(slot)
        await self._undisturbed(self._look())
        if state is not State.SOAKING:
            await self._all_met[state].wait()

    async def agree(self, slot: str) -> bool:
        """Whether all are committed; what calls it has proved itself, and is watched further until then."""
        if not self.committed and not self.why:
            self._agreed.add(slot)
            if len(self._agreed) >= self._expected:
                await self._undisturbed(self._commit())
        return self.committed

    async def fail(self, slot: str | None, reason: str) -> bool:
        """Takes all of it back because of one, or of nobody; False where all are committed already."""
        return await self._undisturbed(self._fail(slot, reason))

    async def over(self, slot: str, record: Record) -> None:
        """Notes how one of its deployments ended."""
        self._results[slot] = record
        self._joined.pop(slot, None)
        if record.state is State.COMMITTED and not self.committed:
            self._expected -= 1  # it serves already, and has nothing to wait for
            await self._undisturbed(self._look())
        await self._undisturbed(self.look_for_end())

    def note(self, slot: str, record: Record) -> None:
        """Notes how a deployment ends that no step goes on with any more."""
        self._results[slot] = record

    async def _undisturbed(self, work: Coroutine[None, None, bool]) -> bool:
        """Returns the result of a write, which is completed even if the deployment that asked is stopped."""
        return await asyncio.shield(asyncio.ensure_future(work))

    async def _look(self) -> bool:
        """Lets those that wait go on where all have come; the decision to switch is in the journal before."""
        for state, met in self._met.items():
            if self._all_met[state].is_set() or len(met) < self._expected:
                continue
            async with self.deciding:
                if self.why or self._all_met[state].is_set():
                    continue
                try:
                    if state is State.READY and self._expected:
                        await self._enter(FIRST[self.record.kind])
                    elif state is State.SOAKING and self.record.state is State.SWITCHING:
                        await self._enter(ROWS[self.record.state].exits[Event.DONE])
                except EdgeoptError as error:
                    await self._take_back(None, error.message)
                    continue
                self._all_met[state].set()
        return True

    async def _commit(self) -> bool:
        async with self.deciding:
            stopped = any(each.stop_requested.is_set() for each in self._joined.values())
            if not self.committed and not self.why and not stopped:
                try:
                    await self._enter(ROWS[self.record.state].exits[Event.DONE])
                except EdgeoptError as error:
                    await self._take_back(None, error.message)
                else:
                    self.decided.set()
        return self.committed

    async def _fail(self, slot: str | None, reason: str) -> bool:
        async with self.deciding:
            if self.committed:
                return False
            await self._take_back(slot, reason)
        return True

    async def _take_back(self, slot: str | None, reason: str) -> None:
        if self.why:
            return
        self.why = reason
        back = ROWS[self.record.state].exits.get(Event.FAILURE)
        if back is State.ROLLING_BACK:
            await self._enter(back, reason, hold=True)
        for name, each in self._joined.items():
            if name != slot:
                each.stop(reason)
        self.decided.set()

    async def look_for_end(self) -> bool:
        """Writes the end of an order down once none of its deployments runs any more."""
        if self._beginning or self._joined or self._awaited or self.ended.is_set():
            return True
        async with self.deciding:
            if not self.record.final:
                self.record = replace(self.record, members=tuple(map(self._with_result, self.record.members)))
                await self._enter(self._end(), self.why, hold=True)
            self.ended.set()
        self._on_change()
        return True

    def _end(self) -> State:
        row = ROWS[self.record.state]
        if not self.why:
            return row.exits[Event.KNOWN]
        degraded = any(each.state is State.DEGRADED for each in self._results.values())
        return row.exits[Event.FAILURE if degraded or row.state is not State.ROLLING_BACK else Event.DONE]

    def _with_result(self, member: Member) -> Member:
        found = self._results.get(member.slot) if member.deployment else None
        return member if found is None else replace(member, state=found.state, reason=found.reason)

    async def _enter(self, state: State, reason: str = "", hold: bool = False) -> None:
        resumes = self.record.resumes if self.record.interrupted else 0
        self.record = await self._journal.write(
            replace(self.record, state=state, reason=reason, resumes=resumes), hold
        )
        self._on_change()


class OrderBook:
    """The orders of several models of an agent, in a journal of their own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._journal: Journal | None = None
        self.joint: Joint | None = None
        """The order that runs, or that ran last since the start of the agent."""
        self.newest: Record | None = None
        """The last one of the run before, where none has begun since."""
        self.beginning = asyncio.Lock()
        self.on_change: Callable[[], None] = lambda: None

    @property
    def last(self) -> Record | None:
        """The order that runs, or the last one."""
        return self.newest if self.joint is None else self.joint.record

    @property
    def exists(self) -> bool:
        return self._path.exists()

    async def journal(self) -> Journal:
        """Returns the journal of orders, opened when the first order comes: most agents never have one."""
        if self._journal is None:
            self._journal = await asyncio.to_thread(Journal, self._path)
        return self._journal

    async def take(self, record: Record) -> Joint:
        """Makes an order the present one when it begins or goes on."""
        self.joint = Joint(record, await self.journal(), self.on_change)
        return self.joint

    async def record(self, number: int) -> Record | None:
        if (last := self.last) is not None and last.id == number:
            return last
        return await (await self.journal()).deployment(number) if self.exists else None

    async def end(self, reason: str) -> None:
        """Takes the running order back, unless it is committed; waits for the end of its deployments."""
        if self.joint is not None and not self.joint.ended.is_set():
            await self.joint.fail(None, reason)
            await self.joint.ended.wait()

    async def close(self) -> None:
        if self._journal is not None:
            await self._journal.close()
