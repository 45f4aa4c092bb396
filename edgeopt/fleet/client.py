"""An agent over HTTP: what it is, what it serves, deployments and the way back."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import urlencode

import msgspec

from edgeopt import units
from edgeopt.bundle.archive import packed
from edgeopt.bundle.read import is_bundle, read_bundle
from edgeopt.errors import BundleError, MissingError, VerificationError
from edgeopt.events import Emit, Log, Progress
from edgeopt.fleet.address import DEFAULT_URL, Address, parse
from edgeopt.fleet.records import (
    COMMITTED,
    FINAL,
    ROLLED_BACK,
    Collected,
    FleetDeployment,
    Journal,
    Releases,
    Removed,
    Status,
    deployment_title,
)
from edgeopt.fleet.transport import UNREACHABLE, Answer, Reply, ask, understood
from edgeopt.hw.device import Device
from edgeopt.platform.command_line import quote_word

_PIECE_BYTES = 1 << 20
_LONG_POLL_S = 2.0
_PATIENCE_S = 15.0
_PAUSE_S = 0.2
_TIDY_S = 10.0
_LOOK_AGAIN_S = 0.02
_API = "/api/v1"
_NOTHING: Mapping[str, str] = {}
# An upload is answered once the device has all of it on its disk.
_UPLOAD_TIMEOUT_S = 120.0


def ready_to_send(bundle: Path, emit: Emit) -> tuple[Iterable[bytes], int]:
    """A bundle as one file in pieces, and its size. A folder is packed while it is sent: it needs no room here."""
    if not bundle.exists():
        raise BundleError(f"There is no bundle at '{bundle}'.", "Check the path.")
    if not is_bundle(bundle):
        raise BundleError(
            f"'{bundle}' is not a bundle.",
            "Create one on a machine with edgeopt: edgeopt optimize MODEL -o BUNDLE",
        )
    emit(Progress("checking digests", bundle.name))
    read_bundle(bundle)
    if bundle.is_file():
        return _pieces(bundle), bundle.stat().st_size
    return packed(bundle), sum(map(len, packed(bundle)))


def _pieces(file: Path) -> Iterator[bytes]:
    with file.open("rb") as opened:
        yield from iter(partial(opened.read, _PIECE_BYTES), b"")


def sending(pieces: Iterable[bytes], size: int, emit: Emit) -> Iterator[bytes]:
    """The pieces, telling how much of them has been taken."""
    sent = 0
    for piece in pieces:
        emit(Progress("sending", units.size(size), done=sent, total=size))
        yield piece
        sent += len(piece)
    emit(Progress("sending", units.size(size), done=sent, total=size))


Known = TypeVar("Known")


class BundleSource(Protocol):
    """Part of an agent's interface that following a deployment needs."""

    @property
    def url(self) -> str: ...
    def status(self) -> Status: ...
    def deployment(self, number: int) -> FleetDeployment: ...
    def events(self, after: int = 0, wait_s: float = 0.0) -> Journal: ...


def follow(agent: BundleSource, deployment: FleetDeployment, emit: Emit) -> FleetDeployment:
    """Tells every state as it comes; raises VerificationError unless the deployment ends as committed."""
    number, seen, after = deployment.id, 0, 0
    while True:
        deployment = _patiently(partial(agent.deployment, number), agent, deployment, emit)
        for moment in deployment.history[seen:]:
            emit(_progress(deployment, moment.state, moment.reason, moment.time_s))
        seen = max(seen, len(deployment.history))
        if deployment.state in FINAL:
            status = _patiently(partial(_await_idle, agent), agent, deployment, emit)
            return _ended(deployment, status)
        _emit_download(deployment, emit)
        _emit_soak(deployment, emit)
        # The journal wakes this up; what it says is in the record too.
        after = _patiently(partial(agent.events, after, _LONG_POLL_S), agent, deployment, emit).next


def subject(deployment: FleetDeployment) -> str:
    """Returns the name of a deployment in its events."""
    return deployment_title(deployment.kind, deployment.id)


def _await_idle(agent: BundleSource) -> Status:
    """The agent tidies up after a deployment has ended, and takes no other one before that is done."""
    deadline = time.monotonic() + _TIDY_S
    while True:
        status = agent.status()
        tidies = status.state == "deploying" and status.deployment is not None and status.deployment.state in FINAL
        if not tidies or time.monotonic() > deadline:
            return status
        time.sleep(_LOOK_AGAIN_S)


def _progress(deployment: FleetDeployment, state: str, reason: str, time_s: float) -> Progress:
    message = ": ".join(part for part in (deployment.name or deployment.release or "", reason) if part)
    return Progress(state.lower(), message, subject=subject(deployment), time_s=time_s)


