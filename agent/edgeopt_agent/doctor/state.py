"""Checks of the data folder: who may use it, the journal, the links and the trust in it."""

import contextlib
import fcntl
import os
import shutil
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

import msgspec

from edgeopt import units
from edgeopt.bundle.manifest import check_manifest
from edgeopt.decoding import thread_safe
from edgeopt.errors import EdgeoptError
from edgeopt.workspace import temporary_folder
from edgeopt_agent import service
from edgeopt_agent.data_dir import LOCK, DataDir, pointed
from edgeopt_agent.deployments.hook import hook_of, unusable
from edgeopt_agent.deployments.record import Record
from edgeopt_agent.deployments.returning import SEND_AGAIN
from edgeopt_agent.doctor.findings import Findings, Patient, ok, problem, warning
from edgeopt_agent.journal_file import SCHEMA, TABLES, damage_of_file, definitions, text_of
from edgeopt_agent.releases import deployment_of
from edgeopt_agent.tokens import read_token, token_files
from edgeopt_agent.trust import check_host, trusted_files, untrusted

_AMPLE_BYTES = 1 << 30
_SET_ASIDE = (
    "Start the agent: it keeps the damaged file as a copy and rebuilds the journal from links and releases."
)
_SIGN = "Where the private key is: edgeopt sign BUNDLE --key KEY; then on the device: edgeopt-agent deploy BUNDLE"


def check_folder(patient: Patient) -> Findings:
    root = patient.data.root
    if not root.exists():
        yield ok("data folder", f"{root} does not exist yet; the agent creates it.")
        return
    found = root.stat()
    if found.st_uid != os.geteuid() and os.geteuid():
        yield problem("data folder", f"{root} belongs to another user.", "Run this command as the agent's user.")
    elif stat.S_IMODE(found.st_mode) & 0o077:
        yield problem("data folder", f"Other users may open {root}.", f"chmod 700 '{root}'")
    elif not os.access(root, os.W_OK | os.X_OK):
        yield problem("data folder", f"{root} cannot be written.", "Make it writable for this user.")
    else:
        yield ok("data folder", f"{root} is private and writable.")


def check_space(patient: Patient) -> Findings:
    root = patient.data.root
    place = next(folder for folder in (root, *root.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    message = f"{units.size(free)} are free at {place}."
    if free < patient.disk_reserve_bytes:
        yield problem(
            "disk", message, "Free some space; until then no bundle is accepted. `edgeopt-agent gc` may help."
        )
    elif free < _AMPLE_BYTES:
        yield warning("disk", message, "Large bundles need twice their size.")
    else:
        yield ok("disk", message)


def check_journal(patient: Patient) -> Findings:
    path = patient.data.journal
    if not path.exists():
        yield ok("journal", "None yet.")
        yield from _check_clock(None)
        return
    try:
        damage = damage_of_file(path)
        if damage:
            yield problem("journal", f"{path} is damaged: {damage}.", _SET_ASIDE)
            return
        with _read_only(patient.data) as db:
            newest_s, deployments = _read_whole(db)
    except PermissionError as error:
        yield problem("journal", f"{path} cannot be read: {error.strerror}.", "Run this as the agent's user.")
    except (OSError, sqlite3.Error, msgspec.MsgspecError, UnicodeDecodeError) as error:
        yield problem("journal", f"{path} is damaged: {error}.", _SET_ASIDE)
    else:
        yield ok("journal", f"Intact; {units.count(deployments, 'deployment')}.")
        yield from _check_clock(newest_s)


def _check_clock(newest_s: float | None) -> Findings:
    now_s, built_s = time.time(), Path(service.__file__).stat().st_mtime
    advice = "Set the clock, for instance by NTP: timedatectl set-ntp true"
    if newest_s is not None and now_s < newest_s:
        yield problem("clock", f"It is {newest_s - now_s:.0f} s behind the journal's newest entry.", advice)
    elif now_s < built_s:
        yield problem("clock", "It is earlier than the installation of edgeopt.", advice)
    else:
        yield ok("clock", f"{time.strftime('%Y-%m-%d %H:%M:%S %Z', time.localtime(now_s))}.")


@contextmanager
def _read_only(data: DataDir) -> Iterator[sqlite3.Connection]:
    """Opens the journal, beside an agent or without one, without writing into its folder."""
    with contextlib.ExitStack() as stack:
        path = data.journal
        if not agent_runs(data):
            # SQLite would make files beside it, which as root would be root's.
            folder = Path(stack.enter_context(temporary_folder("doctor")))
            for file in (path, path.with_name(f"{path.name}-wal")):
                if file.exists():
                    shutil.copyfile(file, folder / file.name)
            path = folder / path.name
        db = stack.enter_context(closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)))
        db.text_factory = text_of
        yield db


