"""The gRPC server: on the same host as HTTP, with the same certificate, tokens and limits."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc

from edgeopt.errors import UsageError
from edgeopt_agent.certificate import LiveCertificate
from edgeopt_agent.grpc.calls import Calls
from edgeopt_agent.grpc.methods import handlers
from edgeopt_agent.http.connections import max_connections
from edgeopt_agent.http.server import KEEP_ALIVE_S, port_refused
from edgeopt_agent.http.tls_listener import HANDSHAKE_TIMEOUT_S
from edgeopt_agent.settings import Settings
from edgeopt_agent.workers.models import Models

MAX_CONNECTIONS = 128
"""Fewer than over HTTP: a client makes all its calls on one."""
_OPTION = "--grpc-port"


@asynccontextmanager
async def serving(
    models: Models,
    settings: Settings,
    calls: Calls,
    certificate: LiveCertificate | None,
    stop: asyncio.Event,
    drain_s: float,
) -> AsyncIterator[int]:
    """Serves until `stop` is set, and yields the port; raises UsageError if the port is not available."""
    server = grpc.aio.server(
        handlers=handlers(models, calls, stop),
        options=_options(settings),
        maximum_concurrent_rpcs=2 * settings.queue_length,
    )
    port = _listen(server, settings, certificate)
    await server.start()

    async def close() -> None:
        await stop.wait()
        await server.stop(drain_s)

    closing = asyncio.create_task(close(), name="end of gRPC")
    try:
        yield port
    finally:
        if not stop.is_set():
            closing.cancel()
            await server.stop(None)
        else:
            await closing


def _options(settings: Settings) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", settings.max_body_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_allowed_incoming_connections", min(MAX_CONNECTIONS, max_connections())),
        ("grpc.so_reuseport", 0),  # or a second agent would take half of the calls
        ("grpc.max_connection_idle_ms", KEEP_ALIVE_S * 1000),
        ("grpc.keepalive_time_ms", KEEP_ALIVE_S * 1000),
        ("grpc.server_handshake_timeout_ms", int(HANDSHAKE_TIMEOUT_S * 1000)),
    ]


def _listen(server: grpc.aio.Server, settings: Settings, certificate: LiveCertificate | None) -> int:
    host, port = settings.host, settings.grpc_port
    _try_port(host, port)
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        if certificate is None:
            bound: int = server.add_insecure_port(address)
        else:
            bound = server.add_secure_port(address, _credentials(certificate))
    except RuntimeError as error:
        raise UsageError(
            f"gRPC cannot listen at {address}: {error}.", f"Choose another port with {_OPTION}."
        ) from None
    return bound


def _try_port(host: str, port: int) -> None:
    """Raises UsageError where the port cannot be had; the library's own error does not say why."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        raise port_refused(host, port, error, _OPTION) from None


def _credentials(certificate: LiveCertificate) -> grpc.ServerCredentials:
    """Asks for the certificate at each new connection, so that a new one is used from then on."""
    used = certificate.pem()

    def fetch() -> grpc.ServerCertificateConfiguration | None:
        nonlocal used
        if used == (found := certificate.pem()):
            return None  # as it was
        used = found
        return grpc.ssl_server_certificate_configuration([found])

    return grpc.dynamic_ssl_server_credentials(grpc.ssl_server_certificate_configuration([used]), fetch)
