"""A server in front of a registry: it passes on complete requests only, or takes uploads itself, byte by byte."""

import hashlib
import http.client
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


class FrontServer:
    """Passes requests on as nginx does by default: one that breaks off never reaches the registry.

    `takes_uploads`: it keeps the chunks itself, as the specification has it, and the registry gets the whole blob.
    `quirk`: what it does differently then. `login` is the one with which it gives blobs to the registry.
    """

    def __init__(self, registry, takes_uploads=False, quirk="", login="", tls=None):
        self.registry, self.takes_uploads, self.quirk, self.login = registry, takes_uploads, quirk, login
        self.uploads = {}
        self.requests = []
        """Method, path, size of the body and Authorization of each request."""
        self.elsewhere = ""
        """Address of another server for uploads."""
        self.tls = tls is not None
        front = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self):
                try:
                    super().handle_one_request()
                except OSError:
                    self.close_connection = True

            def __getattr__(self, name):
                if name.startswith("do_"):
                    return lambda: front.answer(self)
                raise AttributeError(name)

            def log_message(self, *_):
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def port(self):
        return self._server.server_address[1]

    @property
    def host(self):
        return f"127.0.0.1:{self.port}"

    def answer(self, handler):
        size = int(handler.headers.get("Content-Length", 0))
        path = urlsplit(handler.path).path
        self.requests.append((handler.command, path, size, handler.headers.get("Authorization")))
        if self.takes_uploads and "/blobs/uploads/" in path:
            status, headers = self._upload(handler, path, size)
            body = b""
        else:
            body = handler.rfile.read(size)
            if len(body) < size:
                handler.close_connection = True
                return
            more = {"X-Forwarded-Proto": "https"} if self.tls else {}
            status, headers, body = self._pass_on(handler.command, handler.path, body, {**handler.headers, **more})
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    def _pass_on(self, method, path, body, headers):
        link = http.client.HTTPConnection("127.0.0.1", self.registry.port)
        link.request(method, path, body, headers)
        answer = link.getresponse()
        found = answer.status, dict(answer.getheaders()), answer.read()
        link.close()
        return found

    def _upload(self, handler, path, size):
        if handler.command == "POST":
            name = f"{path}{len(self.uploads)}"
            self.uploads[name] = bytearray()
            least = {"OCI-Chunk-Min-Length": "150000"} if self.quirk == "least" else {}
            own = "" if self.quirk == "redirect" else self.elsewhere
            return 202, {"Location": own + name, "Range": "0-0", **least}
        if self.quirk == "redirect":
            handler.rfile.read(size)
            return 307, {"Location": self.elsewhere + handler.path}
        content = self.uploads.setdefault(path, bytearray()) if self.login else self.uploads.get(path)
        if content is None:
            return self._refuse(handler, 404)
        if handler.command == "GET":
            return (405, {}) if self.quirk == "no status" else (204, self._state(path))
        if handler.command == "PATCH":
            if self.quirk == "closes":
                raise ConnectionResetError
            start, end = map(int, re.fullmatch(r"(\d+)-(\d+)", handler.headers["Content-Range"]).groups())
            if self.quirk in {"405", "416"} or start != len(content) or end - start + 1 != size:
                return self._refuse(handler, int(self.quirk) if self.quirk.isdigit() else 416)
            self._receive(handler, content, size)
            if self.quirk == "damage":
                content[0] ^= 1
            return 202, {} if self.quirk == "no range" else self._state(path)
        self._receive(handler, content, size)
        digest = parse_qs(urlsplit(handler.path).query)["digest"][0]
        if digest != f"sha256:{hashlib.sha256(content).hexdigest()}":
            return 400, {}
        del self.uploads[path]
        login = {"Authorization": self.login} if self.login else {}
        _, headers, _ = self._pass_on("POST", path.rpartition("/")[0] + "/", b"", login)
        status, _, _ = self._pass_on("PUT", f"{headers['Location']}&digest={digest}", bytes(content), login)
        return status, {}

    def _state(self, path):
        arrived = min(len(self.uploads[path]), 50_000 if self.quirk == "stuck" else 1 << 40)
        return {"Location": self.elsewhere + path, "Range": f"0-{max(arrived - 1, 0)}"}

    @staticmethod
    def _receive(handler, content, size):
        while size and (piece := handler.rfile.read1(min(size, 4096))):
            content += piece
            size -= len(piece)
        if size:
            raise ConnectionResetError

    @staticmethod
    def _refuse(handler, status):
        handler.close_connection = True
        handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        return status, {}

    def close(self):
        self._server.shutdown()
        self._server.server_close()
