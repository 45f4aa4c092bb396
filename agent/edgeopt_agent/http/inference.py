"""The Open Inference Protocol v2 under `/v2`, as plain ASGI, because inference must be quick."""

from collections.abc import Awaitable, Callable
from weakref import WeakKeyDictionary

from edgeopt_agent.http.plain import (
    JSON,
    App,
    BodyMemoryLimit,
    ClientGoneError,
    CrowdedError,
    Receive,
    Scope,
    Send,
    client_of,
    header,
    read_body,
    respond,
    respond_json,
)
from edgeopt_agent.own_commands import for_client
from edgeopt_agent.settings import Settings
from edgeopt_agent.v2 import documents
from edgeopt_agent.v2.errors import RequestError
from edgeopt_agent.workers.models import Models
from edgeopt_agent.workers.requests import Request
from edgeopt_agent.workers.router import BusyError, Router

_OCTETS = (b"content-type", b"application/octet-stream")
_RETRY = (b"retry-after", b"1")
_CLOSE = (b"connection", b"close")
_MODELS = "/v2/models/"
_LARGEST_ON_THEIR_WAY = 4
_ENCODINGS = {b"": "", b"identity": "", b"gzip": "gzip", b"deflate": "deflate"}
# Answered before the body is read to its end, so what follows on the connection is not a request.
_BODY_UNREAD = frozenset({408, 413})


def make_inference(models: Models, settings: Settings) -> App:
    """Returns the application that answers everything under `/v2`."""

    # One for each model, or large requests to one would keep out those to another.
    memory_limits: WeakKeyDictionary[Router, BodyMemoryLimit] = WeakKeyDictionary()

    def memory_limit_of(router: Router) -> BodyMemoryLimit:
        return memory_limits.setdefault(router, BodyMemoryLimit(_LARGEST_ON_THEIR_WAY * settings.max_body_bytes))

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope["path"], scope["method"]
        try:
            if method == "POST" and path.startswith(_MODELS) and path.endswith("/infer"):
                await _infer(models, settings, memory_limit_of, scope, receive, send)
            else:
                await _documents(models, path, method, send)
        except ClientGoneError:
            return
        except RequestError as error:
            more = [_RETRY] if isinstance(error, BusyError | CrowdedError) else []
            if error.status in _BODY_UNREAD or isinstance(error, CrowdedError):
                more.append(_CLOSE)
            message = for_client(error.sentence, settings, client_of(scope))
            await respond_json(send, error.status, {"error": message}, *more)

    return serve


async def _infer(
    models: Models,
    settings: Settings,
    memory_limit_of: Callable[[Router], BodyMemoryLimit],
    scope: Scope,
    receive: Receive,
    send: Send,
) -> None:
    name, version = _model(scope["path"][len(_MODELS) : -len("/infer")])
    body = await read_body(scope, receive, settings, memory_limit_of(models.nearest(name)))
    length, encoding = _header_length(scope, body), _encoding(scope)
    answer = await models.of(name).infer(Request(name, version, body, length, encoding, client_of(scope)))
    if answer.header_length is None:
        await respond(send, answer.status, answer.body, JSON)
    else:
        field = (b"inference-header-content-length", b"%d" % answer.header_length)
        await respond(send, answer.status, answer.body, _OCTETS, field)


def _header_length(scope: Scope, body: list[bytes]) -> int | None:
    value = header(scope, b"inference-header-content-length")
    if value is None:
        return None
    size = sum(map(len, body))
    if not (value.isdigit() and len(value) < 20):
        raise RequestError(400, "Inference-Header-Content-Length must be a number of bytes.")
    if int(value) > size and not header(scope, b"content-encoding"):
        raise RequestError(
            400, f"Inference-Header-Content-Length is {int(value)}, more than the body's {size} bytes."
        )
    return int(value)


def _encoding(scope: Scope) -> str:
    value = header(scope, b"content-encoding") or b""
    encoding = _ENCODINGS.get(value.strip().lower())
    if encoding is None:
        raise RequestError(415, "The body may be compressed with gzip or deflate only.")
    return encoding


def _model(path: str) -> tuple[str, str | None]:
    """Returns the name and the version in `NAME` or `NAME/versions/VERSION`."""
    name, found, version = path.rpartition("/versions/")
    return (name, version) if found else (path, None)


async def _documents(models: Models, path: str, method: str, send: Send) -> None:
    """Answers everything but inference: requests that are small, rare and without a body that matters."""
    methods, answer = _route(models, path.rstrip("/"))
    if method not in methods:
        allowed = (b"allow", ", ".join(methods).encode())
        await respond_json(send, 405, {"error": f"'{path[:80]}' takes {' or '.join(methods)}."}, allowed)
        return
    found = answer()
    document = await found if isinstance(found, Awaitable) else found
    if document is None:
        await respond(send, 200, b"")
    else:
        await respond_json(send, 200, document)


_GET = ("GET", "HEAD")
_POST = ("POST",)


def _route(models: Models, path: str) -> tuple[tuple[str, ...], Callable[[], object]]:
    """Returns the methods that a path takes, and the function that answers it; None stands for an empty answer."""
    fixed: dict[str, tuple[tuple[str, ...], Callable[[], object]]] = {
        "/v2": (_GET, documents.server),
        "/v2/health/live": (_GET, lambda: None),
        "/v2/health/ready": (_GET, models.check_ready),
        "/v2/models/stats": (_GET, lambda: documents.statistics(models.totals())),
        "/v2/repository/index": (_POST, lambda: documents.index(models.workers())),
    }
    if path in fixed:
        return fixed[path]
    if path.startswith("/v2/repository/models/"):
        return _POST, _no_repository
    if path.startswith(_MODELS):
        return _model_route(models, path[len(_MODELS) :])
    raise RequestError(404, f"There is nothing at '{path[:80]}' on this server. docs/agent.md lists the routes.")


def _model_route(models: Models, path: str) -> tuple[tuple[str, ...], Callable[[], object]]:
    rest, _, last = path.rpartition("/")
    if rest and last == "infer":
        return _POST, lambda: None
    if rest and last == "ready":
        return _GET, lambda: models.check_ready(*_model(rest))
    if rest and last == "config":
        return _GET, lambda: documents.config(models.named(*_model(rest)))
    if rest and last == "stats":
        return _GET, lambda: documents.statistics(models.totals_of(*_model(rest)))
    return _GET, lambda: documents.model(models.named(*_model(path)))


def _no_repository() -> None:
    raise RequestError(
        400, "Models are not loaded from a repository here; deploy a bundle with 'edgeopt-agent deploy BUNDLE'."
    )
