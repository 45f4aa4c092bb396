"""Keeps the current release in service: starts its worker, and starts it again when it dies."""

import asyncio
import logging
import time
from collections import deque

from edgeopt.errors import EdgeoptError
from edgeopt_agent.data_dir import pointed
from edgeopt_agent.deployments.machine import Machine
from edgeopt_agent.deployments.probing import start_checked
from edgeopt_agent.deployments.site import Site, current, first_of, put_in_service, release_title
from edgeopt_agent.deployments.switching import stop_quietly
from edgeopt_agent.workers.process import Worker

log = logging.getLogger(__name__)
_LONGEST_WAIT_S = 2.0
"""A worker that starts again after a longer delay is not waited for: clients try again by themselves."""
_LEVELS = {"SERVING": logging.INFO, "DEGRADED": logging.ERROR}


class Supervisor:
    def __init__(self, site: Site, machine: Machine) -> None:
        self._site = site
        self._machine = machine
        self._crashes: deque[float] = deque(maxlen=site.settings.crashes_allowed)
        """Total seconds of service at each crash; with the time of starts, slow starts would hide crashes."""
        self._served_s = 0.0
        self._given_up: set[str] = set()
        """Releases that crashed too often: nothing goes back to them by itself."""
        self.up = asyncio.Event()
        """Set once the start of the agent is over: something serves, or it is clear why not."""

    async def run(self) -> None:
        """Keeps the serving release running until cancelled."""
        while True:
            delay_s = await self._mend()
            self.up.set()
            self._site.router.end_start()
            self._site.router.on_change()
            await self._wait(delay_s)

    async def _mend(self) -> float | None:
        """Starts what should serve and does not; how soon to look again, None: when something happens."""
        site = self._site
        async with site.serving_lock:
            release, serving = current(site), site.router.serving
            if release is None or (serving is not None and not serving.ended.is_set()):
                return None
            if serving is not None:
                await self._note_crash(serving)
            if len(self._crashes) == site.settings.crashes_allowed and self._recent():
                return await self._give_up(release)
            try:
                worker = await self._started(release)
            except EdgeoptError as error:
                self._crashes.append(self._served_s)
                site.problem = f"The release {release} cannot be started: {error.message}"
                await self._note("FAILED TO START", release, error.message)
                return self._delay_s()
            if worker is None:
                return None  # the end of that deployment is the next thing to look at
            put_in_service(site, worker)
            await self._note("SERVING", release, f"process {worker.pid}")
            return None

    async def _started(self, release: str) -> Worker | None:
        """Starts a worker for the release; returns None if a deployment that was ready did not wait for it."""
        site = self._site
        starting = asyncio.create_task(start_checked(site, release), name=f"start of {release}")
        site.mending = starting
        try:
            worker, _ = await starting
        except asyncio.CancelledError:
            this = asyncio.current_task()
            if this is None or this.cancelling():
                if not starting.cancelled() and starting.exception() is None:
                    # It was ready before the cancellation could reach its start, which would have ended it.
                    await asyncio.shield(starting.result()[0].stop(0.0))
                raise
            return None
        finally:
            site.mending = None
        return worker

    async def _note_crash(self, worker: Worker) -> None:
        site = self._site
        site.router.switch(None, keep_old=False)
        # Without the time of the hang: with it, slow models that keep hanging would stay outside the window.
        self._served_s += max(0.0, time.monotonic() - worker.loaded_s - worker.hung_s)
        delay_s, state = self._delay_s(), "HUNG" if worker.hung_s else "CRASHED"
        release = worker.release_id
        site.problem = f"The worker of the release {release} {worker.how_it_ended()}."
        if worker.ended_for_memory():
            delay_s, state = site.memory_restarts.note(release, site.settings), "OUT OF MEMORY"
            site.problem += f" {site.memory_restarts.warning(release, site.settings)}".rstrip()
        elif worker.counts:
            self._crashes.append(self._served_s)
            delay_s = self._delay_s()
        site.router.restarting = delay_s <= _LONGEST_WAIT_S
        await self._note(state, release, site.problem)
        await stop_quietly(worker)
        await asyncio.sleep(delay_s)

    async def _give_up(self, release: str) -> float | None:
        """Rolls back to the previous release after too many crashes, if that one has not been given up as well."""
        site = self._site
        self._crashes.clear()
        self._given_up.add(release)
        previous = pointed(site.data.previous)
        why = f"{release} failed {site.settings.crashes_allowed} times in a row. {site.problem}"
        if (
            self._machine.work is not None and not self._machine.fetching
        ):  # that deployment may bring something better
            return site.settings.restart_delay_most_s
        other = "No other release to roll back to."
        if previous is not None and previous not in self._given_up:
            try:
                await self._machine.roll_back(why)
                return None  # the end of that deployment is the next thing to look at
            except EdgeoptError as error:
                other = f"Going back to {previous} is not possible: {error.message}"
        site.problem = f"{why} {other}"
        await self._note("DEGRADED", release, site.problem)
        return site.settings.restart_delay_most_s

    def _recent(self) -> bool:
        return self._served_s - self._crashes[0] < self._site.settings.crash_window_s

    def _delay_s(self) -> float:
        settings = self._site.settings
        return min(settings.restart_delay_s * 2.0 ** max(0, len(self._crashes) - 1), settings.restart_delay_most_s)

    async def _note(self, state: str, release: str, reason: str) -> None:
        level = _LEVELS.get(state, logging.WARNING)
        log.log(level, "%s: %s %s", release_title(self._site, release), state, reason)
        self._site.router.on_change()
        try:
            await self._site.journal.note(state, release, reason)
        except EdgeoptError as error:
            log.error("%s", error)

    async def _wait(self, delay_s: float | None) -> None:
        """Waits until a deployment has ended, the serving worker ends, or the time is up."""
        serving = self._site.router.serving
        events = [self._site.look, *([serving.ended] if serving is not None else [])]
        await first_of(events, delay_s)
        self._site.look.clear()
