"""An agent's live telemetry: its events as they come, over a WebSocket under a lease that is renewed."""

import threading
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import msgspec

from edgeopt import events
from edgeopt.errors import ConstraintError, MissingError, MissingExtraError, error_text
from edgeopt.fleet import transport
from edgeopt.fleet.address import Address, parse
from edgeopt.fleet.transport import Reply, no_agent, nobody, refused, unreachable

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

_PATH = "/api/v1/telemetry"
_RENEW_EVERY_S = 10.0
_OPEN_TIMEOUT_S, _CLOSE_TIMEOUT_S = 5.0, 1.0
_LOOK_UP_EVERY_S = 0.1
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 5.0


def watch(url: str | Address, emit: events.Emit, stop: threading.Event, token: str = "", model: str = "") -> None:
    """Passes on an agent's events until `stop` is set; an agent that goes away is waited for.

    Raises MissingError when there is no agent to begin with, InputError when the agent refuses the token or the
    model was removed.
    `model` is the one that is watched, where the agent serves several; `emit` is called on the thread that
    called this.
    """
    if find_spec("websockets") is None:
        raise MissingExtraError("fleet", "Watching an agent")
    address = parse(url, token)
    connection: ClientConnection | None = _connect(address, model)
    pause_s, away = _FIRST_PAUSE_S, False
    while not stop.is_set():
        if connection is not None:
            if away:
                emit(events.Log("info", f"The agent at {address.url} is back.", kind="agent-back"))
            away = False
            with connection:
                if _pass_on(connection, emit, stop):
                    pause_s = _FIRST_PAUSE_S
            if stop.is_set():
                return
        if not away:
            message = f"The agent at {address.url} went away; waiting for it to come back."
            emit(events.Log("warning", message, kind="agent-away"))
            away = True
        stop.wait(pause_s)
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
        connection = _try_again(address, model)


def _connect(address: Address, model: str) -> "ClientConnection":
    from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage, InvalidStatus
    from websockets.sync.client import connect

    secured = None
    try:
        if address.scheme == "https":
            # Opened first: the token must not go to a server with another certificate.
            secured = transport.open_tls(address, _OPEN_TIMEOUT_S)
        # No proxy: an agent is on this machine or on the same network. Nothing is compressed: it costs more
        # time on a small device than the bytes do.
        return connect(
            f"ws://{address.place}{_PATH}" + (f"?{urlencode({'model': model})}" if model else ""),
            sock=secured,
            open_timeout=_OPEN_TIMEOUT_S,
            close_timeout=_CLOSE_TIMEOUT_S,
            compression=None,
            additional_headers=address.headers,
            proxy=None,
        )
    except InvalidStatus as error:
        answer = error.response
        raise refused(address, Reply(answer.status_code, bytes(answer.body), {})) from None
    except (InvalidHandshake, InvalidMessage):
        raise no_agent(address) from None
    except ConnectionRefusedError:
        raise nobody(address) from None
    except ConnectionClosed:
        raise unreachable(
            f"The agent at {address.url} closed the connection before it answered.",
            "It may be starting or stopping: try again, or check with: edgeopt fleet status",
        ) from None
    except (OSError, EOFError) as error:
        raise unreachable(
            f"The agent at {address.url} cannot be reached: {error_text(error)}.",
            "Check that the device is on, and --url.",
        ) from None


def _try_again(address: Address, model: str) -> "ClientConnection | None":
    try:
        return _connect(address, model)
    except (MissingError, ConstraintError):  # away, or too busy for the moment
        return None


def _pass_on(connection: "ClientConnection", emit: events.Emit, stop: threading.Event) -> bool:
    """Emits events until the connection is closed or lost, or `stop` is set; returns whether any frame came."""
    from websockets.exceptions import ConnectionClosed

    came = False
    renew_at = time.monotonic() + _RENEW_EVERY_S
    while not stop.is_set():
        try:
            if time.monotonic() >= renew_at:
                connection.send("renew")
                renew_at = time.monotonic() + _RENEW_EVERY_S
            frame = connection.recv(timeout=_LOOK_UP_EVERY_S)
        except TimeoutError:
            continue
        except ConnectionClosed:
            break
        came = True
        for line in frame.splitlines():
            event = _event(line)
            if event is not None:
                emit(event)
    return came


def _event(line: str | bytes) -> events.Event | None:
    """Returns the event in a line, or None for one of a newer agent that this edgeopt does not know."""
    try:
        return events.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
