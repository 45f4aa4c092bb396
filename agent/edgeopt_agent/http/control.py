"""The control of the agent under `/api/v1`: what the device is, what it serves, deployments and the way back."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from edgeopt.errors import EdgeoptError, printable
from edgeopt.fleet.mqtt_documents import LONGEST_BYTES
from edgeopt_agent.control import documents
from edgeopt_agent.control.answers import Answered, Answers, error_answer
from edgeopt_agent.control.desired import read_desired
from edgeopt_agent.deployments.incoming import Incoming
from edgeopt_agent.deployments.machine import Machine
from edgeopt_agent.deployments.record import Record
from edgeopt_agent.deployments.refused import RefusedError, disk_refusal
from edgeopt_agent.deployments.site import Work
from edgeopt_agent.deployments.slots import Slots
from edgeopt_agent.deployments.states import State
from edgeopt_agent.http.access import Access
from edgeopt_agent.http.early import RateLimit
from edgeopt_agent.http.pairing import PairingRoute
from edgeopt_agent.http.plain import client_of
from edgeopt_agent.http.table import PREFIX, ROUTES
from edgeopt_agent.own_commands import for_client
from edgeopt_agent.settings import Settings
from edgeopt_agent.trust import Trust

log = logging.getLogger(__name__)
log.addFilter(RateLimit())
LONGEST_WAIT_S = 30.0
_LONGEST_NAME = 120
Answer = Callable[[Request], Awaitable[Answered]]


def routes(
    slots: Slots, started: float, trust: Callable[[], Trust], fingerprint: Callable[[], str], access: Access
) -> list[BaseRoute]:
    """Returns all control routes but the telemetry; `started` is the agent's start by the monotonic clock.

    `fingerprint` is that of the agent's certificate; empty without TLS. `access` names who asks, for the log.
    """
    control = _Control(slots, started, access)
    answers: dict[str, Answer] = {
        "/device": control.device,
        "/status": control.status,
        "/releases": control.releases,
        "/deployments/{number}": control.deployment,
        "/events": control.events,
        "/deploy": control.deploy,
        "/desired": control.desired,
        "/rollback": control.rollback,
        "/cancel": control.cancel,
        "/remove": control.remove,
        "/gc": control.collect,
        "/pair": PairingRoute(slots.first.site, fingerprint),
    }
    methods = {entry.path: entry.method for entry in ROUTES}
    return [
        Route(
            PREFIX + path,
            _endpoint(answer, trust, access, slots.first.site.settings),
            methods=[methods[PREFIX + path]],
        )
        for path, answer in answers.items()
    ]


def _endpoint(
    answer: Answer, trust: Callable[[], Trust], access: Access, settings: Settings
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        headers: dict[str, str] = {}
        try:
            status, document = await answer(request)
        except EdgeoptError as error:
            status, document = error_answer(error, settings, client_of(request.scope))
            if request.method == "POST":
                template = f"%s was refused ({error.code}): %s Ordered by %s."  # the rate is limited for each code
                log.warning(template, request.url.path, error, access.asker(request.scope))
                headers["connection"] = "close"  # the body may not have been read to its end
        body = msgspec.json.encode({**document, "trust": trust()})
        return Response(body, status, headers, "application/json")

    return endpoint


class _Control:
    def __init__(self, slots: Slots, started: float, access: Access) -> None:
        self._slots = slots
        self._access = access
        self._incoming = Incoming(slots)
        self._answers = Answers(slots, started)

    async def device(self, _request: Request) -> Answered:
        return await self._answers.device()

    async def status(self, request: Request) -> Answered:
        status, document = await self._answers.status(_model(request))
        client, settings = client_of(request.scope), self._slots.first.site.settings
        models = document["models"]
        assert isinstance(models, list)  # noqa: S101 - it was made as one
        for each in (document, *models):
            each["reason"] = for_client(each["reason"], settings, client)
        return status, document

    async def releases(self, request: Request) -> Answered:
        return await self._answers.releases(_model(request))

    async def deployment(self, request: Request) -> Answered:
        return await self._answers.deployment(request.path_params["number"], _model(request))

    async def events(self, request: Request) -> Answered:
        journal = self._slots.named(_model(request)).site.journal
        after = int(_number(request, "after", 0))
        wait_s = min(_number(request, "wait_s", 0), LONGEST_WAIT_S)
        found = await journal.events(after, wait_s)
        return 200, {"events": found, "next": found[-1].seq if found else after}

    async def deploy(self, request: Request) -> Answered:
        settings = self._slots.first.site.settings
        length = self._length(request)
        record = Record(
            id=0,
            ordered_by=self._asker(request),
            name=_shown(request.query_params.get("name", "")),
            force=_number(request, "force", 0) != 0,
            rename=_number(request, "rename", 0) != 0,
            allow_downgrade=_number(request, "allow_downgrade", 0) != 0,
            soak_s=_number(request, "soak_s", settings.soak_s),
            soak_requests=int(_number(request, "soak_requests", settings.soak_requests)),
        )
        add = _number(request, "add", 0) != 0
        first = self._slots.first
        if len(self._slots.all) == 1 and (not add or first.empty):
            return await _begun(first.machine, await first.machine.deploy(_pieces(request), length, record))
        if add:
            self._slots.check_room()  # before all of it is sent
        # With several models, the one that it is for is known by its name only.
        async with self._incoming.receive(_pieces(request), length) as (bundle, name):
            slot = await self._slots.add(name) if add and name else self._slots.for_bundle(name)
            return await _begun(slot.machine, await slot.machine.deploy_file(bundle, record))

    async def desired(self, request: Request) -> Answered:
        return await self._answers.desired(read_desired(await _short_body(request)), self._asker(request))

    async def rollback(self, request: Request) -> Answered:
        to = request.query_params.get("to", "")
        return await self._answers.rollback(to, _model(request), self._asker(request))

    async def cancel(self, request: Request) -> Answered:
        return await self._answers.cancel(_model(request), self._asker(request))

    async def remove(self, request: Request) -> Answered:
        return await self._answers.remove(_model(request), self._asker(request))

    async def collect(self, request: Request) -> Answered:
        return await self._answers.collect(_number(request, "dry_run", 0) != 0, _model(request))

    def _asker(self, request: Request) -> str:
        return self._access.asker(request.scope)

    def _length(self, request: Request) -> int:
        text = request.headers.get("content-length", "")
        if not text.isdecimal():
            raise RefusedError(
                411,
                "no-length",
                "A bundle must be sent with Content-Length.",
                "Deploy with: edgeopt-agent deploy BUNDLE",
            )
        length, maximum = int(text), self._slots.first.site.settings.max_bundle_bytes
        if length > maximum:
            raise RefusedError(
                413,
                "too-large",
                f"The bundle has {length} bytes; at most {maximum} are taken.",
                "Deploy a smaller model.",
            )
        return length


async def _begun(machine: Machine, work: Work) -> Answered:
    """Returns the answer once the bundle has arrived; raises RefusedError if it has not."""
    await work.received.wait()
    record = work.record
    if record.state is State.FAILED and not work.arrived:
        sentence = f"Deployment {record.id} failed: {record.reason}"
        if work.disk_failure is None:
            raise RefusedError(400, "not-received", sentence, "Send it again.")
        raise disk_refusal(sentence, work.disk_failure)
    return 202, {"deployment": documents.deployment(machine, record)}


def _model(request: Request) -> str:
    """Returns the model that is asked about; empty for the first one."""
    return request.query_params.get("model", "")


def _shown(name: str) -> str:
    """Returns a bundle's file name as its sender calls it, fit to be shown."""
    return printable(name)[:_LONGEST_NAME]


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


async def _short_body(request: Request) -> bytes:
    content = b""
    async for piece in _pieces(request):
        content += piece
        if len(content) > LONGEST_BYTES:
            raise RefusedError(413, "too-large", f"The document has more than {LONGEST_BYTES} bytes.")
    return content


async def _pieces(request: Request) -> AsyncIterator[bytes]:
    """Yields the body as it comes; just ends when the client goes away, and the missing bytes are noticed."""
    try:
        async for piece in request.stream():
            if piece:
                yield piece
    except ClientDisconnect:
        return
