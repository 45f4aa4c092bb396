"""`/api/v1/trials`: a client measures on this device. One long answer is a session, and requests are its input."""

import asyncio
from contextlib import suppress

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from edgeopt.errors import EdgeoptError
from edgeopt.remote.address import BESIDE_SERVING, PROBE_ONLY
from edgeopt_agent.control.answers import error_answer
from edgeopt_agent.deployments.refused import RefusedError
from edgeopt_agent.http.plain import Receive, Scope, Send, respond_json
from edgeopt_agent.trials.trials import Trial, Trials

PATH = "/api/v1/trials"
_HEADERS = [(b"content-type", b"application/octet-stream")]
_FLAG = {"": False, "0": False, "1": True}


def routes(trials: Trials, body_timeout_s: float) -> list[BaseRoute]:
    async def begin(request: Request) -> Response:
        try:
            beside, probes = (_flag(request, name) for name in (BESIDE_SERVING, PROBE_ONLY))
            return _Session(trials, await trials.begin(beside, probes))
        except EdgeoptError as error:
            return _refused(error)

    async def take(request: Request) -> Response:
        try:
            trial = trials.named(request.path_params["trial"])
            async with trial.writing():
                await _pass_on(request, trial, body_timeout_s)
        except EdgeoptError as error:
            return _refused(error)
        return _Json(200, {"taken": True})

    return [Route(PATH, begin, methods=["POST"]), Route(f"{PATH}/{{trial}}", take, methods=["POST"])]


def _flag(request: Request, name: str) -> bool:
    value = request.query_params.get(name, "")
    if value not in _FLAG:
        raise RefusedError(400, "bad-query", f"'{name}' is 0 or 1.", "See docs/agent.md.")
    return _FLAG[value]


async def _pass_on(request: Request, trial: Trial, timeout_s: float) -> None:
    pieces = request.stream()
    try:
        while True:
            async with asyncio.timeout(timeout_s):
                piece = await anext(pieces, None)
            if piece is None:
                return
            await trial.write(piece)
    except TimeoutError:
        raise RefusedError(408, "too-slow", "The input did not arrive in time.", "Send it again.") from None
    except ClientDisconnect:
        raise RefusedError(400, "not-received", "The connection ended within the input.") from None
    except (OSError, RuntimeError):  # uvloop's for a closed pipe
        raise RefusedError(409, "no-trial", "The measurement has ended.", "Begin another.") from None


class _Json(Response):
    def __init__(self, status: int, document: object) -> None:
        super().__init__()
        self._status, self._document = status, document

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        close = [] if self._status == 200 else [(b"connection", b"close")]  # the body may not have been read
        await respond_json(send, self._status, self._document, *close)


def _refused(error: EdgeoptError) -> Response:
    return _Json(*error_answer(error))


class _Session(Response):
    """A response that streams the program's output until the program ends or the client goes away."""

    def __init__(self, trials: Trials, trial: Trial) -> None:
        super().__init__()
        self._trials, self._trial = trials, trial

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        ways = (self._stream_output(send), _gone(receive))
        streaming, gone = tasks = [asyncio.ensure_future(way) for way in ways]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            if not streaming.done():
                streaming.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.shield(self._trials.end(self._trial))
        if not streaming.cancelled() and streaming.exception() is None:
            with suppress(OSError):
                await send({"type": "http.response.body", "body": b""})

    async def _stream_output(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        head = msgspec.json.encode({"trial": self._trial.id}) + b"\n"
        await send({"type": "http.response.body", "body": head, "more_body": True})
        while chunk := await self._trial.read():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
