"""The Open Inference Protocol v2 under `/v2`, as plain ASGI, because inference must be quick."""

from collections.abc import Awaitable, Callable

from edgeopt_agent.http.plain import (
    JSON,
    App,
    ClientGoneError,
    CrowdedError,
    Receive,
    Room,
    Scope,
    Send,
    header,
    read_body,
    respond,
    respond_json,
)
from edgeopt_agent.settings import Settings
from edgeopt_agent.v2 import documents
from edgeopt_agent.v2.errors import RequestError
from edgeopt_agent.workers.router import BusyError, Router

_OCTETS = (b"content-type", b"application/octet-stream")
_RETRY = (b"retry-after", b"1")
_CLOSE = (b"connection", b"close")
_MODELS = "/v2/models/"
_LARGEST_ON_THEIR_WAY = 4
_ENCODINGS = {b"": "", b"identity": "", b"gzip": "gzip", b"deflate": "deflate"}
# Answered before the body is read to its end, so what follows on the connection is not a request.
_BODY_UNREAD = frozenset({408, 413})


def make_inference(router: Router, settings: Settings) -> App:
    """Everything under `/v2`."""

    room = Room(_LARGEST_ON_THEIR_WAY * settings.max_body_bytes)

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope["path"], scope["method"]
        try:
            if method == "POST" and path.startswith(_MODELS) and path.endswith("/infer"):
                await _infer(router, settings, room, scope, receive, send)
            else:
                await _documents(router, settings, path, method, send)
        except ClientGoneError:
            return
        except RequestError as error:
            more = [_RETRY] if isinstance(error, BusyError | CrowdedError) else []
            if error.status in _BODY_UNREAD or isinstance(error, CrowdedError):
                more.append(_CLOSE)
            await respond_json(send, error.status, {"error": error.sentence}, *more)

    return serve


async def _infer(
    router: Router, settings: Settings, room: Room, scope: Scope, receive: Receive, send: Send
) -> None:
    body = await read_body(scope, receive, settings, room)
    name, version = _model(scope["path"][len(_MODELS) : -len("/infer")])
    answer = await router.infer(name, version, body, _header_length(scope, body), _encoding(scope))
    if answer.header_length is None:
        await respond(send, answer.status, answer.body, JSON)
    else:
        length = (b"inference-header-content-length", b"%d" % answer.header_length)
        await respond(send, answer.status, answer.body, _OCTETS, length)


def _header_length(scope: Scope, body: list[bytes]) -> int | None:
    given = header(scope, b"inference-header-content-length")
    if given is None:
        return None
    size = sum(map(len, body))
    if not (given.isdigit() and len(given) < 20):
        raise RequestError(400, "Inference-Header-Content-Length must be a number of bytes.")
    if int(given) > size and not header(scope, b"content-encoding"):
        raise RequestError(
            400, f"Inference-Header-Content-Length is {int(given)}, more than the body's {size} bytes."
        )
    return int(given)


def _encoding(scope: Scope) -> str:
    given = header(scope, b"content-encoding") or b""
    encoding = _ENCODINGS.get(given.strip().lower())
    if encoding is None:
        raise RequestError(415, "The body may be compressed with gzip or deflate, and with nothing else.")
    return encoding


def _model(path: str) -> tuple[str, str | None]:
    """The name and the version in `NAME` or `NAME/versions/VERSION`."""
    name, found, version = path.rpartition("/versions/")
    return (name, version) if found else (path, None)


async def _documents(router: Router, settings: Settings, path: str, method: str, send: Send) -> None:
    """Everything but inference: small, rare and without a body that matters."""
    wanted, answer = _route(router, settings, path.rstrip("/"))
    if method not in wanted:
        allowed = (b"allow", ", ".join(wanted).encode())
        await respond_json(send, 405, {"error": f"'{path[:80]}' takes {' or '.join(wanted)}."}, allowed)
        return
    found = answer()
    document = await found if isinstance(found, Awaitable) else found
    if document is None:
        await respond(send, 200, b"")
    else:
        await respond_json(send, 200, document)


_GET = ("GET", "HEAD")
_POST = ("POST",)


def _route(router: Router, settings: Settings, path: str) -> tuple[tuple[str, ...], Callable[[], object]]:
    """The methods that a path takes, and what answers it; None as an answer is an empty one."""
    fixed: dict[str, tuple[tuple[str, ...], Callable[[], object]]] = {
        "/v2": (_GET, documents.server),
        "/v2/health/live": (_GET, lambda: None),
        "/v2/health/ready": (_GET, lambda: _ready(router, settings)),
        "/v2/models/stats": (_GET, lambda: documents.statistics(router.totals.values())),
        "/v2/repository/index": (_POST, lambda: documents.index(router.serving)),
    }
    if path in fixed:
        return fixed[path]
    if path.startswith("/v2/repository/models/"):
        return _POST, _no_repository
    if path.startswith(_MODELS):
        return _model_route(router, settings, path[len(_MODELS) :])
    raise RequestError(404, f"There is nothing at '{path[:80]}' on this server.")


def _model_route(router: Router, settings: Settings, path: str) -> tuple[tuple[str, ...], Callable[[], object]]:
    rest, _, last = path.rpartition("/")
    if rest and last == "infer":
        return _POST, lambda: None
    if rest and last == "ready":
        return _GET, lambda: _ready(router, settings, *_model(rest))
    if rest and last == "config":
        return _GET, lambda: documents.config(router.named(*_model(rest)))
    if rest and last == "stats":
        return _GET, lambda: _statistics(router, *_model(rest))
    return _GET, lambda: documents.model(router.named(*_model(path)))


async def _ready(router: Router, settings: Settings, name: str | None = None, version: str | None = None) -> None:
    worker = router.serving if name is None else router.named(name, version)
    if worker is None:
        raise RequestError(503, "No release is deployed on this device.")
    if not worker.alive:
        raise BusyError(503, f"The worker of '{worker.name}' {worker.how_it_ended() or 'is stopping'}.")
    if not await worker.answers(settings.ready_timeout_s):
        raise BusyError(
            503, f"The worker of '{worker.name}' does not answer; it is started again if that goes on."
        )


def _statistics(router: Router, name: str, version: str | None) -> documents.Document:
    found = [t for t in router.totals.values() if t.name == name and version in {None, t.release_id}]
    if not found:
        router.named(name, version)
    return documents.statistics(found)


def _no_repository() -> None:
    raise RequestError(
        400, "Models are not loaded from a repository here; deploy a bundle with 'edgeopt-agent deploy BUNDLE'."
    )
