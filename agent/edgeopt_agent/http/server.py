"""Serves an ASGI application on one port, without uvicorn's main loop, which wakes up ten times a second."""

import asyncio
import errno
import logging
import socket
import ssl
import time
from collections.abc import Callable
from email.utils import formatdate

from uvicorn import Config
from uvicorn.server import ServerState

from edgeopt.errors import UsageError
from edgeopt_agent.http.guard import guarded
from edgeopt_agent.http.listeners import keep_listeners, open_listeners
from edgeopt_agent.http.plain import App
from edgeopt_agent.http.tls_listener import TlsListener
from edgeopt_agent.http.websocket import GuardedWebSocket

logger = logging.getLogger(__name__)

KEEP_ALIVE_S = 60
_LOOK_AGAIN_S = 0.02
_LAST_EVENT_S = 0.2
_REASONS = {
    errno.EADDRINUSE: ("is taken by another program", "Choose another with {option}, or stop that program."),
    errno.EACCES: ("is reserved for the system's own programs", "Choose one above 1023 with {option}."),
    errno.EADDRNOTAVAIL: ("is not an address of this machine", "Choose another with --host."),
}


async def serve(  # noqa: PLR0913 - the last two are named
    app: App,
    host: str,
    port: int,
    on_live: Callable[[int], None],
    stop: asyncio.Event,
    drain_s: float = 5.0,
    *,
    trust: Callable[[], str] = lambda: "unsigned",
    tls: Callable[[], ssl.SSLContext] | None = None,
    inherited: list[socket.socket] | None = None,
) -> None:
    """Serves until `stop` is set, then finishes requests in flight; raises UsageError if the port is taken.

    `on_live` receives the port, which the system chooses for 0. Every answer states the trust.
    With `tls`, which returns the context of a new connection, it serves HTTPS only. Inherited sockets listen
    already; without them, those that it opens are kept for the next start.
    """
    config = Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws=GuardedWebSocket,
        ws_max_size=64 << 10,
        ws_per_message_deflate=False,
        ws_ping_interval=None,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
    )
    config.load()
    # The WebSocket library writes down each connection, and at debug level each header, the access token too.
    logging.getLogger("uvicorn.error").addFilter(_warns)
    state = ServerState()
    make_protocol = guarded(config, state, _default_headers(trust))
    loop = asyncio.get_running_loop()
    servers: list[asyncio.Server | TlsListener] = []
    try:
        listeners = inherited or await open_listeners(host, port, config.backlog)
    except OSError as error:
        raise port_refused(host, port, error) from None
    if not inherited:
        keep_listeners(listeners)
    live_port = listeners[0].getsockname()[1]
    if tls is not None:
        servers.append(TlsListener(listeners, make_protocol, tls))
    else:
        opened = (loop.create_server(make_protocol, sock=each, backlog=config.backlog) for each in listeners)
        servers += [await each for each in opened]
    try:
        on_live(live_port)
        await stop.wait()
    finally:
        for server in servers:
            server.close()
        await _drain(state, drain_s)


def _warns(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.WARNING


def port_refused(host: str, port: int, error: OSError, option: str = "--port") -> UsageError:
    what, hint = _REASONS.get(error.errno or 0, (f"cannot be used: {error.strerror or error}", "Check --host."))
    return UsageError(f"Port {port} of {host} {what}.", hint.format(option=option))


def _default_headers(trust: Callable[[], str]) -> Callable[[], list[tuple[bytes, bytes]]]:
    """Returns the headers of every answer; built again when the second or the trust has changed."""
    made: list[tuple[bytes, bytes]] = []
    second, last_trust = 0, ""

    def headers() -> list[tuple[bytes, bytes]]:
        nonlocal made, second, last_trust
        now = int(time.time())
        if now != second or last_trust != trust():
            second, last_trust = now, trust()
            date = formatdate(now, usegmt=True).encode()
            made = [(b"date", date), (b"server", b"edgeopt-agent"), (b"edgeopt-trust", last_trust.encode())]
        return made

    return headers


async def _drain(state: ServerState, drain_s: float) -> None:
    """Lets requests finish; idle connections close at once, and the rest when the time is over."""
    deadline = time.monotonic() + drain_s
    for connection in list(state.connections):
        connection.shutdown()
    while (state.tasks or state.connections) and time.monotonic() < deadline:
        await asyncio.sleep(_LOOK_AGAIN_S)
    if state.tasks:
        logger.warning("%d requests were aborted when the agent stopped", len(state.tasks))
        for task in list(state.tasks):
            task.cancel()
        # A stream sends an error as its last event.
        await asyncio.wait(list(state.tasks), timeout=_LAST_EVENT_S)
    for connection in list(state.connections):
        connection.transport.abort()
    await asyncio.gather(*state.tasks, return_exceptions=True)
