"""A real web server on loopback from which files are fetched, and to which they are written with PUT."""

import threading
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from edgeopt.fleet.rollout_bundle import read_file


class Store:
    def __init__(self):
        self.files = {}
        """By their names; each can be set by a test."""
        self.put = []
        """The names of those that were written, in their order."""
        self.statuses = []
        """What the next answers to PUT are; later ones are 201."""
        self.holding = threading.Event()
        """While it is clear, GET of `held` waits."""
        self.held = ""
        self.asked = threading.Event()
        """Set once somebody waits for `held`."""
        self.holding.set()
        self.spoils = False
        """Whether what is written is kept with a byte more."""
        store = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                name = self.path.rpartition("/")[2]
                if name == store.held:
                    store.asked.set()
                    store.holding.wait(60)
                content = store.files.get(name)
                self.answer(404 if content is None else 200, content or b"")

            def do_PUT(self):
                content = self.rfile.read(int(self.headers["Content-Length"]))
                status = store.statuses.pop(0) if store.statuses else 201
                if status == 201:
                    name = self.path.rpartition("/")[2]
                    store.files[name] = content + b"x" * store.spoils
                    store.put.append(name)
                self.answer(status)

            def answer(self, status, content=b""):
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.prefix = f"http://127.0.0.1:{self._server.server_address[1]}/store/"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def add(self, file):
        """The URL and the digest of a file that it serves from now on."""
        content = file.read_bytes()
        self.files[file.name] = content
        return f"{self.prefix}{file.name}", f"sha256:{sha256(content).hexdigest()}"

    def deployment(self, name, folder):
        """What a bundle that it has says of itself."""
        (folder / name).write_bytes(self.files[name])
        return read_file(folder / name, name)[1]

    def close(self):
        self.holding.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
