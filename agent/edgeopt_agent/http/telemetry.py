"""Live telemetry over WebSocket, for as long as the viewer renews its lease."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from edgeopt_agent.http.plain import client_of
from edgeopt_agent.own_commands import for_client
from edgeopt_agent.settings import Settings
from edgeopt_agent.telemetry.hub import Hub, Viewer

PATH = "/api/v1/telemetry"
LEASE_S = 30.0
LEASE_ENDED = 4000
TOO_SLOW = 4001
HubOf = Callable[[str], Hub | None]
"""The telemetry of a model; without a name, of the first one."""


def routes(hub_of: HubOf, settings: Settings, lease_s: float = LEASE_S) -> list[BaseRoute]:
    async def telemetry(socket: WebSocket) -> None:
        hub = hub_of(socket.query_params.get("model", ""))
        if hub is None:
            message = "There is no model of this name on this agent."
            hint = for_client("List them: edgeopt-agent status", settings, client_of(socket.scope))
            error = {"code": "no-model", "message": message, "hint": hint}
            await socket.send_denial_response(JSONResponse({"error": error}, 404))
            return
        await socket.accept()
        await _show(socket, hub, lease_s)

    return [WebSocketRoute(PATH, telemetry)]


async def _show(socket: WebSocket, hub: Hub, lease_s: float) -> None:
    viewer = hub.join()
    ways = (_send(socket, viewer), _renew(socket, lease_s), viewer.dropped.wait())
    sending, renewing, dropped = tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if renewing.done() and renewing.exception() is None:
            sending.cancel()
            with suppress(WebSocketDisconnect):
                await socket.close(LEASE_ENDED, "lease ended")
        elif dropped.done():
            hub.leave(viewer)
            # Unread data delays the closing message, so only the end of the connection is certain to arrive.
            sending.cancel()
            with suppress(WebSocketDisconnect, TimeoutError):
                await asyncio.wait_for(socket.close(TOO_SLOW, "too slow"), 1.0)
    finally:
        hub.leave(viewer)
        for task in tasks:
            task.cancel()
        # The viewer going away ends all three, each in its own way, and is no failure.
        await asyncio.gather(*tasks, return_exceptions=True)


async def _send(socket: WebSocket, viewer: Viewer) -> None:
    while True:
        await socket.send_text(await viewer.frames.get())


async def _renew(socket: WebSocket, lease_s: float) -> None:
    """Returns when the lease ends; raises WebSocketDisconnect when the viewer goes away before."""
    while True:
        try:
            message = await asyncio.wait_for(socket.receive(), lease_s)
        except TimeoutError:
            return
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1005))
