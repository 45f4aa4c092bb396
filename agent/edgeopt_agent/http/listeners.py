"""The sockets that HTTP is served on: those that a supervisor holds while the agent restarts, or the agent's own.

Clients that connect to a socket of the supervisor meanwhile wait in the kernel's queue instead of being refused.
"""

import asyncio
import socket

from edgeopt.errors import UsageError
from edgeopt_agent import systemd
from edgeopt_agent.settings import Settings

_STORED = "edgeopt-stored"
"""The name of sockets that the agent made itself; others come from a socket unit."""
_GRPC = "grpc"


def inherited_listeners(settings: Settings) -> list[socket.socket]:
    """Returns the inherited HTTP sockets; raises UsageError if one has another address than the settings say.

    The settings decide who may connect, and whether TLS is on, so the socket must agree with them.
    """
    try:
        found = systemd.inherited_sockets()
    except OSError as error:
        raise UsageError(
            f"The supervisor passed something that is no socket: {error.strerror or error}.",
            "Pass listening TCP sockets only (LISTEN_FDS).",
        ) from None
    stored = [each for name, each in found if name == _STORED]
    passed = [(name, each) for name, each in found if name != _STORED]
    for name, each in passed:
        _check(name, each, settings)
    if passed or not all(_agrees(each, settings) for each in stored):
        # The settings have changed since, or a socket unit took over.
        for each in stored:
            each.close()
        systemd.forget_sockets(_STORED)
        stored = []
    return [each for _, each in passed] or stored


async def open_listeners(host: str, port: int, backlog: int) -> list[socket.socket]:
    """Opens a socket for each address of the host; raises OSError if the port is not available."""
    found = await asyncio.get_running_loop().getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((each[0], each[4][:2]) for each in found):
            sockets.append(socket.create_server(address, family=family, backlog=backlog))
    except BaseException:
        for each in sockets:
            each.close()
        raise
    return sockets


def keep_listeners(sockets: list[socket.socket]) -> None:
    """Lets systemd keep the agent's own sockets for its next start, where the unit allows it."""
    systemd.store_sockets(_STORED, sockets)


def _check(name: str, found: socket.socket, settings: Settings) -> None:
    if name == _GRPC:
        raise UsageError(
            "gRPC cannot use a socket of the supervisor.",
            "Remove that socket; the agent opens the port of gRPC itself (grpc_port).",
        )
    if not _is_listener(found):
        raise UsageError(
            "The supervisor passed a socket that is no listening TCP socket.",
            "Use ListenStream=ADDRESS:PORT without Accept=yes.",
        )
    if not _agrees(found, settings):
        raise UsageError(
            f"The supervisor listens on {_shown(*_address(found))}, but the settings say "
            f"{_shown(settings.host, settings.port)}.",
            f"Write ListenStream={_shown(settings.host, settings.port)} in edgeopt-agent.socket, or change the "
            "agent's host and port; then restart both units.",
        )


def _is_listener(found: socket.socket) -> bool:
    tcp = found.family in {socket.AF_INET, socket.AF_INET6} and found.type == socket.SOCK_STREAM
    return tcp and bool(found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def _agrees(found: socket.socket, settings: Settings) -> bool:
    """Whether a socket is at an address that the settings name; their port 0 is any port."""
    host, port = _address(found)
    try:
        addresses = socket.getaddrinfo(
            settings.host, port, found.family, socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError:
        return False
    return settings.port in {0, port} and host in {each[4][0] for each in addresses}


def _address(found: socket.socket) -> tuple[str, int]:
    host, port = found.getsockname()[:2]
    return host, port


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
