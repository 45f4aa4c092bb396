"""Walks one deployment at a time through the table; each state is in the journal before its step begins."""

import asyncio
import logging
import shlex
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from pathlib import Path

import msgspec

from edgeopt.errors import EdgeoptError, printable
from edgeopt_agent.data_dir import link_target, pointed, remove
from edgeopt_agent.deployments.fetch import remove_parts
from edgeopt_agent.deployments.joint import Joint
from edgeopt_agent.deployments.receive import archive_of, unpacked_of
from edgeopt_agent.deployments.record import Record, Soaked
from edgeopt_agent.deployments.refused import RefusedError
from edgeopt_agent.deployments.returning import check_return, nothing_to_return_to
from edgeopt_agent.deployments.site import (
    Outcome,
    Site,
    Work,
    current,
    hold_serving,
    release_serving,
    title_of,
)
from edgeopt_agent.deployments.states import FIRST, ROWS, Event, State
from edgeopt_agent.deployments.steps import SERVES, run_step
from edgeopt_agent.deployments.switching import stop_quietly
from edgeopt_agent.journal import JournalError
from edgeopt_agent.releases import check_space, prune, prune_logs
from edgeopt_agent.retention import discard, garbage
from edgeopt_agent.workers.names import clash_sentence

log = logging.getLogger(__name__)
Listener = Callable[[Record], None]


_LEVELS: Mapping[State, int] = {
    State.FAILED: logging.WARNING,
    State.ROLLED_BACK: logging.WARNING,
    State.DEGRADED: logging.ERROR,
}
"""The level of a state in the log; the others have logging.INFO."""
_SUPERSEDED = "A newer request took its place."
FETCHES = frozenset({State.ACCEPTED, State.FETCHING})
"""States in which a fetched bundle has not arrived yet, so that the serving release is not affected."""


