"""The folder that holds all of an agent's state, and the lock that gives it to one agent at a time."""

import contextlib
import errno
import fcntl
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from edgeopt.errors import UsageError, writing_to
from edgeopt_agent.settings import service_owner

LOCK = "lock"
_TAKES_NOTHING = (errno.EROFS, errno.ENOSPC, errno.EDQUOT)
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DataDir:
    root: Path
    shared: Path | None = None
    """The agent's own folder, where this one is that of an added model: trust and access are the agent's."""

    @property
    def base(self) -> Path:
        """The folder of the agent, which holds what all its models share."""
        return self.shared or self.root

    @property
    def models(self) -> Path:
        """A folder for each added model."""
        return self.base / "models"

    def of_model(self, name: str) -> "DataDir":
        """Returns the folder of an added model."""
        return DataDir(self.models / quote(name, safe="").replace(".", "%2E"), self.base)

    @property
    def removed(self) -> Path:
        """Marks the folder of an added model that was removed, and is deleted at the latest at the next start."""
        return self.root / "removed"

    @property
    def journal(self) -> Path:
        return self.root / "state.db"

    @property
    def orders(self) -> Path:
        """The journal of orders of several models."""
        return self.base / "orders.db"

    @property
    def outbox(self) -> Path:
        """The messages that wait for the broker of a fleet."""
        return self.base / "outbox.db"

    @property
    def trust(self) -> Path:
        return self.base / "trust"

    @property
    def tokens(self) -> Path:
        return self.base / "tokens"

    @property
    def floors(self) -> Path:
        """The highest sequence number of each removed model."""
        return self.base / "floors"

    @property
    def watched(self) -> Path:
        """The bundles that were taken from the watched folder."""
        return self.base / "watched"

    @property
    def trials(self) -> Path:
        """The folder for clients' measurements: files by digest, the search cache, and the folder of a run."""
        return self.base / "trials"

    @property
    def search(self) -> Path:
        """The outcome of the last search that a fleet ordered."""
        return self.base / "search.json"

    @property
    def search_files(self) -> "DataDir":
        """A folder for a running search, whose downloads no deployment sweeps."""
        return DataDir(self.base / "search", self.base)

    @property
    def drift(self) -> Path:
        """The statistics of the first requests to the serving release."""
        return self.root / "drift.json"

    @property
    def pins(self) -> Path:
        return self.root / "pins"

    @property
    def certificate(self) -> Path:
        """The agent's own certificate and its key."""
        return self.base / "tls" / "agent.pem"

    @property
    def partial(self) -> Path:
        return self.root / "partial"

    @property
    def releases(self) -> Path:
        return self.root / "releases"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def current(self) -> Path:
        return self.root / "current"

    @property
    def previous(self) -> Path:
        return self.root / "previous"

    def release(self, release_id: str) -> Path:
        return self.releases / release_id

    def release_names(self) -> set[str]:
        """Returns the releases on the disk; none if a removal of the model has deleted their folder."""
        try:
            return {folder.name for folder in self.releases.iterdir()}
        except FileNotFoundError:
            return set()

    @property
    def folders(self) -> tuple[Path, ...]:
        own = (self.partial, self.releases, self.logs)
        return own if self.shared else (self.trust, self.tokens, *own)

    def make(self) -> None:
        """Makes its folders where they are missing, private to their user."""
        for folder in (self.root, *self.folders):
            folder.mkdir(parents=True, exist_ok=True)
            if folder.stat().st_mode & 0o777 != 0o700:  # an immutable folder would refuse even that
                folder.chmod(0o700)


