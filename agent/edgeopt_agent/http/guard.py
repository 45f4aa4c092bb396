"""Limits that uvicorn's protocols lack: connections, pipelined requests, large or slow heads, slow readers."""

import asyncio
import logging
from collections.abc import Callable
from typing import cast
from urllib.parse import unquote

from httptools import parse_url
from uvicorn import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from edgeopt_agent.http.connections import MAX_VIEWERS, admit, reserved_only
from edgeopt_agent.http.cycle import Cycle
from edgeopt_agent.http.early import RateLimit, crowded, malformed
from edgeopt_agent.http.plain import App

logger = logging.getLogger(__name__)
logger.addFilter(RateLimit())

HEAD_TIMEOUT_S = 10.0
MAX_HEAD_BYTES = 64 << 10
MAX_PIPELINED = 8
READ_TIMEOUT_S = 30.0
"""A client that reads nothing of its answer for this time is disconnected: the answer waits in memory."""
# So few bytes hold few requests, and the parser is only given more when those wait for nobody.
_PARSED_BYTES = 1024
_SEARCHED_BYTES = 64 << 10
_END_OF_HEAD = b"\r\n\r\n"


def guarded(
    config: Config, state: ServerState, headers: Callable[[], list[tuple[bytes, bytes]]]
) -> Callable[[], asyncio.Protocol]:
    """Makes one protocol a connection; every answer gets these headers."""
    return lambda: GuardedProtocol(config, state, headers)


class GuardedProtocol(HttpToolsProtocol):
    def __init__(
        self, config: Config, state: ServerState, headers: Callable[[], list[tuple[bytes, bytes]]]
    ) -> None:
        super().__init__(config=config, server_state=state, app_state={})
        self.logger = logger
        self.reserved = False
        """Whether it is one of those that are kept for control and health."""
        self._default_headers = headers
        self.url = b""
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._read_timer: asyncio.TimerHandle | None = None
        self._since_s = self.loop.time()
        self._body_left = 0
        """Number of bytes to come that can only be the current request's body."""
        self._unparsed = memoryview(b"")

    @property
    def idle_since_s(self) -> float | None:
        """Since when no request is in flight; None while one is."""
        busy = self.cycle is not None and not self.cycle.response_complete
        return None if busy else self._since_s

    def reserve(self) -> None:
        """Keeps this connection to control and health."""
        self.reserved = True
        self.app = reserved_only(cast(App, self.app))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, transport))
        self.flow = _HeldFlow(self.transport)
        others = [each for each in self.connections if isinstance(each, GuardedProtocol) and each is not self]
        websockets = len(self.connections) - 1 - len(others)
        if not admit(self, others, websockets, self.loop.time()):
            self.transport.abort()
            return
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_there()
        self._is_read()
        self._unparsed = memoryview(b"")
        self.pipeline.clear()
        super().connection_lost(exc)
        super()._unset_keepalive_if_required()

    def _unset_keepalive_if_required(self) -> None:
        """Keeps the timer, which checks when it expires: making a new one takes longer than a request."""

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reader()

    def resume_writing(self) -> None:
        self._is_read()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        alone = not self._unparsed and not self.pipeline and len(data) <= _SEARCHED_BYTES
        if alone and data.count(_END_OF_HEAD) <= 1:
            if not self._is_gone():
                self._parse_piece(data)  # of one request at most
            return
        self._unparsed = memoryview(bytes(self._unparsed) + data if self._unparsed else data)
        self._parse()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's signature
        self.transport.write(malformed(self.url or b"", self._default_headers()))
        self.transport.close()

    def handle_websocket_upgrade(self) -> None:
        viewers = sum(not isinstance(each, GuardedProtocol) for each in self.connections)
        if self.reserved or viewers >= MAX_VIEWERS:
            # It would stay, and take its place from requests.
            self.transport.write(crowded(self._default_headers()))
            self.transport.close()
            return
        super().handle_websocket_upgrade()

    def on_headers_complete(self) -> None:
        self._body_left = 0
        for name, value in self.headers:
            if name == b"content-length" and value.isdigit():
                self._body_left = int(value)
        scope, version = self.scope, self.parser.get_http_version()
        scope["method"] = self.parser.get_method().decode("ascii")
        scope["http_version"] = version
        if self.parser.should_upgrade() and self._should_upgrade():
            return
        url = parse_url(self.url)
        path = url.path.decode("ascii")
        scope["path"] = unquote(path) if "%" in path else path
        scope["raw_path"] = url.path
        scope["query_string"] = url.query or b""
        before = self.cycle
        self.cycle = Cycle(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=version != "1.0" and self.parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        if before is None or before.response_complete:
            self._start_asgi_task(self.cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))

    def on_body(self, body: bytes) -> None:
        self._body_left = max(0, self._body_left - len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._body_left = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self._since_s = self.loop.time()
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self.timeout_keep_alive_task is None:
            self._await_request(self.timeout_keep_alive)
        if self._unparsed:
            # Later, because the parser may be what led here.
            self.loop.call_soon(self._parse)

    def timeout_keep_alive_handler(self) -> None:
        if self._is_gone():
            return
        since_s, limit_s = self.idle_since_s, self.timeout_keep_alive
        # One whose head is on its way has a time limit for that.
        left_s = limit_s if since_s is None or self._head_timer else since_s + limit_s - self.loop.time()
        if left_s > 0:
            self._await_request(left_s)
        else:
            self.transport.close()

    def _await_request(self, within_s: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(within_s, self.timeout_keep_alive_handler)

    def _parse(self) -> None:
        """Gives the parser what has come, but no more requests than may wait; until then reading pauses."""
        while self._unparsed and not self._is_gone():
            if len(self.pipeline) >= MAX_PIPELINED:
                break
            size = max(_PARSED_BYTES, self._body_left)
            piece, self._unparsed = self._unparsed[:size], self._unparsed[size:]
            self._parse_piece(piece)
        if self._is_gone():
            self._unparsed = memoryview(b"")
            return
        flow = cast(_HeldFlow, self.flow)
        flow.hold(held=bool(self._unparsed))

    def _is_gone(self) -> bool:
        return self.parser is None or self.transport.is_closing() or self.transport.get_protocol() is not self

    def _parse_piece(self, data: bytes | memoryview) -> None:
        self.server_state.default_headers = self._default_headers()
        before = self.cycle
        super().data_received(cast(bytes, data))  # any buffer will do
        if self.transport.is_closing() or self.transport.get_protocol() is not self:
            self._head_is_there()
        elif self.cycle is not before or not (before is None or before.response_complete):
            # A request's head is complete; its body has a time limit of its own.
            self._head_bytes = 0
            self._head_is_there()
        else:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self.transport.abort()
            elif self._head_timer is None:
                self._await_head()

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self.transport.abort)

    def _await_reader(self) -> None:
        unread_bytes = self.transport.get_write_buffer_size()
        self._read_timer = self.loop.call_later(READ_TIMEOUT_S, self._look_at_reader, unread_bytes)

    def _look_at_reader(self, unread_bytes: int) -> None:
        if self.transport.get_write_buffer_size() < unread_bytes:
            self._await_reader()
        else:
            self.transport.abort()

    def _is_read(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def _head_is_there(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


class _HeldFlow(FlowControl):
    """Reading stays paused while requests wait to be parsed, even if other code resumes it."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self._held = False

    def hold(self, *, held: bool) -> None:
        if held:
            self.pause_reading()
        elif self._held:
            self._held = False
            self.resume_reading()
        self._held = held

    def resume_reading(self) -> None:
        if not self._held:
            super().resume_reading()