def _read_whole(db: sqlite3.Connection) -> tuple[float | None, int]:
    """Returns the time of the newest entry and the number of deployments; raises if something is damaged."""
    found = db.execute("PRAGMA quick_check").fetchone()[0]
    if found != "ok":
        raise sqlite3.DatabaseError(found)
    if db.execute("PRAGMA user_version").fetchone()[0] <= SCHEMA:
        with closing(sqlite3.connect(":memory:")) as ours:
            ours.executescript(TABLES)
            if definitions(db) != definitions(ours):
                raise sqlite3.DatabaseError("a table is missing or damaged")
    records = [
        msgspec.json.decode(row[0], type=thread_safe(Record))
        for row in db.execute("SELECT record FROM deployments")
    ]
    newest = db.execute("SELECT max(time_s) FROM events").fetchone()[0]
    return newest, len(records)


def agent_runs(data: DataDir) -> bool:
    """Whether an agent holds the folder; takes nothing from one that is about to start."""
    try:
        lock = os.open(data.base / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def check_hook(patient: Patient) -> Findings:
    hook = hook_of(patient.data)
    wrong, advice = unusable(hook)
    if wrong:
        yield problem("hook", wrong, f"{advice} Until then no deployment commits.")
    else:
        yield ok("hook", f"{hook} decides before each commit." if hook.exists() else "None.")


def check_links(patient: Patient) -> Findings:
    data = patient.data
    broken = [link.name for link in (data.current, data.previous) if link.is_symlink() and pointed(link) is None]
    if broken:
        advice = "Start the agent, which repairs them from the journal, or deploy again."
        yield problem("links", f"{' and '.join(broken)} lead to releases that are not there.", advice)
        return
    current, previous = pointed(data.current) or "nothing", pointed(data.previous) or "none"
    yield ok("links", f"{current} serves; rollback target: {previous}.")


def check_files(patient: Patient) -> Findings:
    """Checks whether the files of the serving release and of the rollback target have their digests."""
    data = patient.data
    linked = dict.fromkeys(name for link in (data.current, data.previous) if (name := pointed(link)) is not None)
    is_whole = True
    for name in linked:
        try:
            check_manifest(data.release(name))
        except (EdgeoptError, OSError) as error:
            is_whole = False
            yield problem("release files", str(error), SEND_AGAIN)
    if linked and is_whole:
        yield ok("release files", f"The digests of {' and '.join(linked)} hold.")


def check_signature(patient: Patient) -> Findings:
    """Checks whether the trusted keys, which may be newer than the release that serves, vouch for it."""
    data = patient.data
    serving = pointed(data.current)
    if serving is None:
        return
    folder = data.release(serving)
    with contextlib.suppress(EdgeoptError, OSError):  # other checks say what cannot be read
        if found := untrusted(folder, deployment_of(folder).name, data.trust):
            yield warning("signature", found, _SIGN)


def check_trust(patient: Patient) -> Findings:
    data = patient.data
    try:
        keys, tokens = trusted_files(data.trust), token_files(data.tokens)
        check_host(patient.host, data)
    except OSError as error:
        yield problem(
            "trust", f"Keys and tokens cannot be read: {error.strerror}.", "Run this as the agent's user."
        )
        return
    except EdgeoptError as error:
        yield problem("trust", error.message, error.hint)
        return
    damaged = [file for file in keys if not _is_key(file)] + [file for file in tokens if read_token(file) is None]
    for file in damaged:
        yield problem("trust", f"{file} is damaged and accepts nothing.", "Remove it, and add it again.")
    if not damaged:
        yield ok("trust", f"{len(keys)} trusted keys, {len(tokens)} access tokens; enough for {patient.host}.")


def _is_key(file: Path) -> bool:
    from edgeopt.bundle.sign import load_public_key

    try:
        load_public_key(file)
    except (EdgeoptError, OSError):
        return False
    return True
