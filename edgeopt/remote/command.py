"""Command of edgeopt on a device: sends what it needs, forwards its events, and fetches its output."""

import hashlib
import io
import platform
import secrets
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from edgeopt import units
from edgeopt.bundle.durable import publish_file, publish_folder
from edgeopt.bundle.manifest import file_digest
from edgeopt.bundle.write import draft
from edgeopt.errors import TrialError, VerificationError, error_with_code, printable
from edgeopt.events import Emit, Error, Progress, Result, decode
from edgeopt.platform.user_folders import user_name
from edgeopt.remote.address import AgentAddress, SshAddress
from edgeopt.remote.agent import AgentWay
from edgeopt.remote.code import packed_code, requirements
from edgeopt.remote.files import RemoteRequest, place
from edgeopt.remote.link import Link
from edgeopt.remote.ssh import SshWay
from edgeopt.version import __version__


def opened(address: SshAddress | AgentAddress, probes: bool = False) -> Link:
    """Opens a session on the device, with `probes` only to read its facts; raises an error that says why not."""
    if isinstance(address, AgentAddress):
        return Link(AgentWay(address, probes), "")
    return Link(SshWay(address), address.folder)


class RemoteCommand:
    """Command that runs on a device; `interrupt` passes a Ctrl-C on while it runs."""

    def __init__(self, address: SshAddress | AgentAddress, name: str, extras: tuple[str, ...]) -> None:
        self.address = address
        self.name = name
        self.extras = extras
        self._link: Link | None = None

    def interrupt(self) -> bool:
        return self._link is not None and self._link.interrupt()

    def run(
        self, request: msgspec.Struct, outputs: frozenset[str], emit: Emit, is_record: bool = False
    ) -> dict[str, Any]:
        """Returns the data of the command's result, with the paths of this machine; raises the error that it ended
        with.

        `outputs`: the fields that name what it writes. `is_record`: that is a file of JSON, which may hold paths.
        """
        emit(Progress("connecting to the device", self.address.shown))
        # A deep probe measures, which a serving release would disturb.
        probes = self.name == "probe" and not getattr(request, "deep", False)
        with closing(opened(self.address, probes)) as link:
            self._link = link
            return run_over(link, self.name, request, outputs, emit, self.extras, is_record)


def run_over(
    link: Link,
    name: str,
    request: msgspec.Struct,
    outputs: frozenset[str],
    emit: Emit,
    extras: tuple[str, ...] = (),
    is_record: bool = False,
) -> dict[str, Any]:
    """Runs a command in a session, as `RemoteCommand.run` does."""
    run = secrets.token_hex(8)
    remote_request = place(request, f"{link.folder}/runs/{run}", outputs)
    what = " ".join([f"edgeopt {name}", *(path.name for path in list(remote_request.files.values())[:1])])
    link.ask({"do": "begin", "run": run, "owner": {"who": f"{user_name()}@{platform.node()}", "what": what}})
    python, code = _install(link, emit, extras)
    digests = _copy(link, remote_request.files, emit)
    link.send(
        {
            "do": "run",
            "arguments": [name, *remote_request.arguments, "--json"],
            "files": [[digests[path], there] for there, path in remote_request.files.items()],
            "python": python,
            "code": code,
            "environment": {},
        }
    )
    renamed = _renaming(remote_request)
    data = _result(link, name, renamed, emit)
    for there, path in remote_request.outputs.items():
        _fetch(link, there, path, emit, renamed if is_record else None)
    return data


