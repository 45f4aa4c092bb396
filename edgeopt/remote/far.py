"""The program that runs on the device: one session, one measurement at a time.

Over SSH its text is sent to the Python there, so it imports only the standard library; an agent runs it with
limits of its own (`edgeopt_agent/trials`). It reads requests from its standard input, one JSON object a line, some
followed by bytes, and answers in the same way; lines that begin with ">" come from the command that it runs. When
its input ends or falls silent, the session is over: it ends the command and removes the folder of the run. It
leaves only the caches: code, environments, and files by their digest.
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
import stat
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

SILENCE_S = 60.0
"""Time without a message, in seconds, after which the other side counts as lost; it sends more often."""
UNUSED_S = 30 * 86400.0
"""Time in seconds after which unused files are removed."""
GRACE_S = 10.0
"""Time that a command has to clean up, in seconds."""
LOCK_VARIABLE = "EDGEOPT_LOCK"
"""Name of the variable with the lock of this machine, instead of the usual one."""
_CHUNK_BYTES = 1 << 20
_LONGEST_LINE_BYTES = 1 << 24
_LONGEST_OWNER_BYTES = 4096
_LAST_WORDS_BYTES = 2000
# Folders in which all users may make files; the same one for all of them, so that they share the lock.
_SHARED_FOLDERS = ("/dev/shm", "/run/lock", "/tmp")  # noqa: S108 - opened so that no link is followed
_DIGEST = re.compile(r"[0-9a-f]{64}")
_RUN = re.compile(r"[0-9a-f]{1,32}")
_TERMINATE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
Message = dict[str, Any]


class GoneError(Exception):
    """End of the session by the other side, or loss of the connection."""


class RefusedError(Exception):
    """Refusal of a request: `code` says why, for the other side to put into words."""

    def __init__(self, code: str, **facts: object) -> None:
        super().__init__(code)
        self.answer = {"refused": code, **facts}


class Channel:
    """Channel to the other side; answers may come from several threads."""

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
            if len(self._pending) > _LONGEST_LINE_BYTES:
                raise GoneError
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
        self.work = folder
        """Folder of the search cache and of the run."""
        self.run: Path | None = None
        self._lock: BinaryIO | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def serve(self) -> None:
        work: dict[str, Callable[[Message], None]]
        work = {"begin": self.begin, "have": self.have, "put": self.put, "install": self.install}
        work |= {"run": self.start, "interrupt": self.interrupt, "get": self.get, "alive": lambda _: None}
        work["end"] = self.end
        while True:
            message = self.channel.receive()
            try:
                work[message["do"]](message)
            except RefusedError as refused:
                self.channel.send(refused.answer)
            except OSError as error:
                self.channel.send({"refused": "system", "words": self.error_text(error)})
            except (KeyError, TypeError, ValueError, AttributeError, AssertionError) as error:
                self.channel.send({"refused": "request", "words": self.error_text(error)})

    def error_text(self, error: Exception) -> str:
        """Returns the words for an error."""
        return str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"

    def end(self, _: Message) -> None:
        raise GoneError

    def begin(self, message: Message) -> None:
        """Reserves the device for one run, and removes an earlier run that could not clean up."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self._lock is not None or not _RUN.fullmatch(message["run"]):
            raise RefusedError("request", words="a session is one run, with a name of hexadecimal digits")
        lock = open_lock(self.folder)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            with lock, contextlib.suppress(ValueError, TypeError):
                lock.seek(0)
                raise RefusedError("busy", **json.loads(lock.read(_LONGEST_OWNER_BYTES))) from None
            raise RefusedError("busy") from None
        lock.truncate(0)
        lock.write(json.dumps({**message["owner"], "since": time.time()}).encode())
        lock.flush()
        self._lock = lock
        runs = self.work / "runs"
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
        found, failed = hashlib.sha256(), self.unfit(message["bytes"])
        try:
            with partial.open("wb") as file:

                def take(piece: bytes) -> None:
                    nonlocal failed
                    found.update(piece)
                    try:
                        failed or file.write(piece)
                    except OSError as error:  # the rest has to be read anyway
                        failed = self.error_text(error)

                self.channel.copy(message["bytes"], take)
            if failed:
                raise RefusedError("system", words=failed)
            if found.hexdigest() != message["digest"]:
                raise RefusedError("digest")
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
        self.channel.send({"put": True})

    def unfit(self, size: int) -> str | None:  # noqa: ARG002 - over SSH the account's own limits count
        """Returns why a file of this size is not stored; None if it is."""
        return None

    def install(self, message: Message) -> None:
        """Unpacks edgeopt once per version, and finds or makes a Python that has the packages it needs."""
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
        lines: list[str] = []
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
            lines.append(line.decode(errors="replace").strip())
            self.channel.send({"installing": lines[-1]})
        code = self._process.wait()
        self._process = None
        if code:
            raise RefusedError(what, words=next((s for s in reversed(lines) if "ERROR" in s.upper()), lines[-1:]))

    def start(self, message: Message) -> None:
        """Starts the command; its lines are sent on until it has ended."""
        assert self.run is not None  # noqa: S101 - a run has begun
        if self._process is not None:
            raise RefusedError("request", words="a session runs one command")
        for digest, relative in message["files"]:
            target = inside(self.run / "in", self.run / relative)
            target.parent.mkdir(parents=True, exist_ok=True)
            blob = self._blob(digest)
            if failed := self.unfit(blob.stat().st_size):
                raise RefusedError("system", words=failed)
            shutil.copyfile(blob, target)
        command, more = self.command(message)
        environment = {
            **os.environ,
            "TMPDIR": str(self.run / "tmp"),
            "EDGEOPT_CACHE": str(self.work / "cache"),
            **more,
        }
        with (self.run / "stderr").open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=self.run / "out",
                env=environment,
                start_new_session=True,
                preexec_fn=_end_with_parent,  # noqa: PLW1509 - no thread runs yet
            )
        threading.Thread(target=self._relay, args=(self._process, self.run), daemon=True).start()

    def command(self, message: Message) -> tuple[list[str], dict[str, str]]:
        """Returns the command to run, and the variables that it needs."""
        return (
            [message["python"], "-m", "edgeopt", *message["arguments"]],
            {"PYTHONPATH": message["code"], **message["environment"]},
        )

    def _relay(self, process: "subprocess.Popen[bytes]", run: Path) -> None:
        assert process.stdout is not None  # noqa: S101 - it was opened as a pipe
        with contextlib.suppress(GoneError):
            for line in process.stdout:
                self.channel.send_bytes(b">" + self.shown(line))
            code = process.wait()
            with (run / "stderr").open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST_WORDS_BYTES))
                words = self.shown(file.read()).decode(errors="replace")
            self.channel.send(self.ended(code, words))

    def shown(self, line: bytes) -> bytes:
        """Returns a line of the command as the other side reads it."""
        return line

    def ended(self, code: int, words: str) -> Message:
        """Returns the message that says how the command has ended."""
        return {"ended": code, "words": words}

    def interrupt(self, _: Message) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def get(self, message: Message) -> None:
        """Sends all files below a path of the run, or the file at that path."""
        assert self.run is not None  # noqa: S101 - a run has begun
        root = inside(self.run / "out", self.run / message["path"])
        below = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
        paths = [root] if root.is_file() else sorted(below)
        listed = []
        for path in paths:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            name = "" if path == root else path.relative_to(root).as_posix()
            listed.append((name, path.stat().st_size, digest))
        self.channel.send({"files": listed})
        for path in paths:
            with path.open("rb") as file:
                while chunk := file.read(_CHUNK_BYTES):
                    self.channel.send_bytes(chunk)

    def end_command(self) -> None:
        """Ends the command with all that it has started."""
        process = self._process
        if process is not None:
            if process.poll() is None:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(GRACE_S)
            with contextlib.suppress(OSError):  # what it left running
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def close(self) -> None:
        self.end_command()
        if self.run is not None:
            shutil.rmtree(self.run.parent, ignore_errors=True)
        if self._lock is not None:
            self._lock.truncate(0)
            self._lock.close()

    def _blob(self, digest: str) -> Path:
        if not _DIGEST.fullmatch(digest):
            raise RefusedError("request", words="a file is named by its SHA-256")
        return self.folder / "blobs" / digest