def _emit_download(deployment: FleetDeployment, emit: Emit) -> None:
    figures = deployment.progress or {}
    got, total, failure = (figures.get(key) for key in ("received_bytes", "total_bytes", "failure"))
    if deployment.state != "FETCHING" or not isinstance(got, int):
        return
    known = total if isinstance(total, int) else None
    message = units.size(known or got) + (f"; trying again: {failure}" if failure else "")
    emit(Progress("fetching", message, subject=subject(deployment), done=got, total=known))


def _emit_soak(deployment: FleetDeployment, emit: Emit) -> None:
    """A soak is long, so the remaining time is shown."""
    figures = deployment.progress or {}
    soak_s, elapsed_s = figures.get("soak_s"), figures.get("elapsed_s")
    if deployment.state != "SOAKING" or not isinstance(soak_s, float | int):
        return
    left_s = soak_s - elapsed_s if isinstance(elapsed_s, float | int) else soak_s
    message = f"{figures.get('requests')} requests of at least {figures.get('soak_requests')} served"
    emit(Progress("soaking", message, subject=subject(deployment), time_left_s=max(0.0, round(left_s, 1))))


def _ended(deployment: FleetDeployment, status: Status) -> FleetDeployment:
    if deployment.state == COMMITTED:
        return deployment
    what = f"Deployment {deployment.id}" + (f" of '{deployment.name}'" if deployment.name else "")
    listed = "edgeopt fleet releases" + (f" --model {quote_word(deployment.model)}" if deployment.model else "")
    shown = next((each for each in status.models if each.name == deployment.model), status)
    serves = "still serves" if deployment.state == "FAILED" else "serves again"
    serving = "No release serves." if shown.serving is None else f"The previous release {serves}."
    hint = f"{serving} `{listed}` lists refused releases with the reason."
    ended, hint = {
        "FAILED": ("failed", hint),
        "ROLLED_BACK": ("was rolled back", hint),
        "DEGRADED": (
            "could not be rolled back",
            "The agent is reachable but may not serve: deploy a bundle that worked before.",
        ),
    }[deployment.state]
    error = VerificationError(f"{what} {ended}: {deployment.reason or 'the agent gave no reason'}", hint)
    refused = deployment.detail.get("refused")
    if isinstance(refused, str):
        error.code = refused
    raise error


def _patiently(call: Callable[[], Known], agent: BundleSource, deployment: FleetDeployment, emit: Emit) -> Known:
    """An agent that restarts goes on with its deployment, so it is given a while to come back."""
    try:
        return call()
    except MissingError as error:
        if error.code != UNREACHABLE:
            raise
        state = deployment.state.lower().replace("_", " ")
        message = f"The agent went away while deployment {deployment.id} was {state}; waiting for it."
        emit(Log("warning", message, kind="agent-away"))
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        time.sleep(_PAUSE_S)
        try:
            answer = call()
        except MissingError as error:
            if error.code != UNREACHABLE:
                raise
            continue
        emit(Log("info", "The agent is back.", kind="agent-back"))
        return answer
    raise MissingError(
        f"The agent at {agent.url} went away while deployment {deployment.id} was {state}, and has not come back.",
        "It finishes or rolls back the deployment when it runs again: edgeopt fleet status",
    )


class _DeviceAnswer(msgspec.Struct, frozen=True):
    device: Device


class _Accepted(msgspec.Struct, frozen=True):
    deployment: FleetDeployment


class DeployOptions(msgspec.Struct, frozen=True):
    """Permissions of a deployment, and the extent of its soak; None: the agent's own choice."""

    force: bool = False
    rename: bool = False
    allow_downgrade: bool = False
    soak_s: float | None = None
    soak_requests: int | None = None
    add: bool = False


DEFAULTS = DeployOptions()


