"""The control of the agent under `/api/v1`: what the device is, what it serves, deployments and the way back."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from edgeopt.errors import DiskFullError, EdgeoptError, InputError, is_disk_full
from edgeopt.version import __version__
from edgeopt_agent.deployments.machine import Machine
from edgeopt_agent.deployments.record import Record
from edgeopt_agent.deployments.refused import RefusedError
from edgeopt_agent.deployments.site import Site
from edgeopt_agent.deployments.states import State
from edgeopt_agent.http import control_documents as documents
from edgeopt_agent.http.control_documents import Document
from edgeopt_agent.http.pairing import PairingRoute
from edgeopt_agent.releases import list_releases
from edgeopt_agent.trust import Trust

PREFIX = "/api/v1"
LONGEST_WAIT_S = 30.0
_LONGEST_NAME = 120
Answer = Callable[[Request], Awaitable[tuple[int, Document]]]


def routes(
    site: Site, machine: Machine, started: float, trust: Callable[[], Trust], fingerprint: Callable[[], str]
) -> list[BaseRoute]:
    """Everything but the telemetry; `started` is when the agent was, by the monotonic clock.

    `fingerprint` is that of the agent's certificate; empty without TLS.
    """
    control = _Control(site, machine, started)
    table: tuple[tuple[str, str, Answer], ...] = (
        ("GET", "/device", control.device),
        ("GET", "/status", control.status),
        ("GET", "/releases", control.releases),
        ("GET", "/deployments/{number}", control.deployment),
        ("GET", "/events", control.events),
        ("POST", "/deploy", control.deploy),
        ("POST", "/rollback", control.rollback),
        ("POST", "/cancel", control.cancel),
        ("POST", "/gc", control.collect),
        ("POST", "/pair", PairingRoute(site, fingerprint)),
    )
    return [Route(PREFIX + path, _endpoint(answer, trust), methods=[method]) for method, path, answer in table]


def _endpoint(answer: Answer, trust: Callable[[], Trust]) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        headers: dict[str, str] = {}
        try:
            status, document = await answer(request)
        except EdgeoptError as error:
            status = _status_of(error)
            document = {"error": {"code": error.code, "message": error.message, "hint": error.hint}}
            if request.method == "POST":
                headers["connection"] = "close"  # the body may not have been read to its end
        body = msgspec.json.encode({**document, "trust": trust()})
        return Response(body, status, headers, "application/json")

    return endpoint


def _status_of(error: EdgeoptError) -> int:
    if isinstance(error, RefusedError):
        return error.status
    if error.code == DiskFullError.code:
        return 507
    return 400 if isinstance(error, InputError) else 500


class _Control:
    def __init__(self, site: Site, machine: Machine, started: float) -> None:
        self._site = site
        self._machine = machine
        self._started = started

    async def device(self, _request: Request) -> tuple[int, Document]:
        return 200, {"device": await self._site.device(), "agent": __version__}

    async def status(self, _request: Request) -> tuple[int, Document]:
        return 200, documents.status(self._site, self._machine, time.monotonic() - self._started)

    async def releases(self, _request: Request) -> tuple[int, Document]:
        journal = self._site.journal
        failed, refused = await journal.quarantined(), await journal.refused()
        return 200, {"releases": await asyncio.to_thread(list_releases, self._site.data, failed, refused)}

    async def deployment(self, request: Request) -> tuple[int, Document]:
        number: str = request.path_params["number"]
        known = number.isascii() and number.isdecimal() and len(number) < 19
        record = await self._site.journal.deployment(int(number)) if known else None
        if record is None:
            sentence = f"There is no deployment '{number[:40]}'."
            raise RefusedError(404, "not-found", sentence, "See /api/v1/events.")
        return 200, {"deployment": documents.deployment(self._machine, record)}

    async def events(self, request: Request) -> tuple[int, Document]:
        after = int(_number(request, "after", 0))
        wait_s = min(_number(request, "wait_s", 0), LONGEST_WAIT_S)
        found = await self._site.journal.events(after, wait_s)
        return 200, {"events": found, "next": found[-1].seq if found else after}

    async def deploy(self, request: Request) -> tuple[int, Document]:
        settings = self._site.settings
        length = self._length(request)
        asked = Record(
            id=0,
            name=_shown(request.query_params.get("name", "")),
            force=_number(request, "force", 0) != 0,
            rename=_number(request, "rename", 0) != 0,
            allow_downgrade=_number(request, "allow_downgrade", 0) != 0,
            soak_s=_number(request, "soak_s", settings.soak_s),
            soak_requests=int(_number(request, "soak_requests", settings.soak_requests)),
        )
        work = await self._machine.deploy(_pieces(request), length, asked)
        await work.received.wait()
        record = work.record
        if record.state is State.FAILED and not work.arrived:
            sentence = f"Deployment {record.id} failed: {record.reason}"
            if work.disk_failure is None:
                raise RefusedError(400, "not-received", sentence, "Send it again.")
            full = is_disk_full(work.disk_failure)
            raise RefusedError(
                *((507, DiskFullError.code) if full else (500, "disk-failed")),
                sentence,
                "Free some space on the device." if full else "Check the device's disk; its log may say more.",
            )
        return 202, {"deployment": documents.deployment(self._machine, record)}

    async def rollback(self, request: Request) -> tuple[int, Document]:
        record = await self._machine.roll_back(to=request.query_params.get("to", ""))
        return 202, {"deployment": documents.deployment(self._machine, record)}

    async def cancel(self, _request: Request) -> tuple[int, Document]:
        record = await self._machine.cancel()
        return 202, {"deployment": documents.deployment(self._machine, record)}

    async def collect(self, request: Request) -> tuple[int, Document]:
        dry_run = _number(request, "dry_run", 0) != 0
        return 200, {"releases": await self._machine.collect(dry_run), "dry_run": dry_run}

    def _length(self, request: Request) -> int:
        text = request.headers.get("content-length", "")
        if not text.isdecimal():
            raise RefusedError(
                411, "no-length", "A bundle is sent with its Content-Length.", "edgeopt-agent deploy does so."
            )
        length, most = int(text), self._site.settings.max_bundle_bytes
        if length > most:
            raise RefusedError(
                413,
                "too-large",
                f"The bundle has {length} bytes; at most {most} are taken.",
                "Deploy a smaller model.",
            )
        return length


def _shown(name: str) -> str:
    """A bundle's file name as its sender calls it, fit to be shown."""
    return "".join(c if c.isprintable() else "?" for c in name)[:_LONGEST_NAME]


def _number(request: Request, name: str, default: float) -> float:
    text = request.query_params.get(name, "")
    if not text:
        return default
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= 1e15:
        raise RefusedError(
            400, "bad-query", f"'{name}' is '{text[:40]}', not a number from 0 up.", "See docs/agent.md."
        )
    return found


async def _pieces(request: Request) -> AsyncIterator[bytes]:
    """The body as it comes; it just ends when the client goes away, and the missing bytes are noticed."""
    try:
        async for piece in request.stream():
            if piece:
                yield piece
    except ClientDisconnect:
        return
