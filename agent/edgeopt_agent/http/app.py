"""All routes of the agent's port, as one ASGI application."""

from collections.abc import Callable, Sequence
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute

from edgeopt.nearest import nearest
from edgeopt_agent.completions.records import error_document
from edgeopt_agent.data_dir import DataDir
from edgeopt_agent.http import metrics, openapi, telemetry
from edgeopt_agent.http.access import Access
from edgeopt_agent.http.admissible import Refusal, refusal
from edgeopt_agent.http.completions import make_completions
from edgeopt_agent.http.inference import make_inference
from edgeopt_agent.http.pairing import is_pairing
from edgeopt_agent.http.plain import App, Message, Receive, Scope, Send, client_of, respond_json
from edgeopt_agent.http.table import PARAMETERS
from edgeopt_agent.own_commands import for_client
from edgeopt_agent.settings import Settings
from edgeopt_agent.workers.models import Models
from edgeopt_agent.workers.router import Router


def make_app(
    models: Models,
    hub_of: telemetry.HubOf,
    settings: Settings,
    state: Callable[[Router], str],
    extra_routes: Sequence[BaseRoute] = (),
    access: Access | None = None,
) -> App:
    """Makes the application: plain ASGI under `/v2` and `/v1`, Starlette's routes for the rest.

    `state` tells the state of each model's last deployment, for `/metrics`. `access` is given where others
    share it.
    """
    allowed = access or Access(settings.host, DataDir(settings.data_dir).tokens)
    inference = make_inference(models, settings)
    completions = make_completions(models, settings)
    others = Starlette(
        routes=[
            *extra_routes,
            *openapi.routes(),
            *metrics.routes(models, state),
            *telemetry.routes(hub_of, settings),
        ],
        exception_handlers={HTTPException: _http_error},
    )

    # A redirect would lead to wherever the Host header says.
    others.router.redirect_slashes = False

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        refused = refusal(scope, settings.host) or (None if is_pairing(scope) else allowed.refusal(scope))
        if refused is not None:
            await _refuse(scope, send, refused, settings)
            return
        problem = _misspelt(scope) if scope.get("query_string") else ""
        if problem:
            hint = (
                ""
                if scope["path"].startswith(("/v1/", "/v2"))
                else "docs/agent.md lists the parameters of each route."
            )
            await _refuse(scope, send, Refusal(400, "bad-query", problem, hint), settings)
        elif scope["type"] == "http" and scope["path"].startswith("/v2"):
            await inference(scope, receive, send)
        elif scope["type"] == "http" and scope["path"].startswith("/v1/"):
            await completions(scope, receive, send)
        elif scope["type"] == "websocket":
            await others(scope, _while_allowed(allowed, scope, receive, send), send)
        else:
            await others(scope, receive, send)

    return app


def _while_allowed(access: Access, scope: Scope, receive: Receive, send: Send) -> Receive:
    """Ends a WebSocket whose token was removed, at the next message that renews its lease."""

    async def checked() -> Message:
        message = await receive()
        if message["type"] != "websocket.receive" or (refused := access.refusal(scope)) is None:
            return message
        await send({"type": "websocket.close", "code": 1008, "reason": refused.message})
        return {"type": "websocket.disconnect", "code": 1008}

    return checked


def _misspelt(scope: Scope) -> str:
    """Returns an error for the first query parameter unknown to the route: ignored, it would seem to work."""
    path = scope["path"].rstrip("/")
    # A deployment's number is not a separate route.
    folder, _, number = path.rpartition("/")
    known = PARAMETERS.get(folder if number.isdecimal() else path, ())
    parameters = parse_qsl(scope["query_string"].decode(errors="replace"), keep_blank_values=True)
    unknown = next((name for name, _ in parameters if name not in known), None)
    if unknown is None:
        return ""
    hint = nearest(unknown, known) if known else "It takes none."
    return f"'{path[:80]}' takes no parameter '{unknown[:40]}'. {hint}"


async def _refuse(scope: Scope, send: Send, refused: Refusal, settings: Settings) -> None:
    hint = for_client(refused.hint, settings, client_of(scope))

    async def answer(message: Message) -> None:
        prefix = "" if scope["type"] == "http" else "websocket."
        await send({**message, "type": f"{prefix}{message['type']}"})

    sentence = f"{refused.message} {hint}".rstrip()
    document: object = {"error": sentence}
    if scope["path"].startswith("/v1/"):
        document = error_document(refused.status, sentence, refused.code)
    elif not scope["path"].startswith("/v2"):
        document = {"error": {"code": refused.code, "message": refused.message, "hint": hint}}
    # A body may be on its way, and is not read.
    await respond_json(answer, refused.status, document, *refused.headers, (b"connection", b"close"))


async def _http_error(request: Request, error: Exception) -> Response:
    """Answers a path or method without a route with an error document of the control API."""
    assert isinstance(error, HTTPException)  # noqa: S101 - it was registered for these
    what = "There is nothing" if error.status_code == 404 else f"{request.method} does not work"
    sentence = f"{what} at '{request.url.path[:80]}' on this agent."
    hint = "docs/agent.md lists the routes."
    if request.url.path.endswith("/") and request.url.path != "/":
        hint = "Remove the trailing slash."
    code = "not-found" if error.status_code == 404 else "not-allowed"
    document = {"error": {"code": code, "message": sentence, "hint": hint}}
    return JSONResponse(document, error.status_code, headers=dict(error.headers or {}))