def inside(folder: Path, path: Path) -> Path:
    """Returns the path if it stays below the folder; links in it are followed first."""
    found = path.resolve()
    if not found.is_relative_to(folder.resolve()) or found == folder.resolve():
        raise RefusedError("request", words=f"'{path.name}' is not in the folder of the run")
    return found


def open_lock(folder: Path) -> BinaryIO:
    """Opens the lock of this machine, which all its users share; if there is none, that of edgeopt's folder."""
    named = os.environ.get(LOCK_VARIABLE)
    for path in [Path(named)] if named else _shared_locks():
        with contextlib.suppress(OSError):
            return _opened(path)
    return (folder / "lock").open("a+b")


def _shared_locks() -> Iterator[Path]:
    for place in _SHARED_FOLDERS:
        with contextlib.suppress(OSError):
            if Path(place).stat().st_mode & (stat.S_ISVTX | stat.S_IWOTH) == stat.S_ISVTX | stat.S_IWOTH:
                yield Path(place) / "edgeopt-measuring.lock"


def _opened(path: Path) -> BinaryIO:
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        # Not created by the same call: in a shared folder the kernel refuses that for the file of another user.
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
        os.fchmod(descriptor, 0o666)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        os.close(descriptor)
        raise OSError
    return os.fdopen(descriptor, "r+b")


def _installed(requirement: str) -> bool:
    """Whether the requirement is met, also by another package: onnxruntime-gpu has the module of onnxruntime."""
    name, minimum = re.fullmatch(r"([\w.-]+)(?:\[.*\])?(?:[^>]*>=\s*([\d.]+))?.*", requirement).groups()  # type: ignore[union-attr] # each has a name
    try:
        found = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return importlib.util.find_spec(name.replace("-", "_")) is not None
    return _numbers(found) >= _numbers(minimum or "0")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _end_with_parent() -> None:
    """Ends a command together with this program, even if that is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_TERMINATE_WITH_PARENT, signal.SIGTERM)


_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGUSR1)


def _ignore_signals() -> None:
    """Ignores signals, as the clean-up must not be interrupted."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)


def serve(
    session_in: Callable[[Channel, Path], Session], end_reasons: Mapping[int, str] = MappingProxyType({})
) -> None:
    """Runs one session on the standard streams; `session_in` makes it of the folder that the other side names.

    `end_reasons`: what the other side reads when a signal ends it.
    """

    def end(number: int, _: object) -> None:
        _ignore_signals()
        raise GoneError(*[end_reasons[number]] if number in end_reasons else [])

    for number in _ENDING:
        signal.signal(number, end)
    channel = Channel()
    channel.send({"edgeopt": 1, "python": platform.python_version(), "home": str(Path.home()), "os": sys.platform})
    session = None
    try:
        session = session_in(channel, Path(channel.receive()["folder"]).expanduser())
        channel.send({"folder": str(session.work)})
        session.serve()
    except GoneError as gone:
        if gone.args:  # the reason in words, for the other side
            with contextlib.suppress(GoneError):
                channel.send({"refused": "ended", "words": str(gone)})
    finally:
        _ignore_signals()
        if session is not None:
            session.close()


if __name__ == "__main__":
    serve(Session)
