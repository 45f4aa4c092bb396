"""A real HTTP server on loopback that serves one file, as badly as a test wants."""

import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FileServer:
    def __init__(self, content, tls=None):
        self.content = content
        self.requests = []
        """Path and Range of each request."""
        self.sent = []
        """How many bytes of the file each answer had."""
        self.plans = []
        """What each of the next answers does: keywords of `reply`; later ones are plain."""
        self.ranges = True
        self.etag = True
        self.closing = threading.Event()
        served = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                served.requests.append((self.path, self.headers.get("Range")))
                plan = served.plans.pop(0) if served.plans else {}
                served.reply(self, **plan)

            def log_message(self, *_):
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._scheme = "http" if tls is None else "https"
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def prefix(self):
        return f"{self._scheme}://127.0.0.1:{self.port}/bundles/"

    @property
    def url(self):
        return f"{self.prefix}model.edgeopt"

    def reply(
        self,
        handler,
        *,
        status=200,
        to="",
        cut=None,
        hold=None,
        shift=0,
        announce=None,
        then=None,
        chunked=False,
        surplus=0,
    ):
        """`cut`: bytes before the connection ends; `hold`: bytes before it falls silent; `then`: called after it.

        `shift`: how far the range that is told is from the one that is sent.
        `surplus`: how many bytes follow those of the file.
        `announce`: the length that is announced; None leaves the true one, -1 none at all.
        """
        content, start = self.content, 0
        asked = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range") or "")
        tag = f'"{hash(content)}"'
        same = handler.headers.get("If-Range") in {None, tag}
        if status == 200 and asked and self.ranges and same:
            start = int(asked[1])
            status = 206 if start < len(content) else 416
        body = content[start:] + bytes(surplus) if status in {200, 206} else b""
        handler.send_response(status)
        if to:
            handler.send_header("Location", to)
        if self.etag:
            handler.send_header("ETag", tag)
        if status == 206:
            handler.send_header("Content-Range", f"bytes {start + shift}-{len(content) - 1}/{len(content)}")
        if chunked:
            handler.send_header("Transfer-Encoding", "chunked")
        elif announce != -1:
            handler.send_header("Content-Length", str(len(body) if announce is None else announce))
        handler.end_headers()
        handler.close_connection = True
        part = body[: len(body) if cut is None and hold is None else cut if hold is None else hold]
        try:
            handler.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(part), part) if chunked else part)
        except OSError:
            return
        finally:
            self.sent.append(len(part))
        if then is not None:
            then()
        if hold is not None:
            self.closing.wait(60)

    def close(self):
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
