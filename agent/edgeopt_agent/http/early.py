"""Errors before a request reaches the application: answered as JSON, logged without a line for each."""

import logging
import time

import msgspec

LOG_INTERVAL_S = 10.0
_MAX_TEXTS = 64


def malformed(url: bytes, headers: list[tuple[bytes, bytes]]) -> bytes:
    """Returns the answer to a malformed request, in the form of its route as far as that was read."""
    sentence = "The request is not valid HTTP."
    error: object = sentence
    if not url.startswith(b"/v2"):
        error = {"code": "bad-http", "message": sentence, "hint": "Speak HTTP/1.1, without TLS."}
    return _answer(b"400 Bad Request", error, headers)


def crowded(headers: list[tuple[bytes, bytes]]) -> bytes:
    """Returns the answer to a viewer of the telemetry for whom there is no connection left."""
    sentence = "Too many connections are open."
    error = {"code": "too-many-connections", "message": sentence, "hint": "Close some, or try again in a moment."}
    return _answer(b"503 Service Unavailable", error, [*headers, (b"retry-after", b"1")])


def _answer(status: bytes, error: object, headers: list[tuple[bytes, bytes]]) -> bytes:
    body = msgspec.json.encode({"error": error})
    fields = [
        *headers,
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
    ]
    head = b"".join(b"%s: %s\r\n" % field for field in fields)
    return b"HTTP/1.1 " + status + b"\r\n" + head + b"\r\n" + body


class RateLimit(logging.Filter):
    """Lets a warning pass once an interval, with the number of those that were left out; errors always."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno >= logging.ERROR:
            return True
        now = time.monotonic()
        since_s, left_out = self._seen.get(record.msg, (-LOG_INTERVAL_S, 0))
        if now - since_s < LOG_INTERVAL_S:
            self._seen[record.msg] = (since_s, left_out + 1)
            return False
        if len(self._seen) >= _MAX_TEXTS:
            self._seen.clear()
        self._seen[record.msg] = (now, 0)
        if left_out:
            record.msg = f"{record.msg} ({left_out} more like this since the last line)"
        return True
