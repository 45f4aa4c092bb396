"""Connection to a registry: the library oras logs in; downloads continue where a connection broke."""

import hashlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from http import HTTPStatus
from http.client import RemoteDisconnected
from importlib.util import find_spec
from pathlib import Path
from ssl import SSLEOFError
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urljoin, urlsplit

from edgeopt.errors import (
    BundleError,
    EdgeoptError,
    MissingError,
    MissingExtraError,
    error_text,
    printable,
    writing_to,
)
from edgeopt.registry.documents import INDEX, MANIFEST, MAX_BYTES
from edgeopt.registry.reference import RegistryReference

if TYPE_CHECKING:
    from oras.provider import Registry
    from requests import Response

_TIMEOUTS_S = (10.0, 60.0)
"""Time limits: to connect, and between two pieces of an answer."""
READ_BYTES = 1 << 18
_MAX_FAILURES = 6
"""Most failures in a row without a byte of progress."""
_RETRY_S, _MAX_RETRY_S = 0.1, 5.0
_KNOWN = 200
_OK = range(200, 300)
OnBytes = Callable[[int], None]
_Result = TypeVar("_Result")


class BrokenError(Exception):
    """A connection that ended early, and is worth another try."""


class RegistryClient:
    """A repository of a registry; uses the logins in `~/.docker/config.json`."""

    def __init__(self, reference: RegistryReference, plain_http: bool = False) -> None:
        self.reference = reference
        self._plain = plain_http or reference.is_loopback
        self._base = f"{'http' if self._plain else 'https'}://{reference.host}/v2"
        self._repository = f"{self._base}/{reference.repository}"
        self.uploads = f"{self._repository}/blobs/uploads/"
        self.takes_chunks = True
        """Whether uploads in chunks were not refused so far."""
        if find_spec("oras") is None:
            raise MissingExtraError("registry", "A registry of bundles")
        self._oras = self.retried(self._connect)

    def manifest(self, version: str) -> bytes:
        """Reads a manifest or an index by its tag or digest; raises BundleError if the digest is another one."""

        def read() -> bytes:
            url, accept = f"{self._repository}/manifests/{version}", {"Accept": f"{MANIFEST}, {INDEX}"}
            with self.ask("GET", url, accept, stream=True) as answer:
                self.check(answer, f"{self.reference}")
                return b"".join(self._pieces(answer, MAX_BYTES))

        content = self.retried(read)
        if version.startswith("sha256:") and digest_of(content) != version:
            raise BundleError(
                f"The registry '{self.reference.host}' sends another manifest than {version}.",
                "Do not use this registry before it is repaired; another copy of it may be sound.",
            )
        return content

    def put_manifest(self, content: bytes, version: str, media_type: str) -> None:
        def put() -> None:
            url = f"{self._repository}/manifests/{version}"
            with self.ask("PUT", url, {"Content-Type": media_type}, content) as answer:
                self.check(answer, str(self.reference))

        self.retried(put)

    def has_manifest(self, digest: str) -> bool:
        return self._has(f"manifests/{digest}", {"Accept": MANIFEST})

    def has_blob(self, digest: str) -> bool:
        return self._has(f"blobs/{digest}")

    def _has(self, place: str, headers: Mapping[str, str] = MappingProxyType({})) -> bool:
        def look() -> bool:
            with self.ask("HEAD", f"{self._repository}/{place}", headers) as answer:
                if answer.status_code not in {_KNOWN, 404}:
                    self.check(answer, str(self.reference))
                return bool(answer.status_code == _KNOWN)

        return self.retried(look)

    def fetch_blob(self, digest: str, size_bytes: int, file: Path, on_bytes: OnBytes) -> None:
        """Writes a blob into a file, after the bytes that are there; raises BundleError for a wrong digest."""
        restarted = False

        def fetch() -> None:
            nonlocal restarted
            if not file.exists() or file.stat().st_size < size_bytes:
                self._append(digest, size_bytes, file, on_bytes)
            if file.stat().st_size == size_bytes and digest_of(file) == digest:
                return
            file.unlink()
            if not restarted:  # an earlier run may have left other bytes
                restarted = True
                raise BrokenError("the bytes that were here do not continue")
            raise BundleError(
                f"The registry '{self.reference.host}' sends a damaged {digest}: its digest differs.",
                "Push the bundle again from its source, or pull it from another registry.",
            )

        self.retried(fetch, lambda: file.stat().st_size if file.exists() else 0)

    def _append(self, digest: str, size_bytes: int, file: Path, on_bytes: OnBytes) -> None:
        have = file.stat().st_size if file.exists() else 0
        headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={have}-"} if have else {})}
        with self.ask("GET", f"{self._repository}/blobs/{digest}", headers, stream=True) as answer:
            self.check(answer, digest)
            goes_on = answer.status_code == 206 and answer.headers.get("Content-Range", "").startswith(
                f"bytes {have}-"
            )
            with writing_to(file), file.open("ab" if goes_on else "wb") as out:
                for piece in self._pieces(answer, size_bytes - (have if goes_on else 0)):
                    out.write(piece)
                    on_bytes(len(piece))
        if file.stat().st_size < size_bytes:
            raise BrokenError("the connection ended early")

    @staticmethod
    def _pieces(answer: "Response", max_bytes: int) -> Iterator[bytes]:
        """Yields the body as it comes: `iter_content` would lose a part of what came before a break."""
        from urllib3.exceptions import HTTPError

        left = max_bytes
        while True:
            try:
                piece = answer.raw.read1(READ_BYTES)
            except HTTPError as error:
                raise BrokenError(error_text(error)) from None
            if not piece:
                return
            left -= len(piece)
            if left < 0:
                raise BundleError(
                    f"The registry sends more than the {max_bytes} bytes of '{answer.url.rpartition('/')[2]}'.",
                    "Do not use this registry before it is repaired.",
                )
            yield piece

    def location(self, answer: "Response") -> str:
        """Returns where an upload goes on; raises MissingError where that would send it in the clear."""
        found: str = urljoin(answer.url, answer.headers.get("Location", ""))
        if urlsplit(found).scheme == "http" and not self._plain:
            raise MissingError(
                f"The registry '{self.reference.host}' asks for an upload without TLS.",
                "Correct the address that the registry has of itself, or push with --plain-http.",
            )
        return found

    def is_own(self, url: str) -> bool:
        """Whether a URL is of the registry's own host, and may get its login."""
        try:
            return not self._oras.session.should_strip_auth(self._base, url)
        except ValueError:  # the library refuses such a URL later, with an error of its own
            return False

    def _connect(self) -> "Registry":
        import oras.provider

        logging.getLogger("oras").disabled = True  # its colours and levels are its own; errors are raised here
        host = self.reference.host
        found = self._session(oras.provider.Registry(host, insecure=self._plain))
        challenge = found.session.get(f"{self._base}/").headers.get("WWW-Authenticate", "")
        if challenge.lower().startswith("basic"):
            found = self._session(oras.provider.Registry(host, insecure=self._plain, auth_backend="basic"))
        found.auth.load_configs(found.get_container(f"{host}/{self.reference.repository}"))
        if challenge.lower().startswith("basic") and not getattr(found.auth, "_basic_auth", None):
            raise self._refused()
        return found

    def _session(self, registry: "Registry") -> "Registry":
        # The library waits without an end.
        registry.session.request = partial(registry.session.request, timeout=_TIMEOUTS_S)
        # Neither a proxy nor a .netrc has to do with a registry on this device.
        registry.session.trust_env = not self.reference.is_loopback
        return registry

    def ask(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] = MappingProxyType({}),
        data: "bytes | Iterable[bytes] | None" = None,
        *,
        stream: bool = False,
    ) -> "Response":
        """Sends a request, which has the login only if it goes to the registry's own host."""
        # Without the library's own retries, which wait for two minutes and know nothing of offsets.
        request = type(self._oras).do_request.__wrapped__
        auth = self._oras.auth
        if not self.is_own(url):
            session = self._oras.session
            return session.request(method, url, data=data, headers=dict(headers), stream=stream)
        for _ in range(2):
            # The library sends a user's name only after a refusal, which a long body does not wait for.
            login = auth.get_auth_header() if hasattr(auth, "_basic_auth") and not hasattr(auth, "token") else {}
            try:
                answer = request(self._oras, url, method, data=data, headers={**headers, **login}, stream=stream)
            except ValueError as error:
                if "authentication" in str(error):
                    raise self._refused() from None
                raise
            if answer.status_code != 401 or getattr(auth, "token", None) is None:
                break
            auth.token = None  # a token to read, or an old one: the library keeps it
        found: Response = answer
        return found

    def check(self, answer: "Response", what: str) -> None:
        """Raises an error for an answer that is not what was asked for."""
        status = answer.status_code
        if status in _OK:
            return
        if status in {408, 429} or (status >= 500 and status != HTTPStatus.NOT_IMPLEMENTED):
            raise BrokenError(f"it answers {status} {answer.reason}")
        if status in {401, 403}:
            raise self._refused()
        host = self.reference.host
        if status == 404:
            raise MissingError(
                f"The registry '{host}' has no {what}.",
                "Check the address, the repository and the tag, and whether it was pushed.",
            )
        raise MissingError(
            f"The registry '{host}' answers {status} {printable(answer.reason or '')}.",
            "Check the address, and the registry's log.",
        )

    def _refused(self) -> MissingError:
        return MissingError(
            f"The registry '{self.reference.host}' refuses access to '{self.reference.repository}'.",
            f"Log in with: docker login {self.reference.host} (or podman login --authfile ~/.docker/config.json).",
        )

    def retried(self, work: Callable[[], _Result], progress: Callable[[], int] = lambda: 0) -> _Result:
        """Repeats the work until it succeeds; raises MissingError after several failures without progress."""
        from requests.exceptions import RequestException, SSLError

        failures, known = 0, 0
        while True:
            try:
                return work()
            except EdgeoptError:
                raise
            except (RequestException, BrokenError) as error:
                # A connection that is cut off while something is sent is an SSLError too.
                cut_off = any(isinstance(each, SSLEOFError) for each in _causes(error))
                if isinstance(error, SSLError) and not cut_off:
                    raise MissingError(
                        f"The registry '{self.reference.host}' cannot be reached with TLS: {error_text(error)}.",
                        "Check its certificate; a registry without TLS on another machine needs --plain-http.",
                    ) from None
                failures += 1
                why = _cause(error)
            try:
                now = progress()
            except (RequestException, BrokenError):
                now = known
            if now != known:
                failures, known = 1, now
            if failures >= _MAX_FAILURES:
                raise MissingError(
                    f"The registry '{self.reference.host}' cannot be reached or ended the connection: {why}.",
                    "Run the same command again: what has arrived is kept."
                    if hasattr(self, "_oras")
                    else "Check the address, and whether the registry runs.",
                )
            time.sleep(min(_MAX_RETRY_S, _RETRY_S * 2 ** (failures - 1)))


def _cause(error: BaseException) -> str:
    """Returns the error of the operating system behind one of a library, or the text of the library."""
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        if isinstance(cause, RemoteDisconnected):  # the libraries around it show it as Python code
            return str(cause)
    return error_text(error)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        wrapped = next((each for each in error.args if isinstance(each, BaseException)), None)
        error = error.__cause__ or error.__context__ or wrapped


def digest_of(content: bytes | Path) -> str:
    if isinstance(content, bytes):
        return f"sha256:{hashlib.sha256(content).hexdigest()}"
    with content.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
