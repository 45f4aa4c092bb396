"""The agent, put together: its folders and journal, recovery, deployments, and the port that it serves on."""

import asyncio
import logging
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from edgeopt.errors import EdgeoptError
from edgeopt.hw.device import Device
from edgeopt.version import __version__
from edgeopt_agent import systemd
from edgeopt_agent.certificate import LiveCertificate, uses_tls, write_listening
from edgeopt_agent.control.answers import Answers
from edgeopt_agent.data_dir import DataDir, open_data_dir
from edgeopt_agent.deployments.slots import Slot, Slots
from edgeopt_agent.http.access import Access
from edgeopt_agent.http.app import make_app
from edgeopt_agent.http.control import routes
from edgeopt_agent.http.listeners import inherited_listeners
from edgeopt_agent.http.server import serve
from edgeopt_agent.http.trials import routes as trial_routes
from edgeopt_agent.mqtt.settings import broker_of, device_name
from edgeopt_agent.settings import Settings
from edgeopt_agent.threads import in_thread
from edgeopt_agent.trials.trials import Trials
from edgeopt_agent.trust import TrustWatch, check_broker, check_host
from edgeopt_agent.workers.confinement import can_confine

if TYPE_CHECKING:
    from edgeopt_agent.announcement import Announcement
    from edgeopt_agent.mqtt.link import FleetLink

log = logging.getLogger(__name__)
_UNCONFINED = (
    "Workers are not confined: this kernel has neither seccomp nor Landlock. A malicious bundle has the rights of "
    "the agent's user: use a newer kernel, or accept signed bundles only."
)
SERVER_SHARE = 0.6
"""Share of the time for a clean stop that the requests in flight may take; the workers have the rest."""


async def run(
    settings: Settings, on_live: Callable[[int], None], reload: Callable[[], Settings] | None = None
) -> None:
    """Serves until SIGTERM or SIGINT; `on_live` receives the port once it answers; SIGHUP calls `reload`."""
    started = time.monotonic()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop_by(number: signal.Signals) -> None:
        log.info("The agent stops: %s.", number.name)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_by, number)
    reload_requested = asyncio.Event()
    on_hangup: list[Callable[[], None]] = [reload_requested.set]
    loop.add_signal_handler(signal.SIGHUP, lambda: [each() for each in on_hangup])
    with open_data_dir(settings.data_dir) as data:
        check_host(settings.host, data)
        if settings.mqtt is not None:
            broker = broker_of(settings.mqtt)
            check_broker(str(broker), broker.loopback, data)
        inherited = inherited_listeners(settings)
        settings = _within(settings, data)
        slots = Slots(settings, data, _Probed())
        try:
            reloading = (
                asyncio.create_task(_reload(slots, reload_requested, reload)) if reload is not None else None
            )

            def live(port: int) -> None:
                where = f"port {port} of {settings.host}, data folder '{data.root}', process {os.getpid()}"
                log.info("edgeopt-agent %s started: %s.", __version__, where)
                if not can_confine():
                    log.warning("%s", _UNCONFINED)
                on_live(port)

            await _serve(slots, live, stop, started, on_hangup, inherited)
            if reloading is not None:
                reloading.cancel()
        finally:
            await slots.close()
            log.info("edgeopt-agent %s stopped after %.0f s.", __version__, time.monotonic() - started)


async def _serve(
    slots: Slots,
    on_live: Callable[[int], None],
    stop: asyncio.Event,
    started: float,
    on_hangup: list[Callable[[], None]],
    inherited: list[socket.socket],
) -> None:
    settings, data = slots.first.site.settings, slots.first.site.data
    trust = TrustWatch(data.trust)
    certificate = LiveCertificate(settings, data) if uses_tls(settings) else None
    if certificate is not None:
        on_hangup.append(certificate.reload)

    def fingerprint() -> str:
        return "" if certificate is None else certificate.fingerprint

    trials = Trials(slots)
    access = Access(settings.host, data.tokens)
    control = routes(slots, started, trust, fingerprint, access)
    control += trial_routes(trials, settings.body_timeout_s)
    app = make_app(slots.models, slots.hub, settings, slots.state, control, access)
    ended: list[asyncio.Task[None]] = []
    announced: list[Announcement] = []

    def over(slot: Slot) -> None:
        if slot.working is not None:
            ended.append(slot.working)
        stop.set()

    def live(port: int) -> None:
        slots.start(over)  # after the port is open: live first, ready later
        write_listening(data, settings.host, port, None if certificate is None else certificate.file)
        on_live(port)
        announced.extend(_announce(settings, port, fingerprint()))
        systemd.ready(f"Listening on port {port}.")

    waking = asyncio.create_task(_wake(stop, slots, trials))
    watching = _watch(slots, settings)
    watchdog = asyncio.create_task(systemd.keep_watchdog())
    fleet = await _join_fleet(slots, settings, started, trust, trials)
    try:
        tls = None if certificate is None else certificate.context
        async with _serving_grpc(slots, access, trust, certificate, stop):
            await serve(
                *(app, settings.host, settings.port, live, stop, settings.drain_s * SERVER_SHARE),
                trust=trust,
                tls=tls,
                inherited=inherited,
            )
    finally:
        if stop.is_set():
            await waking  # serving can end before this task has run
        waking.cancel()
        watchdog.cancel()
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        if fleet is not None:
            await fleet.stop()
        await _farewell(announced)
        await slots.stop(settings.drain_s * (1 - SERVER_SHARE) / 2)
    for working in ended:
        if not working.cancelled() and (error := working.exception()) is not None:
            raise error


