"""All routes of the agent's port, as one ASGI application."""

from collections.abc import Callable, Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute

from edgeopt_agent.http import metrics, telemetry
from edgeopt_agent.http.inference import make_inference
from edgeopt_agent.http.plain import App, Receive, Scope, Send
from edgeopt_agent.settings import Settings
from edgeopt_agent.telemetry.hub import Hub
from edgeopt_agent.workers.router import Router


def make_app(
    router: Router,
    hub: Hub,
    settings: Settings,
    state: Callable[[], str],
    extra_routes: Sequence[BaseRoute] = (),
) -> App:
    """Inference under `/v2` goes straight to its own code; the rest through Starlette, with the routes added here.

    `state` tells the state of the last deployment, for `/metrics`.
    """
    inference = make_inference(router, settings)
    others = Starlette(
        routes=[*extra_routes, *metrics.routes(router, state), *telemetry.routes(hub)],
        exception_handlers={HTTPException: _http_error},
    )

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith("/v2"):
            await inference(scope, receive, send)
        else:
            await others(scope, receive, send)

    return app


async def _http_error(request: Request, error: Exception) -> Response:
    """What no route knows, in the words of the control API."""
    assert isinstance(error, HTTPException)  # noqa: S101 - it was registered for these
    what = "There is nothing" if error.status_code == 404 else f"{request.method} does not work"
    sentence = f"{what} at '{request.url.path[:80]}' on this agent."
    hint = "See docs/agent.md for what it answers."
    code = "not-found" if error.status_code == 404 else "not-allowed"
    document = {"error": {"code": code, "message": sentence, "hint": hint}}
    return JSONResponse(document, error.status_code, headers=dict(error.headers or {}))
