"""A real registry on loopback, and a TCP proxy in front of it that closes its connections."""

import contextlib
import shutil
import socket
import subprocess
import threading

import pytest

from tests.broker import DEADLINE_S
from tests.ports import free_port
from tests.processes import wait_listening

BINARY = shutil.which("docker-registry")


class RegistryServer:
    def __init__(self, folder, access=""):
        self.port = free_port()
        self.storage = folder / "storage"
        config, log = folder / "config.yml", folder / "registry.log"
        config.write_text(
            f"version: 0.1\nlog: {{level: warn}}\nstorage: {{filesystem: {{rootdirectory: '{self.storage}'}}}}\n"
            f"http: {{addr: '127.0.0.1:{self.port}'}}\n{access}"
        )
        with log.open("a") as out:
            self._process = subprocess.Popen([BINARY, "serve", str(config)], stdout=out, stderr=out)
        wait_listening(self._process, self.port, log, DEADLINE_S)

    @property
    def host(self):
        return f"127.0.0.1:{self.port}"

    def blob(self, digest):
        """The file of a blob, to damage it."""
        digits = digest.removeprefix("sha256:")
        return self.storage / "docker/registry/v2/blobs/sha256" / digits[:2] / digits / "data"

    def stop(self):
        self._process.kill()
        self._process.wait(DEADLINE_S)


class CuttingProxy:
    """Passes bytes on, and closes a connection once it has passed `cuts[0]` bytes; then the next cut counts."""

    def __init__(self, port):
        self._target = port
        self.cuts = []
        self.up_bytes = self.down_bytes = self.closed = 0
        """Bytes to the registry and from it, and connections that were cut."""
        self._lock = threading.Lock()
        self._left = None
        self._up_only = False
        self._server = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def host(self):
        return f"127.0.0.1:{self._server.getsockname()[1]}"

    def cut_every(self, count, times, up_only=False):
        """Cuts so many times, each after this number of bytes; `up_only`: of those to the registry."""
        with self._lock:
            self.cuts = [count] * times
            self._up_only = up_only
            self._left = None

    def _accept(self):
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            for ends in ((client, server, True), (server, client, False)):
                threading.Thread(target=self._pass, args=ends, daemon=True).start()

    def _pass(self, source, target, up):
        try:
            while piece := source.recv(4096):
                allowed, cut = self._allowed(len(piece), up)
                target.sendall(piece[:allowed])
                if cut:
                    break
        except OSError:
            pass
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _allowed(self, size, up):
        with self._lock:
            if self._left is None and self.cuts:
                self._left = self.cuts.pop(0)
            counts = self._left is not None and (up or not self._up_only)
            cut = counts and size >= self._left
            allowed = self._left if cut else size
            if counts:
                self._left = None if cut else self._left - size
            self.closed += cut
            if up:
                self.up_bytes += allowed
            else:
                self.down_bytes += allowed
            return allowed, cut

    def close(self):
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()


@pytest.fixture(scope="session")
def docker_registry():
    if BINARY is None:
        pytest.skip("docker-registry is not installed: sh packaging/system-packages.sh tests")


@pytest.fixture(scope="session")
def registry(docker_registry, tmp_path_factory):
    """One for all tests; each has repositories of its own."""
    running = RegistryServer(tmp_path_factory.mktemp("registry"))
    yield running
    running.stop()


@pytest.fixture
def proxy(registry):
    running = CuttingProxy(registry.port)
    yield running
    running.close()