class Agent:
    """One agent; each call is a request of its own, so that an agent may restart between two of them."""

    def __init__(
        self, url: str | Address = DEFAULT_URL, timeout_s: float = 10.0, token: str = "", model: str = ""
    ) -> None:
        """`model` is the one that is asked about, where the agent serves several; the first one by default."""
        self.address = parse(url, token)
        self._timeout_s = timeout_s
        self._model = model

    @property
    def url(self) -> str:
        return self.address.url

    def device(self) -> Device:
        """Returns the device as the agent's probe found it."""
        return self._get("/device", _DeviceAnswer).device

    def status(self) -> Status:
        return self._get("/status", Status)

    def releases(self) -> Releases:
        return self._get("/releases", Releases)

    def deployment(self, number: int) -> FleetDeployment:
        return self._get(f"/deployments/{number}", _Accepted).deployment

    def events(self, after: int = 0, wait_s: float = 0.0) -> Journal:
        """The journal's entries behind a sequence number; waits that long for the first one."""
        parameters = {"after": str(after), "wait_s": f"{wait_s:g}"}
        return self._get("/events", Journal, self._timeout_s + wait_s, parameters)

    def deploy(
        self,
        bundle: Path,
        emit: Emit,
        options: DeployOptions = DEFAULTS,
        wait: bool = True,
    ) -> FleetDeployment:
        """Sends a bundle and follows it until it serves; raises VerificationError when it was taken back.

        Without `wait` it returns as soon as the agent has accepted it.
        """
        parameters: dict[str, object] = {
            "force": int(options.force),
            "soak_s": options.soak_s,
            "soak_requests": options.soak_requests,
            "name": bundle.name,
        }
        if options.add:  # agents of before do not know it
            parameters["add"] = 1
        if options.rename:  # agents of before do not know it
            parameters["rename"] = 1
        if options.allow_downgrade:
            parameters["allow_downgrade"] = 1
        query = urlencode({name: value for name, value in parameters.items() if value is not None})
        pieces, size = ready_to_send(bundle, emit)
        headers = {"Content-Type": "application/zip", "Content-Length": str(size)}
        path = f"{_API}/deploy?{query}"
        reply = ask(self.address, "POST", path, _UPLOAD_TIMEOUT_S, sending(pieces, size, emit), headers)
        return self._begun(understood(self.address, reply, _Accepted).deployment, emit, wait)

    def deploy_from(
        self, source: str, digest: str, emit: Emit, options: DeployOptions = DEFAULTS, wait: bool = True
    ) -> FleetDeployment:
        """Lets the agent fetch a bundle from a URL, and follows it like `deploy`."""
        known = digest.strip().lower()
        document = {
            "bundle": source,
            "digest": known if known.startswith("sha256:") else f"sha256:{known}",
            "model": self._model,
            **msgspec.structs.asdict(options),
        }
        body = msgspec.json.encode(document)
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        reply = ask(self.address, "POST", f"{_API}/desired", self._timeout_s, (body,), headers)
        return self._begun(understood(self.address, reply, _Accepted).deployment, emit, wait)

    def rollback(self, emit: Emit, wait: bool = True, to: str = "") -> FleetDeployment:
        """Rolls back to a release, or to the previous one; raises ConstraintError if there is none.

        Returns the deployment that it ends, where one still soaks.
        """
        reply = self._post("/rollback", {"to": to} if to else {})
        begun = understood(self.address, reply, _Accepted).deployment
        try:
            return self._begun(begun, emit, wait)
        except VerificationError:
            ended = self._with(begun).deployment(begun.id)
            if ended.state == ROLLED_BACK and ended.requested:
                return ended
            raise

    def cancel(self, emit: Emit, wait: bool = True) -> FleetDeployment:
        """Cancels the running deployment; raises ConstraintError if there is none."""
        reply = self._post("/cancel")
        begun = understood(self.address, reply, _Accepted).deployment
        with suppress(VerificationError):  # that it does not serve is what was asked for
            return self._begun(begun, emit, wait)
        return self._with(begun).deployment(begun.id)

    def remove(self, model: str) -> Removed:
        """Ends an added model and removes it; raises ConstraintError while it deploys."""
        path = f"{_API}/remove?{urlencode({'model': model})}"
        return understood(self.address, ask(self.address, "POST", path, _UPLOAD_TIMEOUT_S), Removed)

    def collect(self, dry_run: bool = False) -> Collected:
        """Removes the releases that the agent does not need any more, or only names them."""
        reply = self._post("/gc", {"dry_run": str(int(dry_run))})
        return understood(self.address, reply, Collected)

    def _begun(self, deployment: FleetDeployment, emit: Emit, wait: bool) -> FleetDeployment:
        return follow(self._with(deployment), deployment, emit) if wait else deployment

    def _with(self, deployment: FleetDeployment) -> "Agent":
        """The same agent, asked about the model of a deployment: each model numbers its own."""
        return Agent(self.address, self._timeout_s, model=deployment.model)

    def _post(self, path: str, parameters: Mapping[str, str] = _NOTHING) -> Reply:
        return ask(self.address, "POST", _API + path + self._query(parameters), self._timeout_s)

    def _get(
        self,
        path: str,
        kind: type[Answer],
        timeout_s: float | None = None,
        parameters: Mapping[str, str] = _NOTHING,
    ) -> Answer:
        reply = ask(self.address, "GET", _API + path + self._query(parameters), timeout_s or self._timeout_s)
        return understood(self.address, reply, kind)

    def _query(self, parameters: Mapping[str, str]) -> str:
        query = urlencode({**parameters, **({"model": self._model} if self._model else {})})
        return f"?{query}" if query else ""