@contextmanager
def open_data_dir(root: Path) -> Iterator[DataDir]:
    """Makes the folder where it is missing, private to its user, and keeps other agents out while it is open."""
    data = DataDir(root.absolute())
    try:
        data.make()
        lock = os.open(data.root / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno not in _TAKES_NOTHING or not data.releases.is_dir():
            raise UsageError(
                f"The data folder '{root}' cannot be used: {error.strerror}.",
                "Choose another with --data-dir, or make it writable for this user.",
            ) from None
        # A read-only folder can still be served from.
        log.error("The data folder '%s' cannot be written: %s.", root, error.strerror)
        lock = os.open(data.root / LOCK if (data.root / LOCK).exists() else data.root, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _take(lock, root)
        yield data
    finally:
        os.close(lock)


def added_models(data: DataDir) -> list[str]:
    """Returns the names of the added models on the disk."""
    return [name for name, folder in _model_folders(data) if not folder.removed.exists()]


def sweep_removed(data: DataDir) -> None:
    """Deletes the added models whose removal a killed agent did not finish."""
    for _, folder in _model_folders(data):
        if folder.removed.exists():
            remove(folder.root)


def _model_folders(data: DataDir) -> list[tuple[str, DataDir]]:
    """Returns each added model with its folder; other folders are not the agent's."""
    names = sorted(unquote(each.name) for each in data.models.iterdir()) if data.models.is_dir() else []
    return [(name, data.of_model(name)) for name in names if data.of_model(name).root.is_dir()]


def _take(lock: int, root: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
        raise UsageError(
            f"The data folder '{root}' is in use by the agent with the process id {owner}.",
            "Stop that agent, or give this one another folder with --data-dir.",
        ) from None
    with contextlib.suppress(OSError):  # the lock holds without the number
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)


def point(link: Path, release_id: str | None) -> None:
    """Lets `current` or `previous` lead to a release, or to none; in one step that survives a power cut."""
    if pointed(link) == release_id:
        return
    if release_id is None:
        link.unlink(missing_ok=True)
    else:
        fresh = link.with_name(f".{link.name}.new")
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(Path("releases") / release_id)
        if (
            link.is_dir() and not link.is_symlink()
        ):  # a folder has no business here, and may hold someone's release
            link.rename(free_name(link))
        fresh.replace(link)
    sync_folder(link.parent)


def pointed(link: Path) -> str | None:
    """Returns the release that a link leads to; None if there is no link, or no such release any more."""
    name = link_target(link)
    return name if name is not None and (link.parent / "releases" / name).is_dir() else None


def link_target(link: Path) -> str | None:
    """Returns the release that a link names, whether or not it is there; None if there is no link."""
    try:
        return link.readlink().name
    except OSError:
        return None


def free_name(path: Path) -> Path:
    """Returns the path to move something damaged to: `NAME.damaged-1`, or the next free number."""
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    return aside


def make_private(folder: Path) -> None:
    """Makes a folder for its owner alone, where it is missing."""
    if not folder.exists():
        folder.mkdir(mode=0o700, parents=True)
        _give_to_owner(folder)


def write_whole(place: Path, text: str) -> None:
    """Writes a file whole or not at all, for its owner alone: nobody can read half a key."""
    fresh = place.with_name(f".{place.name}.new")
    try:
        with writing_to(place):
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                fresh.chmod(0o600)  # a left file keeps its mode, and the umask may take the owner's
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            _give_to_owner(fresh)
            fresh.replace(place)
            sync_folder(place.parent)
    finally:
        fresh.unlink(missing_ok=True)


def _give_to_owner(path: Path) -> None:
    """Gives a file that root put into the folder of a service to the service's user."""
    if os.geteuid() == 0:
        parent = path.parent.stat()
        os.chown(path, *(service_owner(path) or (parent.st_uid, parent.st_gid)))


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sweep(data: DataDir, garbage: set[str], kept: Path | None = None) -> list[str]:
    """Removes what a killed agent left: everything partial but `kept`, and the releases named as garbage."""
    for left in data.partial.iterdir() if data.partial.is_dir() else ():
        if left != kept:
            remove(left)
    gone = sorted(name for name in garbage if data.release(name).is_dir())
    for name in gone:
        remove(data.release(name))
    return gone


def remove(path: Path) -> None:
    """Removes a file or a folder, whatever of it is still there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
