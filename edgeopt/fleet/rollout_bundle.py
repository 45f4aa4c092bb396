"""The bundle of a rollout as the client reads it before it orders anything: its digest, and what it is called."""

import http.client
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from edgeopt import units
from edgeopt.bundle import archive, deployment, manifest
from edgeopt.errors import BundleError, InputError, MissingError, UsageError, error_text, printable, writing_to
from edgeopt.events import Emit, Progress
from edgeopt.fleet.address import is_this_device
from edgeopt.fleet.mqtt_documents import is_digest
from edgeopt.fleet.rollout_request import RolloutStartRequest
from edgeopt.registry.reference import is_reference, read_reference
from edgeopt.workspace import temporary_folder

_PIECE_BYTES = 1 << 20
_LARGEST_BYTES = 16 << 30
_TIMEOUT_S = 30.0
_READ = ((deployment.FILE, deployment.LARGEST_BYTES), (manifest.FILE, manifest.LARGEST_BYTES))
_HANDLERS = (
    urllib.request.ProxyHandler,
    urllib.request.UnknownHandler,
    urllib.request.HTTPRedirectHandler,
    urllib.request.HTTPErrorProcessor,
    urllib.request.HTTPDefaultErrorHandler,
)
_HOW = "Give the bundle as one file, as the devices fetch it: `edgeopt optimize --single-file` writes one."


class RolloutBundle(msgspec.Struct, frozen=True):
    digest: str
    """SHA-256 of the file, with `sha256:` before it."""
    name: str = ""
    """Name of its model; empty where only the digest is known."""
    release: str = ""


def read_bundle_of(request: RolloutStartRequest, emit: Emit) -> RolloutBundle:
    """Reads the bundle from a copy or from its address, unless its digest is given.

    Raises UsageError or BundleError for one that devices would refuse, and MissingError if it cannot be fetched.
    """
    digest = request.digest.lower()
    if digest and not is_digest(digest):
        raise UsageError(
            "--digest must be 'sha256:' and 64 digits.",
            "Compute it with: sha256sum BUNDLE; or leave it out, and it is read from the bundle.",
        )
    if request.copy is not None:
        found, _ = read_file(request.copy, str(request.copy))
        if digest not in {"", found.digest}:
            raise UsageError(
                f"'{request.copy}' has another digest than --digest: {found.digest}.", "Leave out one of both."
            )
        return found
    if is_reference(request.bundle):
        return RolloutBundle(_digest_in_registry(request.bundle, digest, emit))
    return RolloutBundle(digest) if digest else _fetched(request.bundle, emit)


def _digest_in_registry(bundle: str, digest: str, emit: Emit) -> str:
    """Looks a tag up once, so that all devices get the same bundle."""
    reference = read_reference(bundle)
    if digest and digest != (reference.digest or digest):
        raise UsageError("--digest differs from the digest in the address.", "Leave one of them out.")
    if digest or reference.digest:
        return digest or reference.digest
    from edgeopt.registry.pull import resolve

    emit(Progress("asking the registry", reference.host))
    return resolve(reference).digest


def read_file(file: Path, called: str) -> tuple[RolloutBundle, deployment.Deployment]:
    """Reads a bundle in one file, and what it says of itself; raises BundleError for anything else."""
    if not file.is_file():
        raise BundleError(f"'{called}' is not a file.", _HOW)
    with temporary_folder("rollout") as folder:
        for name, max_bytes in _READ:
            content = archive.read_member(file, name, max_bytes)
            if not content:
                raise BundleError(f"'{called}' is not a bundle in one file.", _HOW)
            Path(folder, name).write_bytes(content)
        found = deployment.read_deployment(Path(folder, deployment.FILE))
        release = manifest.release_id(Path(folder))
    return RolloutBundle(f"sha256:{manifest.file_digest(file)}", printable(found.name), release), found


def speedup_in(found: deployment.Deployment) -> tuple[float | None, float | None, float | None]:
    """Returns the proved speed-up with its interval; three times None where there is no usable one."""
    proof = found.evidence
    if proof is None or not units.usable_interval(proof.speedup_low, proof.speedup_high):
        return None, None, None
    return proof.speedup, proof.speedup_low, proof.speedup_high


def _fetched(url: str, emit: Emit) -> RolloutBundle:
    with _fetching(url, "bundle", emit) as file:
        return read_file(file, url)[0]


def digest_at(url: str, what: str, emit: Emit) -> str:
    """Reads a file that devices fetch, for the digest that all of them must find; raises as `read_bundle_of`."""
    with _fetching(url, what, emit) as file:
        return f"sha256:{manifest.file_digest(file)}"


@contextmanager
def _fetching(url: str, what: str, emit: Emit) -> Iterator[Path]:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise UsageError(
            f"'{printable(url)}' is not an address from which devices fetch a {what}.",
            "Give one that begins with https://; a copy on this machine is named with --copy.",
        )
    if parts.scheme == "http" and not is_this_device(parts.hostname):
        raise UsageError(
            f"A digest that is read over plain HTTP proves nothing: the {what} could be changed on its way.",
            f"Use https://; or pass --digest, or --copy with a copy of the {what}.",
        )
    with temporary_folder("rollout") as folder:
        file = Path(folder, "file")
        try:
            download(url, file, emit, what)
        except (OSError, http.client.HTTPException) as error:
            raise MissingError(
                f"The {what} cannot be fetched from {printable(url)}: {printable(reason_of(error))}.",
                f"Check the address; or pass --digest, or --copy with a copy of the {what}.",
            ) from None
        yield file


def reason_of(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answers {error.code} {error.reason}"
    return str(error.reason) if isinstance(error, urllib.error.URLError) else error_text(error)


def download(url: str, file: Path, emit: Emit, what: str = "bundle") -> None:
    """Raises OSError or HTTPException where the server does not send the file."""
    opener = opener_for(url)
    opener.addheaders.append(("Accept-Encoding", "identity"))
    with opener.open(url, timeout=_TIMEOUT_S) as answer:
        total = answer.length or 0
        received = 0
        with writing_to(file), file.open("wb") as out:
            while piece := answer.read(_PIECE_BYTES):
                received += len(piece)
                if received > _LARGEST_BYTES:
                    raise InputError(f"{printable(url)} has more than {units.size(_LARGEST_BYTES)}.", "Check it.")
                out.write(piece)
                emit(Progress(f"reading the {what}", units.size(received), done=received, total=total or None))
        if total and received != total:
            raise ConnectionError("it ended early")


def opener_for(url: str) -> urllib.request.OpenerDirector:
    """Returns an opener that follows redirects, but none from HTTPS to plain HTTP."""
    opener = urllib.request.OpenerDirector()
    # There, the bundle could be changed: such a redirect finds no handler.
    scheme = urllib.request.HTTPSHandler if urlsplit(url).scheme == "https" else urllib.request.HTTPHandler
    for handler in (*_HANDLERS, scheme):
        opener.add_handler(handler())
    opener.addheaders = [("User-Agent", "edgeopt")]
    return opener