def _install(link: Link, emit: Emit, extras: tuple[str, ...]) -> tuple[str, str]:
    """Installs edgeopt on the device if necessary; returns the Python to use there, and the folder of edgeopt."""
    if link.has_edgeopt:
        answer = link.ask({"do": "install", "version": __version__})
        return answer["python"], answer["installed"]
    content = packed_code()
    digest = hashlib.sha256(content).hexdigest()
    if link.ask({"do": "have", "digests": [digest]})["missing"]:
        emit(Progress("installing edgeopt on the device", units.size(len(content))))
        link.put(digest, io.BytesIO(content), len(content), lambda _: None)
    link.send(
        {
            "do": "install",
            "code": digest,
            "name": f"{__version__}-{digest[:12]}",
            "requirements": requirements(extras),
        }
    )
    while "installing" in (answer := link.answer()):
        emit(Progress("installing packages on the device", printable(answer["installing"])))
    return answer["python"], answer["installed"]


def _result(link: Link, name: str, renamed: Callable[[bytes], bytes], emit: Emit) -> dict[str, Any]:
    result: Result | None = None
    failure: Error | None = None
    for line in link.lines():
        event = decode(renamed(line))
        if isinstance(event, Result):
            result = event
        elif isinstance(event, Error):
            failure = event
        else:
            emit(event)
    if result is not None:
        return result.data
    if failure is not None:
        raise error_with_code(failure.code, failure.message, failure.hint)
    words = printable(link.ended["words"].strip().splitlines()[-1:][0]) if link.ended["words"].strip() else ""
    raise TrialError(
        f"edgeopt {name} ended on '{link.host}' with exit code {link.ended['ended']}"
        f"{f' ({words})' if words else ''}.",
        "Nothing was written here. Run the same command again; perhaps the device has too little memory.",
        ending="exited",
    )


def _renaming(remote_request: RemoteRequest) -> Callable[[bytes], bytes]:
    """Returns a function that replaces paths of the device by their local names, in lines of JSON."""
    pairs = [
        (msgspec.json.encode(there)[1:-1], msgspec.json.encode(here)[1:-1])
        for there, here in sorted(remote_request.names.items(), key=lambda pair: -len(pair[0]))
    ]

    def renamed(line: bytes) -> bytes:
        for there, here in pairs:
            line = line.replace(there, here)
        return line

    return renamed


def _copy(link: Link, files: dict[str, Path], emit: Emit) -> dict[Path, str]:
    """Copies each file to the device that is not there yet; returns the digests of all."""
    digests = {path: file_digest(path) for path in files.values()}
    missing = set(link.ask({"do": "have", "digests": sorted(set(digests.values()))})["missing"])
    to_send = {digest: path for path, digest in digests.items() if digest in missing}
    total = sum(path.stat().st_size for path in to_send.values())
    done = 0
    for digest, path in to_send.items():
        size = path.stat().st_size

        def step(sent: int, path: Path = path, before: int = done) -> None:
            emit(Progress("copying files to the device", path.name, before + sent, total))

        with path.open("rb") as file:
            link.put(digest, file, size, step)
        done += size
    return digests


def _fetch(link: Link, there: str, path: Path, emit: Emit, renamed: Callable[[bytes], bytes] | None) -> None:
    """Fetches a file or a folder and puts it in place in one step, once all of it is here and intact."""
    listed = link.ask({"do": "get", "path": there})["files"]
    target = path.absolute()
    emit(Progress("fetching from the device", path.name))
    with draft(target) as folder:
        for inside, size, digest in listed:
            # As a manifest of the other side names it: only what stays inside of the folder is written.
            here = (folder / (inside or "file")).resolve()
            if not here.is_relative_to(folder.resolve()):
                raise VerificationError(f"The device sent a file with the name '{printable(inside)}'.")
            here.parent.mkdir(parents=True, exist_ok=True)
            with here.open("wb") as file:
                link.read(size, file)
            if file_digest(here) != digest:
                raise VerificationError(f"'{path.name}' arrived damaged.", "Run the same command again.")
        if [inside for inside, *_ in listed] == [""]:
            if renamed is not None:
                (folder / "file").write_bytes(renamed((folder / "file").read_bytes()))
            publish_file(folder / "file", target)
        elif listed:
            publish_folder(folder, target)