def _watch(slots: Slots, settings: Settings) -> asyncio.Task[None] | None:
    """Deploys bundles that appear in a folder where one is named; the module is not loaded otherwise."""
    if settings.watch_dir is None:
        return None
    from edgeopt_agent.deployments.watched import WatchedFolder

    return asyncio.create_task(WatchedFolder(slots, settings.watch_dir).run(), name="watched folder")


def _announce(settings: Settings, port: int, fingerprint: str) -> "tuple[Announcement, ...]":
    """Tells the local network where that is wanted; its library is not loaded otherwise."""
    if not settings.announce:
        return ()
    from edgeopt_agent.announcement import Announcement

    name = device_name("" if settings.mqtt is None else settings.mqtt.device)
    return (Announcement(name, settings.host, port, fingerprint),)


async def _farewell(announced: "list[Announcement]") -> None:
    for announcement in announced:
        await announcement.stop()


async def _join_fleet(
    slots: Slots, settings: Settings, started: float, trust: TrustWatch, trials: Trials
) -> "FleetLink | None":
    """Connects to a broker where one is named; its library is not loaded otherwise."""
    if settings.mqtt is None:
        return None
    from edgeopt_agent.mqtt.link import FleetLink
    from edgeopt_agent.trials.search import Searches

    searches = Searches(slots, trials)
    fleet = FleetLink(slots, settings.mqtt, Answers(slots, started, searches), trust, searches)
    await fleet.start()
    return fleet


@asynccontextmanager
async def _serving_grpc(
    slots: Slots,
    access: Access,
    trust: TrustWatch,
    certificate: LiveCertificate | None,
    stop: asyncio.Event,
) -> AsyncIterator[None]:
    """Serves by gRPC too where that is asked for; its library is not loaded otherwise."""
    settings = slots.first.site.settings
    if not settings.grpc_port:
        yield
        return
    # A child of the agent runs another program at once: gRPC need not prepare for a fork, nor log that it cannot.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    from edgeopt_agent.grpc.calls import Calls
    from edgeopt_agent.grpc.server import serving

    drain_s = settings.drain_s * SERVER_SHARE
    calls = Calls(settings, access, trust)
    async with serving(slots.models, settings, calls, certificate, stop, drain_s):
        yield


async def _reload(slots: Slots, reload_requested: asyncio.Event, read: Callable[[], Settings]) -> None:
    """Takes over what can change while it serves, each time it is asked; a broken file changes nothing."""
    while True:
        await reload_requested.wait()
        reload_requested.clear()
        try:
            found = await asyncio.to_thread(read)
        except (EdgeoptError, OSError) as error:
            hint = f" {error.hint}" if isinstance(error, EdgeoptError) else ""
            log.error("Settings unchanged. %s%s", error, hint)
            continue
        before = slots.first.site.settings
        waiting = slots.reload(found)
        changes = _changes(before, slots.first.site.settings)
        levels = (logging.getLevelNamesMapping()[each.log_level.upper()] for each in (before, found))
        logging.getLogger().setLevel(min(levels))  # whichever shows what follows
        log.info("The configuration was read again: %s.", ", ".join(changes) or "nothing has changed at once")
        logging.getLogger().setLevel(found.log_level.upper())
        if waiting:
            log.warning("These settings take effect at the next restart: %s.", ", ".join(waiting))


def _changes(before: Settings, after: Settings) -> list[str]:
    """Returns each setting that a reload has changed, with both values."""
    pairs = ((name, getattr(before, name), getattr(after, name)) for name in Settings.__struct_fields__)
    return [f"{name} is {new!r} instead of {old!r}" for name, old, new in pairs if new != old]


async def _wake(stop: asyncio.Event, slots: Slots, trials: Trials) -> None:
    await stop.wait()
    systemd.stopping()
    trials.stop()
    slots.wake()


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
    """Returns the settings with the data folder as an absolute path: workers run elsewhere."""
    import msgspec

    return msgspec.structs.replace(settings, data_dir=data.root)
