"""Upload of a file in chunks, which continues after a broken connection, also in the next run of the command.

https://github.com/opencontainers/distribution-spec/blob/main/spec.md#pushing-a-blob-in-chunks
"""

import contextlib
import io
import logging
import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import urlsplit

from edgeopt.errors import MissingError
from edgeopt.platform.user_folders import put, user_cache_folder
from edgeopt.registry.client import READ_BYTES, BrokenError, OnBytes, RegistryClient
from edgeopt.registry.documents import Descriptor

if TYPE_CHECKING:
    from requests import Response

_CHUNK_BYTES = 16 << 20
"""Size of a chunk: a proxy that passes on complete requests only loses as much, and S3 copies small ones."""
_MAX_TRIES = 3
"""Most attempts in chunks without a byte that arrives: some registries refuse chunks by closing the connection."""
_log = logging.getLogger(__name__)


class _NoChunksError(Exception):
    """The registry does not take a blob in chunks, or does not say how much of it has arrived."""


def send_blob(client: RegistryClient, blob: Descriptor, source: Path | bytes, on_bytes: OnBytes) -> int:
    """Uploads a blob, a small one in one request; returns how many bytes an earlier run had sent."""
    upload = _Upload(client, blob, source, on_bytes)
    client.retried(upload.attempt, lambda: upload.best)
    return upload.found


class _Upload:
    """One blob on its way, over all attempts."""

    def __init__(self, client: RegistryClient, blob: Descriptor, source: Path | bytes, on_bytes: OnBytes) -> None:
        self._client = client
        self._blob = blob
        self._source = source
        self._on_bytes = on_bytes
        self._chunk_bytes = _CHUNK_BYTES
        self._first = blob.size <= _CHUNK_BYTES
        """Whether this is the first attempt of a small blob."""
        cache = user_cache_folder()
        name = sha256(f"{client.reference.host}/{client.reference.repository}@{blob.digest}".encode()).hexdigest()
        self._memory = cache / f"upload-{name[:32]}.txt" if cache else None
        self._place = self._remembered()
        """Address of the upload in the registry; empty before there is one."""
        self._resumes = bool(self._place)
        """Whether the upload is of an earlier run, which was not looked at yet."""
        self._arrived = self._refused = self._tries = self.found = self.best = 0

    def attempt(self) -> None:
        """Sends what has not arrived; raises BrokenError where another attempt may continue."""
        first, self._first = self._first and not self._place, False
        self._tries += not self.best
        self._client.takes_chunks &= self._tries <= _MAX_TRIES
        try:
            if first or not self._client.takes_chunks:
                self._send_whole()
            elif not (self._place and self._look()):
                self._send_chunks()
        except _NoChunksError as error:
            _log.info("%s takes no chunks: %s", self._client.reference.host, error)
            self._client.takes_chunks = False
            self._send_whole()
        self._remember("")

    def _look(self) -> bool:
        """Asks how much has arrived; returns whether that is the whole blob: an answer may have been lost."""
        resumes, self._resumes = self._resumes, False
        try:
            with self._client.ask("GET", self._place) as answer:
                if answer.status_code in {404, 410}:
                    self._place, self.found = "", 0
                    return self._client.has_blob(self._blob.digest)
                self._go_on(answer, 0, self._blob.size)
        except (MissingError, _NoChunksError):
            self._remember("")  # so that it cannot stop the next run too
            raise
        if resumes:
            self.found = self._arrived
            self._on_bytes(self.found)
        return False

    def _start(self) -> str:
        with self._client.ask("POST", self._client.uploads) as answer:
            self._client.check(answer, str(self._client.reference))
            least = re.fullmatch(r"\d{1,15}", answer.headers.get("OCI-Chunk-Min-Length", ""))
            self._chunk_bytes = max(_CHUNK_BYTES, int(least[0]) if least else 0)
            self._arrived = self.found = 0
            return self._client.location(answer)

    def _send_chunks(self) -> None:
        self._place = self._place or self._start()
        while (start := self._arrived) < self._blob.size:
            end = min(start + self._chunk_bytes, self._blob.size)
            with self._send("PATCH", self._place, start, end) as answer:
                if answer.status_code in {404, 416} and start > self._refused:
                    self._refused = start  # the end of a broken request may reach the registry after the question
                    raise BrokenError(f"it answers {answer.status_code} {answer.reason}")
                self._go_on(answer, start + 1, end)
        with self._client.ask("PUT", self._closing(self._place)) as answer:
            self._accept(answer)

    def _send_whole(self) -> None:
        with self._send("PUT", self._closing(self._start()), 0, self._blob.size) as answer:
            self._client.check(answer, str(self._client.reference))

    def _send(self, method: str, place: str, start: int, end: int) -> "Response":
        headers = {"Content-Type": "application/octet-stream"}
        if method == "PATCH":
            headers["Content-Range"] = f"{start}-{end - 1}"
        with io.BytesIO(self._source) if isinstance(self._source, bytes) else self._source.open("rb") as file:
            return self._client.ask(method, place, headers, _Part(file, start, end, self._on_bytes))

    def _closing(self, place: str) -> str:
        return f"{place}{'&' if urlsplit(place).query else '?'}digest={self._blob.digest}"

    def _accept(self, answer: "Response") -> None:
        """Raises _NoChunksError for an answer that is neither a success nor a reason to try again or to log in."""
        try:
            self._client.check(answer, str(self._client.reference))
        except MissingError:
            if answer.status_code in {401, 403}:
                raise
            raise _NoChunksError(f"{answer.status_code} {answer.reason}") from None

    def _go_on(self, answer: "Response", least: int, most: int) -> None:
        """Takes over from an answer how much has arrived, and the address for the rest."""
        self._accept(answer)
        found = re.fullmatch(r"(?:bytes=)?0-(\d{1,15})", answer.headers.get("Range", ""))
        last = int(found[1]) if found else -1
        arrived = last + 1 if last else 0  # 0-0 is what registries say of no bytes
        if found is None or not least <= arrived <= most:
            raise _NoChunksError(f"Range '{answer.headers.get('Range', '')}' after {most} bytes")
        self._arrived, self.best = arrived, max(self.best, arrived)
        if "Location" in answer.headers:
            self._place = self._client.location(answer)
        if arrived:
            self._remember(self._place if self._client.is_own(self._place) else "")

    def _remembered(self) -> str:
        try:
            place = self._memory.read_text("ascii") if self._memory else ""
        except (OSError, UnicodeDecodeError):
            return ""
        return place if self._client.is_own(place) else ""

    def _remember(self, place: str) -> None:
        if self._memory and place:
            put(self._memory, place.encode())  # without it, another run sends the file from its begin
        elif self._memory:
            with contextlib.suppress(OSError):  # most often there is none
                self._memory.unlink()


class _Part:
    """A part of a file as the body of a request, which may be sent again; reports the bytes read."""

    def __init__(self, file: BinaryIO, start: int, end: int, on_bytes: OnBytes) -> None:
        self._file = file
        self._start = start
        self._end = end
        self._on_bytes = on_bytes

    def __len__(self) -> int:
        return self._end - self._start

    def __iter__(self) -> Iterator[bytes]:
        self._file.seek(self._start)
        while piece := self._file.read(min(READ_BYTES, self._end - self._file.tell())):
            yield piece
            self._on_bytes(len(piece))
