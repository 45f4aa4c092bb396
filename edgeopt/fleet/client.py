"""An agent over HTTP: what it is, what it serves, deployments and the way back."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlencode

import msgspec

from edgeopt.errors import VerificationError
from edgeopt.events import Emit
from edgeopt.fleet.address import DEFAULT_URL, Address, parse
from edgeopt.fleet.follow import follow
from edgeopt.fleet.http import Answer, Reply, ask, understood
from edgeopt.fleet.records import Collected, Deployment, Journal, Releases, Removed, Status
from edgeopt.fleet.upload import ready_to_send, sending
from edgeopt.hw.device import Device

_API = "/api/v1"
_NOTHING: Mapping[str, str] = {}
# An upload is answered once the device has all of it on its disk.
_UPLOAD_TIMEOUT_S = 120.0


class _DeviceAnswer(msgspec.Struct, frozen=True):
    device: Device


class _Accepted(msgspec.Struct, frozen=True):
    deployment: Deployment


class DeployOptions(msgspec.Struct, frozen=True):
    """What a deployment may do, and how long it must prove itself; None: the agent's own choice."""

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
        """What the agent's probe found."""
        return self._get("/device", _DeviceAnswer).device

    def status(self) -> Status:
        return self._get("/status", Status)

    def releases(self) -> Releases:
        return self._get("/releases", Releases)

    def deployment(self, number: int) -> Deployment:
        return self._get(f"/deployments/{number}", _Accepted).deployment

    def events(self, after: int = 0, wait_s: float = 0.0) -> Journal:
        """The journal's entries behind a sequence number; waits that long for the first one."""
        asked = {"after": str(after), "wait_s": f"{wait_s:g}"}
        return self._get("/events", Journal, self._timeout_s + wait_s, asked)

    def deploy(
        self,
        bundle: Path,
        emit: Emit,
        options: DeployOptions = DEFAULTS,
        wait: bool = True,
    ) -> Deployment:
        """Sends a bundle and follows it until it serves; raises VerificationError when it was taken back.

        Without `wait` it returns as soon as the agent has accepted it.
        """
        asked: dict[str, object] = {
            "force": int(options.force),
            "soak_s": options.soak_s,
            "soak_requests": options.soak_requests,
            "name": bundle.name,
        }
        if options.add:  # agents of before do not know it
            asked["add"] = 1
        if options.rename:  # agents of before do not know it
            asked["rename"] = 1
        if options.allow_downgrade:
            asked["allow_downgrade"] = 1
        query = urlencode({name: value for name, value in asked.items() if value is not None})
        pieces, size = ready_to_send(bundle, emit)
        headers = {"Content-Type": "application/zip", "Content-Length": str(size)}
        path = f"{_API}/deploy?{query}"
        reply = ask(self.address, "POST", path, _UPLOAD_TIMEOUT_S, sending(pieces, size, emit), headers)
        return self._begun(understood(self.address, reply, _Accepted).deployment, emit, wait)

    def rollback(self, emit: Emit, wait: bool = True, to: str = "") -> Deployment:
        """Rolls back to a release, or to the previous one; raises ConstraintError if there is none."""
        reply = self._post("/rollback", {"to": to} if to else {})
        return self._begun(understood(self.address, reply, _Accepted).deployment, emit, wait)

    def cancel(self, emit: Emit, wait: bool = True) -> Deployment:
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

    def _begun(self, deployment: Deployment, emit: Emit, wait: bool) -> Deployment:
        return follow(self._with(deployment), deployment, emit) if wait else deployment

    def _with(self, deployment: Deployment) -> "Agent":
        """The same agent, asked about the model of a deployment: each model numbers its own."""
        return Agent(self.address, self._timeout_s, model=deployment.model)

    def _post(self, path: str, asked: Mapping[str, str] = _NOTHING) -> Reply:
        return ask(self.address, "POST", _API + path + self._query(asked), self._timeout_s)

    def _get(
        self, path: str, kind: type[Answer], timeout_s: float | None = None, asked: Mapping[str, str] = _NOTHING
    ) -> Answer:
        reply = ask(self.address, "GET", _API + path + self._query(asked), timeout_s or self._timeout_s)
        return understood(self.address, reply, kind)

    def _query(self, asked: Mapping[str, str]) -> str:
        query = urlencode({**asked, **({"model": self._model} if self._model else {})})
        return f"?{query}" if query else ""
