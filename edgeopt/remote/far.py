"""The program that runs on a device reached over SSH: one session, one measurement at a time.

Its text is sent to the Python there, so it imports only the standard library. It reads requests from its standard
input, one JSON object a line, some followed by bytes, and answers in the same way; lines that begin with ">" come
from the command that it runs. When its input ends or falls silent, the session is over: it ends the command and
removes the folder of the run. It leaves only the caches: code, environments, and files by their digest.
"""

import contextlib
import ctypes
import fcntl
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

SILENCE_S = 60.0
"""The other side says something every few seconds, so that a lost network is noticed here too."""
UNUSED_S = 30 * 86400.0
"""What nothing has used for that long is removed."""
GRACE_S = 10.0
"""The time that a command has to clean up."""
_CHUNK_BYTES = 1 << 20
_TERMINATE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
Message = dict[str, Any]


class GoneError(Exception):
    """The other side ended the session, or is not there any more."""


class RefusedError(Exception):
    """A request that cannot be met: `code` says why, for the other side to put into words."""

    def __init__(self, code: str, **facts: object) -> None:
        super().__init__(code)
        self.answer = {"refused": code, **facts}


class Channel:
    """Both directions; answers may come from several threads."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._writing = threading.Lock()

    def _fill(self) -> None:
        if not select.select([0], [], [], SILENCE_S)[0]:
            raise GoneError
        chunk = os.read(0, _CHUNK_BYTES)
        if not chunk:
            raise GoneError
        self._pending += chunk

    def receive(self) -> Message:
        while (end := self._pending.find(b"\n")) < 0:
            self._fill()
        line = bytes(self._pending[:end])
        del self._pending[: end + 1]
        message: Message = json.loads(line)
        return message

    def copy(self, count: int, take: Callable[[bytes], object]) -> None:
        while count:
            if not self._pending:
                self._fill()
            piece = bytes(self._pending[:count])
            del self._pending[: len(piece)]
            take(piece)
            count -= len(piece)

    def send(self, message: Message) -> None:
        self.send_bytes(json.dumps(message).encode() + b"\n")

    def send_bytes(self, data: bytes) -> None:
        rest = memoryview(data)
        with self._writing:
            try:
                while rest:
                    rest = rest[os.write(1, rest) :]
            except OSError:
                raise GoneError from None


class Session:
    def __init__(self, channel: Channel, folder: Path) -> None:
        self.channel = channel
        self.folder = folder
        self.run: Path | None = None
        self._lock: BinaryIO | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def serve(self) -> None:
        work: dict[str, Callable[[Message], None]]
        work = {"begin": self.begin, "have": self.have, "put": self.put, "install": self.install}
        work |= {"run": self.start, "interrupt": self.interrupt, "get": self.get, "alive": lambda _: None}
        while True:
            message = self.channel.receive()
            try:
                work[message["do"]](message)
            except RefusedError as refused:
                self.channel.send(refused.answer)
            except OSError as error:
                self.channel.send({"refused": "system", "words": str(error)})

    def begin(self, message: Message) -> None:
        """Takes the device for one run; an earlier run that could not clean up is removed."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = (self.folder / "lock").open("a+b")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            with contextlib.suppress(ValueError):
                raise RefusedError("busy", **json.loads(lock.read())) from None
            raise RefusedError("busy") from None
        lock.truncate(0)
        lock.write(json.dumps({**message["owner"], "since": time.time()}).encode())
        lock.flush()
        self._lock = lock
        runs = self.folder / "runs"
        shutil.rmtree(runs, ignore_errors=True)
        for name in ("blobs", "code", "python"):
            (self.folder / name).mkdir(exist_ok=True)
            for old in (self.folder / name).iterdir():
                if old.name.startswith(".") or time.time() - old.stat().st_mtime > UNUSED_S:
                    _remove(old)
        self.run = runs / message["run"]
        for part in ("in", "out", "tmp"):
            (self.run / part).mkdir(parents=True)
        self.channel.send({"begun": True, "free": shutil.disk_usage(self.folder).free})

    def have(self, message: Message) -> None:
        missing = []
        for digest in message["digests"]:
            try:
                os.utime(self._blob(digest))
            except OSError:
                missing.append(digest)
        self.channel.send({"missing": missing})

    def put(self, message: Message) -> None:
        target = self._blob(message["digest"])
        partial = target.with_name(f".{target.name}")
        found, failed = hashlib.sha256(), None
        try:
            with partial.open("wb") as file:

                def take(piece: bytes) -> None:
                    nonlocal failed
                    found.update(piece)
                    try:
                        failed or file.write(piece)
                    except OSError as error:  # the rest has to be read anyway
                        failed = str(error)

                self.channel.copy(message["bytes"], take)
            if failed:
                raise RefusedError("system", words=failed)
            if found.hexdigest() != message["digest"]:
                raise RefusedError("digest")
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
        self.channel.send({"put": True})

    def install(self, message: Message) -> None:
        """Unpacks edgeopt once a version, and finds or makes a Python that has the packages it needs."""
        code = self.folder / "code" / message["name"]
        if not code.exists():
            partial = code.with_name(f".{code.name}")
            with zipfile.ZipFile(self._blob(message["code"])) as packed:
                packed.extractall(partial)
            partial.rename(code)
        os.utime(code)
        lacking = [each for each in message["requirements"] if not _installed(each)]
        python = self._environment(message["requirements"]) if lacking else sys.executable
        self.channel.send({"installed": str(code), "python": python, "made": lacking})

    def _environment(self, requirements: list[str]) -> str:
        text = "\n".join([platform.python_version(), sys.executable, *requirements])
        folder = self.folder / "python" / hashlib.sha256(text.encode()).hexdigest()[:16]
        python, complete = folder / "bin" / "python", folder / "complete"
        if not complete.exists():
            shutil.rmtree(folder, ignore_errors=True)
            self._installing([sys.executable, "-m", "venv", str(folder)], "venv")
            pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar=off"]
            self._installing([*pip, *requirements], "pip")
            complete.touch()
        os.utime(folder)
        return str(python)

    def _installing(self, command: list[str], what: str) -> None:
        said: list[str] = []
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_end_with_parent,  # noqa: PLW1509 - no thread runs yet
        )
        assert self._process.stdout is not None  # noqa: S101 - it was opened as a pipe
        for line in self._process.stdout:
            said.append(line.decode(errors="replace").strip())
            self.channel.send({"installing": said[-1]})
        code = self._process.wait()
        self._process = None
        if code:
            raise RefusedError(what, words=next((s for s in reversed(said) if "ERROR" in s.upper()), said[-1:]))

    def start(self, message: Message) -> None:
        """Starts the command; its lines are passed on until it has ended."""
        assert self.run is not None  # noqa: S101 - a run has begun
        for digest, relative in message["files"]:
            target = self.run / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self._blob(digest), target)
        environment = {
            **os.environ,
            "PYTHONPATH": message["code"],
            "TMPDIR": str(self.run / "tmp"),
            "EDGEOPT_CACHE": str(self.folder / "cache"),
            **message["environment"],
        }
        with (self.run / "stderr").open("wb") as errors:
            self._process = subprocess.Popen(
                [message["python"], "-m", "edgeopt", *message["arguments"]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=self.run / "out",
                env=environment,
                start_new_session=True,
                preexec_fn=_end_with_parent,  # noqa: PLW1509 - no thread runs yet
            )
        threading.Thread(target=self._relay, args=(self._process, self.run), daemon=True).start()

    def _relay(self, process: "subprocess.Popen[bytes]", run: Path) -> None:
        assert process.stdout is not None  # noqa: S101 - it was opened as a pipe
        with contextlib.suppress(GoneError):
            for line in process.stdout:
                self.channel.send_bytes(b">" + line)
            code = process.wait()
            words = (run / "stderr").read_bytes()[-2000:].decode(errors="replace")
            self.channel.send({"ended": code, "words": words})

    def interrupt(self, _: Message) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def get(self, message: Message) -> None:
        """All files below a path of the run, or the file that it is."""
        assert self.run is not None  # noqa: S101 - a run has begun
        root = self.run / message["path"]
        paths = [root] if root.is_file() else sorted(path for path in root.rglob("*") if path.is_file())
        listed = []
        for path in paths:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            inside = "" if path == root else path.relative_to(root).as_posix()
            listed.append((inside, path.stat().st_size, digest))
        self.channel.send({"files": listed})
        for path in paths:
            with path.open("rb") as file:
                while chunk := file.read(_CHUNK_BYTES):
                    self.channel.send_bytes(chunk)

    def close(self) -> None:
        process = self._process
        if process is not None:
            if process.poll() is None:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(GRACE_S)
            with contextlib.suppress(OSError):  # what it left running
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if self.run is not None:
            shutil.rmtree(self.run.parent, ignore_errors=True)
        if self._lock is not None:
            self._lock.truncate(0)
            self._lock.close()

    def _blob(self, digest: str) -> Path:
        return self.folder / "blobs" / digest


def _installed(requirement: str) -> bool:
    """Also so where another package has the module, as onnxruntime-gpu has that of onnxruntime."""
    name, least = re.fullmatch(r"([\w.-]+)(?:\[.*\])?(?:[^>]*>=\s*([\d.]+))?.*", requirement).groups()  # type: ignore[union-attr] # each has a name
    try:
        found = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return importlib.util.find_spec(name.replace("-", "_")) is not None
    return _numbers(found) >= _numbers(least or "0")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _end_with_parent() -> None:
    """A command ends with this program, even where that is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_TERMINATE_WITH_PARENT, signal.SIGTERM)


def main() -> None:
    def end(*_: object) -> None:
        raise GoneError

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, end)
    channel = Channel()
    channel.send({"edgeopt": 1, "python": platform.python_version(), "home": str(Path.home()), "os": sys.platform})
    session = None
    try:
        folder = Path(channel.receive()["folder"]).expanduser()
        session = Session(channel, folder)
        channel.send({"folder": str(folder)})
        session.serve()
    except GoneError:
        pass
    finally:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)  # the clean-up must not be interrupted
        if session is not None:
            session.close()


if __name__ == "__main__":
    main()