class Machine:
    def __init__(self, site: Site) -> None:
        self.site = site
        self.work: Work | None = None
        """The deployment that runs."""
        self.newest: Record | None = None
        """Record of the deployment that runs, or of the one that ran last."""
        self.listeners: list[Listener] = []
        self.recovered = asyncio.Event()
        """Set once what the last run of the agent left is sorted out; nothing new begins before."""
        self.closed = False
        """Whether the model is being removed: nothing new begins any more."""
        self._writing = asyncio.Lock()
        """Held while a state of the running deployment is written: requests change its record too."""
        self._requests = 0
        """Number of requests to fetch a bundle; only the newest one is followed."""
        self._task: asyncio.Task[None] | None = None
        self._tidying: asyncio.Task[None] | None = None
        self._beginning = asyncio.Lock()

    async def _ready(self) -> None:
        """Waits for the recovery, and until a deployment that begins has its number."""
        await self.recovered.wait()
        async with self._beginning:
            return

    async def deploy(
        self,
        stream: AsyncIterator[bytes],
        length: int,
        record: Record,
    ) -> Work:
        """Begins with a bundle that is on its way; raises RefusedError when it cannot be taken now.

        The name in the record stands for the bundle's own until that is known.
        """
        await self._ready()
        await self._end_fetch()
        self.check_idle()
        await asyncio.to_thread(check_space, self.site.data, length, self.site.settings.disk_reserve_bytes)
        return await self._begin(Work(record, stream, length))

    async def deploy_file(self, bundle: Path, record: Record) -> Work:
        """Deploys a bundle that is already on the disk, in the agent's folder; the caller checks the space."""
        await self._ready()
        await self._end_fetch()
        return await self._begin(Work(record, length=bundle.stat().st_size, spooled=bundle))

    async def deploy_source(self, record: Record) -> Record:
        """Begins with a bundle that the agent fetches itself; the newest request ends those before it.

        The same request again changes nothing. Only a deployment of a bundle that was sent is not ended.
        """
        await self._ready()
        running, newest = self.work, self.newest
        if running is not None and running.record.source == record.source and not running.stop_requested.is_set():
            return running.record
        if running is None and newest is not None and newest.source == record.source:
            served = self.site.router.serving
            serves = served is not None and served.release_id == newest.release == current(self.site)
            if newest.state is State.COMMITTED and serves:
                return newest
        if not await self._supersede():
            raise RefusedError(
                409, "superseded", f"{_SUPERSEDED} Nothing was changed.", "See: edgeopt-agent status"
            )
        return (await self._begin(Work(record))).record

    async def deploy_member(self, record: Record, joint: Joint) -> Record:
        """Begins what an order of several models asks of this one; a bundle that is fetched gives way to it."""
        await self._ready()
        await self._supersede()
        return (await self._begin(Work(record, joint=joint))).record

    async def _supersede(self) -> bool:
        """Ends the deployment of a bundle that was fetched; False where a newer request has come meanwhile."""
        self._requests += 1
        number = self._requests
        while (running := self.work) is not None and running.record.source is not None and self._task is not None:
            if await self._revert_running(_SUPERSEDED) is None:
                _stop(running, _SUPERSEDED)
            await asyncio.wait([self._task])
        return number == self._requests

    async def roll_back(
        self, reason: str = "A rollback was requested.", to: str = "", ordered_by: str = ""
    ) -> Record:
        """Rolls back to a release on disk, by default the previous one, and ends the deployment in progress.

        A deployment that already serves ends by its own rollback. The returned deployment is in the journal.
        """
        await self._ready()
        running = self.work
        if running is not None and running.record.kind == "rollback" and to in {"", running.record.release}:
            return running.record
        if (reverted := await self._revert_running(reason, to, ordered_by)) is not None:
            return reverted
        running = self.work
        present = self.site.data.release_names()
        release = to or pointed(self.site.data.previous)
        if release is None:
            lost = link_target(self.site.data.previous) or ""
            raise nothing_to_return_to(present - {current(self.site)}, self.site.option, lost)
        if release not in present:
            raise RefusedError(
                *(404, "no-release", f"There is no release '{release[:40]}' on the device."),
                f"List them: edgeopt-agent releases{self.site.option}",
            )
        deployment = await asyncio.to_thread(check_return, self.site.data, release)
        if other := self.site.name_clash(deployment.name):
            raise RefusedError(
                *(409, "name-taken", clash_sentence(deployment.name, other)),
                f"Remove that one first: edgeopt-agent remove {shlex.quote(other)}",
            )
        if running is not None and self._task is not None:
            _stop(running, reason)
            await asyncio.wait([self._task])
        record = Record(
            id=0,
            kind="rollback",
            release=release,
            name=deployment.name,
            reason=reason,
            ordered_by=ordered_by,
        )
        return (await self._begin(Work(record))).record

    async def cancel(self, ordered_by: str = "") -> Record:
        """Ends the deployment that runs: what served before it serves on, or again."""
        await self._ready()
        reason = "It was cancelled."
        if (reverted := await self._revert_running(reason, ordered_by=ordered_by)) is not None:
            return reverted
        if self.work is None:
            raise RefusedError(
                409,
                "nothing-to-cancel",
                "No deployment is running.",
                f"Roll back: edgeopt-agent rollback{self.site.option}",
            )
        self._log_ended(self.work.record, reason, ordered_by)
        _stop(self.work, reason)
        return self.work.record

    async def collect(self, dry_run: bool) -> list[str]:
        """Removes the releases that nothing needs any more, or only names them; the next deployment waits."""
        await self._ready()
        self.check_idle()
        if self._tidying is not None:
            await asyncio.wait([self._tidying])
        names = sorted(name for name in await garbage(self.site) if self.site.data.release(name).is_dir())
        self.check_idle()
        if not dry_run:
            self._tidying = asyncio.create_task(asyncio.to_thread(prune, self.site.data, set(names)))
            self._tidying.add_done_callback(lambda _: self.site.router.on_change())
            await asyncio.shield(self._tidying)
        return names

    async def _revert_running(self, reason: str, to: str = "", ordered_by: str = "") -> Record | None:
        """Lets a deployment that serves go back, and writes that down first; None where none leads there."""
        async with self._writing, self._deciding():
            running = self.work
            if running is None or running.record.state not in SERVES or to not in {"", running.record.old}:
                return None
            if running.joint is not None and running.joint.committed:
                return None
            if running.record.state is not State.ROLLING_BACK and not running.record.going_back:
                changed = msgspec.structs.replace(running.record, going_back=reason, reason=reason)
                running.record = await self.site.journal.write(changed, hold=True)
                self._changed(running.record)
            self._log_ended(running.record, reason, ordered_by)
            _stop(running, reason)
            return running.record

    def _log_ended(self, record: Record, reason: str, ordered_by: str) -> None:
        if ordered_by:
            log.info("%s: %s Ordered by %s.", title_of(self.site, record), reason, ordered_by)

    def _deciding(self) -> AbstractAsyncContextManager[object]:
        """Holds the decision of the order that the running deployment is part of."""
        joint = None if self.work is None else self.work.joint
        return nullcontext() if joint is None else joint.deciding

    async def resume(self, record: Record, joint: Joint | None = None) -> None:
        """Goes on with what an earlier start of the agent began, where it was deciding which worker serves."""
        work = Work(record, joint=joint)
        if record.source is None or record.state not in FETCHES:
            await hold_serving(self.site, work)
        self._start(work)

    async def stop(self) -> None:
        """Leaves the running deployment as it is; the next start goes on with it where that is possible."""
        work = self.work
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._tidying is not None:
            await asyncio.gather(self._tidying, return_exceptions=True)
        if work is None or work.record.final or not ROWS[work.record.state].resumes:
            return
        reason = "The agent was stopped; it continues at the next start."
        soaked = work.soaked if work.record.state is State.SOAKING else work.record.soaked
        paused = msgspec.structs.replace(work.record, paused=True, soaked=soaked, reason=reason)
        try:
            await self.site.journal.write(paused, hold=True)
        except EdgeoptError as error:
            log.error("%s", error)

    @property
    def fetching(self) -> bool:
        """Whether the running deployment is one whose bundle the agent still fetches."""
        return self.work is not None and self.work.record.source is not None and self.work.record.state in FETCHES

    async def _end_fetch(self) -> None:
        """Ends the running download, if any, because another bundle was sent."""
        if self.fetching and self.work is not None and self._task is not None:
            _stop(self.work, _SUPERSEDED)
            await asyncio.wait([self._task])

    @property
    def busy(self) -> bool:
        """Whether a deployment runs, or what the last one left is still tidied up."""
        return self.work is not None or (self._tidying is not None and not self._tidying.done())

    async def tidied(self) -> None:
        """Waits until what the last deployment left is tidied up, which takes a moment after its end."""
        if self.work is None and self._tidying is not None:
            await asyncio.wait([self._tidying])

    def check_idle(self) -> None:
        """Raises RefusedError while a deployment runs, and where the model is being removed."""
        if self.closed:
            raise RefusedError(409, "removed", f"The model '{self.site.model}' is being removed.", "Add it again.")
        if self.work is not None:
            number, state = self.work.record.id, self.work.record.state.lower().replace("_", " ")
            raise RefusedError(
                409,
                "busy",
                f"Deployment {number} is still {state}." if number else "Another deployment begins.",
                f"Wait until it ends, or cancel it: edgeopt-agent cancel{self.site.option}",
            )

    async def _begin(self, work: Work) -> Work:
        async with self._beginning:
            self.check_idle()
            self.work = work
            try:
                # What serves wrongly must be replaced, whatever the disk takes.
                hold = work.record.kind == "rollback" and work.joint is None
                work.record = await self.site.journal.begin(work.record, hold)
            except BaseException:
                self.work = None
                raise
            self._start(work)
        return work

    def _start(self, work: Work) -> None:
        self.work = work
        if work.joint is not None:
            work.joint.join(self.site.model, partial(_stop, work), work.stop_requested)
        self._changed(work.record)
        self._task = asyncio.create_task(self._walk(work), name=f"deployment {work.record.id}")

    async def _walk(self, work: Work) -> None:
        try:
            if self._tidying is not None:
                await asyncio.wait([self._tidying])
            while not work.record.final:
                outcome, fault = await run_step(self.site, work)
                await self._enter(work, outcome, fault)
        finally:
            # With the end in the journal the next deployment is taken; its first step waits for the tidying.
            self.work = None
            work.received.set()
            if work.record.final:
                self._tidying = asyncio.create_task(self._tidy(work), name=f"end of deployment {work.record.id}")
                self._tidying.add_done_callback(lambda _: self.site.router.on_change())
            else:
                release_serving(self.site, work)
        if work.joint is not None:
            await work.joint.over(self.site.model, work.record)

    async def _tidy(self, work: Work) -> None:
        try:
            await self._finish(work)
        except Exception:
            log.exception("%s could not be cleaned up.", title_of(self.site, work.record))
        finally:
            release_serving(self.site, work)
            self.site.look.set()

    async def _enter(self, work: Work, outcome: Outcome, fault: bool) -> None:
        """Writes the next state down, then counts as being in it."""
        async with self._writing:
            try:
                await self._write_state(work, outcome, fault)
            except JournalError as error:
                log.error("%s", error)
                problem = error.message
            else:
                return
        await self._enter(work, Outcome(Event.FAILURE, problem), fault=False)

    async def _write_state(self, work: Work, outcome: Outcome, fault: bool) -> None:
        record, row = work.record, ROWS[work.record.state]
        joint = work.joint
        if record.going_back and record.state is State.SOAKING and outcome.event is Event.DONE:
            outcome = Outcome(Event.FAILURE, record.going_back)
        failed = outcome.event is Event.FAILURE and record.state is not State.ROLLING_BACK
        if joint is not None and failed and not await joint.fail(self.site.model, _of_member(work, outcome)):
            outcome = Outcome(reason="all models of the order were committed")
        state = row.exits[outcome.event]
        if record.state is State.ACCEPTED and outcome.event is Event.DONE:
            state = FIRST["fetch" if record.source is not None else record.kind]
        changes: dict[str, object] = {**work.found, **outcome.changes, "state": state, "reason": outcome.reason}
        if outcome.event is Event.FAILURE and fault:
            changes["fault"] = True
        if state is State.ROLLED_BACK:
            changes["reason"] = f"{record.reason} {outcome.reason}"
        elif state is State.DEGRADED and outcome.event is Event.FAILURE:
            changes["reason"] = f"{record.reason} The rollback failed: {outcome.reason}"
        if state in {State.SWITCHING, State.ROLLING_BACK, State.DEGRADED}:
            changes["resumes"] = 0
        if state is not record.state:
            changes["soaked"] = Soaked()
        # Names of a bundle that was refused are in it.
        changes["reason"] = printable(str(changes["reason"]))
        changed = msgspec.structs.replace(record, **changes)
        work.progress, work.last_failure = {}, ""
        # The way back must not depend on a disk that is full.
        hold = outcome.event is Event.FAILURE or state is State.ROLLED_BACK or record.kind == "rollback"
        hold = hold or (joint is not None and joint.committed)
        work.record = await self.site.journal.write(changed, hold)
        self._changed(work.record)

    def _changed(self, record: Record) -> None:
        self.newest = record
        begins = record.state is State.ACCEPTED
        reason = record.reason or (record.name if begins and not record.release else "")
        line = f"{record.state}: {reason.rstrip('.')}" if reason else record.state
        if record.ordered_by and (begins or record.final):
            line += f". Ordered by {record.ordered_by}"
        log.log(_LEVELS.get(record.state, logging.INFO), "%s: %s.", title_of(self.site, record), line)
        for listener in self.listeners:
            listener(record)

    async def _garbage(self) -> set[str]:
        try:
            return await garbage(self.site)
        except JournalError as error:  # nothing is removed that it does not name
            log.error("%s", error)
            return set()

    async def _finish(self, work: Work) -> None:
        """Cleans up after a deployment that has reached a final state."""
        site, record = self.site, work.record
        if record.state is State.COMMITTED:
            old, site.router.standby = site.router.standby, None
            await asyncio.to_thread(prune, site.data, await self._garbage())
            site.observed.keep({record.release})
            await stop_quietly(old)
        elif work.candidate is not site.router.serving:
            await stop_quietly(work.candidate)
        if record.state is State.FAILED and record.release:
            await discard(site, record.release)
        elif record.state is State.ROLLED_BACK and record.old is not None:
            site.observed.keep({record.old})
        elif record.state is State.DEGRADED:
            old, site.router.standby = site.router.standby, None
            await stop_quietly(old)
            site.problem = "" if record.serves == "" else record.reason
            site.stranded = record if record.serves is not None else None
        await asyncio.to_thread(prune_logs, site.data)
        # Asked for again, a download that did not come to its end goes on.
        await asyncio.to_thread(remove_parts, site.data, record.source if record.state is State.FAILED else None)
        for left in (archive_of(site, work), unpacked_of(site, work)):
            await asyncio.to_thread(remove, left)


def _of_member(work: Work, outcome: Outcome) -> str:
    """Says why the whole order is taken back."""
    name = work.record.expected or work.record.name
    return outcome.reason if not name or work.stop_reason == outcome.reason else f"'{name}': {outcome.reason}"


def _stop(work: Work, reason: str) -> None:
    work.stop_reason = work.stop_reason or reason
    work.stop_requested.set()
