"""The agent, put together: its folders and journal, recovery, deployments, and the port that it serves on."""

import asyncio
import logging
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from edgeopt.errors import EdgeoptError
from edgeopt.events import Progress
from edgeopt.hw.device import Device
from edgeopt_agent import systemd
from edgeopt_agent.certificate import LiveCertificate, tell_listening, uses_tls
from edgeopt_agent.config import reloaded
from edgeopt_agent.data_dir import DataDir, open_data_dir
from edgeopt_agent.deployments.machine import Machine
from edgeopt_agent.deployments.record import Record
from edgeopt_agent.deployments.recovery import recover
from edgeopt_agent.deployments.site import Site, current
from edgeopt_agent.deployments.supervisor import Supervisor
from edgeopt_agent.http.access import Access
from edgeopt_agent.http.app import make_app
from edgeopt_agent.http.control import routes
from edgeopt_agent.http.server import serve
from edgeopt_agent.journal import Journal
from edgeopt_agent.settings import Settings
from edgeopt_agent.telemetry.hub import Hub
from edgeopt_agent.threads import in_thread
from edgeopt_agent.trust import TrustWatch, check_host
from edgeopt_agent.workers.process import Worker
from edgeopt_agent.workers.router import Router

log = logging.getLogger(__name__)
SERVER_SHARE = 0.6
"""How much of the time for a clean stop the requests in flight may take; the workers have the rest."""


async def run(
    settings: Settings, on_live: Callable[[int], None], reload: Callable[[], Settings] | None = None
) -> None:
    """Serves until SIGTERM or SIGINT; `on_live` is told the port once it answers; SIGHUP asks `reload`."""
    started = time.monotonic()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    asked = asyncio.Event()
    on_hangup: list[Callable[[], None]] = [asked.set]
    loop.add_signal_handler(signal.SIGHUP, lambda: [each() for each in on_hangup])
    with open_data_dir(settings.data_dir) as data:
        check_host(settings.host, data)
        settings = _within(settings, data)
        journal = Journal(data.journal)
        try:
            site = Site(settings, data, journal, Router(settings), _Probed())
            reloading = asyncio.create_task(_reload(site, asked, reload)) if reload is not None else None
            await _serve(site, on_live, stop, started, on_hangup)
            if reloading is not None:
                reloading.cancel()
        finally:
            await journal.close()


async def _serve(
    site: Site,
    on_live: Callable[[int], None],
    stop: asyncio.Event,
    started: float,
    on_hangup: list[Callable[[], None]],
) -> None:
    settings, router = site.settings, site.router
    if (release := current(site)) is not None:
        site.trouble = f"The release {release} is being started."
    router.why_nothing = lambda: site.trouble
    machine = Machine(site)
    router.watchers.append(site.observed.watch)
    supervisor = Supervisor(site, machine)
    trust = TrustWatch(site.data.trust)
    hub = Hub(router)
    machine.listeners.append(lambda record: hub.tell(_told(record)))
    certificate = LiveCertificate(settings, site.data) if uses_tls(settings) else None
    if certificate is not None:
        on_hangup.append(certificate.reload)

    def fingerprint() -> str:
        return "" if certificate is None else certificate.fingerprint

    control = routes(site, machine, started, trust, fingerprint)
    access = Access(settings.host, site.data.tokens)
    app = make_app(router, hub, settings, lambda: _state(machine), control, access)

    async def work() -> None:
        await recover(site, machine)
        await supervisor.run()

    working: asyncio.Task[None] | None = None

    def live(port: int) -> None:
        nonlocal working
        working = asyncio.create_task(work(), name="supervisor")  # after the port is open: live first, ready later
        working.add_done_callback(lambda _: stop.set())
        tell_listening(site.data, port, None if certificate is None else certificate.file)
        on_live(port)
        systemd.ready(f"Listening on port {port}.")

    waking = asyncio.create_task(_wake(stop, site.journal))
    watchdog = asyncio.create_task(systemd.keep_watchdog())
    try:
        drain_s = settings.drain_s * SERVER_SHARE
        tls = None if certificate is None else certificate.context
        async with _serving_grpc(site, access, trust, certificate, stop):
            await serve(app, settings.host, settings.port, live, stop, drain_s, trust=trust, tls=tls)
    finally:
        waking.cancel()
        watchdog.cancel()
        if working is not None and not working.done():
            working.cancel()
        await machine.stop()
        await _stop_workers(site, settings.drain_s * (1 - SERVER_SHARE) / 2)
    if working is not None and not working.cancelled():
        await asyncio.gather(working, return_exceptions=True)
        if not working.cancelled() and (error := working.exception()) is not None:
            raise error


@asynccontextmanager
async def _serving_grpc(
    site: Site, access: Access, trust: TrustWatch, certificate: LiveCertificate | None, stop: asyncio.Event
) -> AsyncIterator[None]:
    """Serves by gRPC too where that is asked for; its library is not loaded otherwise."""
    if not site.settings.grpc_port:
        yield
        return
    from edgeopt_agent.grpc.server import serving

    drain_s = site.settings.drain_s * SERVER_SHARE
    async with serving(site.router, site.settings, access, trust, certificate, stop, drain_s):
        yield


async def _reload(site: Site, asked: asyncio.Event, read: Callable[[], Settings]) -> None:
    """Takes over what can change while it serves, each time it is asked; a broken file changes nothing."""
    while True:
        await asked.wait()
        asked.clear()
        try:
            found = await asyncio.to_thread(read)
        except (EdgeoptError, OSError) as error:
            hint = f" {error.hint}" if isinstance(error, EdgeoptError) else ""
            log.error("The settings stay as they are. %s%s", error, hint)
            continue
        site.settings, waiting = reloaded(site.settings, found)
        logging.getLogger().setLevel(site.settings.log_level.upper())
        log.warning("The configuration was read again.")
        if waiting:
            log.warning("These settings change at the next restart of the agent: %s.", ", ".join(waiting))


async def _wake(stop: asyncio.Event, journal: Journal) -> None:
    await stop.wait()
    systemd.stopping()
    journal.wake()


async def _stop_workers(site: Site, grace_s: float) -> None:
    workers: list[Worker] = [w for w in (site.router.serving, site.router.standby) if w is not None]
    site.router.switch(None, keep_old=False)
    await asyncio.gather(*(worker.stop(grace_s) for worker in workers))


def _told(record: Record) -> Progress:
    """A deployment's state as those who watch the telemetry see it."""
    message = f"{record.name} {record.reason}".strip()
    subject = f"deployment {record.id}"
    return Progress(record.state.lower(), message, subject=subject, time_s=record.history[-1].time_s)


def _state(machine: Machine) -> str:
    return machine.newest.state if machine.newest is not None else ""


class _Probed:
    """The device, probed once and in a thread, when someone first asks."""

    def __init__(self) -> None:
        self._found: asyncio.Future[Device] | None = None

    async def __call__(self) -> Device:
        if self._found is None:
            from edgeopt.hw.probe import probe

            self._found = asyncio.ensure_future(in_thread(probe))
        try:
            return await asyncio.shield(self._found)
        except Exception:
            self._found = None  # what failed once may work the next time
            raise


def _within(settings: Settings, data: DataDir) -> Settings:
    """The settings with the data folder as an absolute path: workers run elsewhere."""
    import msgspec

    return msgspec.structs.replace(settings, data_dir=data.root)
