"""The memory limit of a worker, and the control group that enforces it if systemd delegates one."""

import errno
import itertools
import os
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from edgeopt.bundle.deployment import ENCODER
from edgeopt.decoding import thread_safe
from edgeopt_agent.settings import MIB, Settings

_FACTOR = 4
"""A release may take this many times what its bundle says."""
_MIN_BYTES = 1024 * MIB
_MACHINE_SHARE = 0.8
_EVIDENCE = "evidence.json"
_LOADED_PER_FILE_BYTE = 2
"""Factor for a bundle without a record: weights as the file has them, and as the kernels want them."""
_AGENT = "agent"
_REMOVALS, _PAUSE_S = 20, 0.005
_numbers = itertools.count(1)


class _Peak(msgspec.Struct, frozen=True):
    peak_bytes: int | None = None


class _Evidence(msgspec.Struct, frozen=True):
    memory: _Peak | None = None


def memory_limit_bytes(settings: Settings, folder: Path) -> int:
    """Returns the setting; by default 4 times what the bundle's record says, from 1 GiB to 80 % of the machine."""
    maximum = int(_machine_bytes() * _MACHINE_SHARE)
    if settings.worker_memory_bytes:
        return min(settings.worker_memory_bytes, maximum)
    recorded = _recorded_bytes(folder) + _recorded_bytes(folder / ENCODER)
    return min(max(_FACTOR * recorded, _MIN_BYTES), maximum)


def _machine_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _recorded_bytes(folder: Path) -> int:
    with suppress(OSError, msgspec.MsgspecError):
        found = msgspec.json.decode((folder / _EVIDENCE).read_bytes(), type=thread_safe(_Evidence)).memory
        if found is not None and found.peak_bytes:
            return found.peak_bytes
    files = (folder / "model").rglob("*")
    with suppress(OSError):
        return _LOADED_PER_FILE_BYTE * sum(path.stat().st_size for path in files if path.is_file())
    return 0


class MemoryGroup:
    """A control group for one worker."""

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        """Raises OSError where the system does not let one be made."""
        self._folder = folder
        folder.mkdir()
        try:
            (folder / "memory.max").write_text(str(limit_bytes), encoding="ascii")
            for name, value in (("memory.swap.max", "0"), ("memory.oom.group", "1")):
                with suppress(FileNotFoundError):  # a kernel without swap accounting
                    (folder / name).write_text(value, encoding="ascii")
        except OSError:
            self.remove()
            raise

    def take(self, pid: int) -> bool:
        """Whether the process is in it now; a group that cannot take it is gone."""
        try:
            (self._folder / "cgroup.procs").write_text(str(pid), encoding="ascii")
        except OSError:
            self.remove()
            return False
        return True

    def ran_out(self) -> bool:
        """Whether the kernel ended the worker because it took more."""
        with suppress(OSError):
            words = (self._folder / "memory.events").read_text(encoding="ascii").split()
            counts = dict(zip(words[::2], words[1::2], strict=False))
            return int(counts.get("oom_kill", "0")) > 0
        return False

    def remove(self) -> None:
        """Ends every process that is left in it."""
        remove_group(self._folder)


def remove_group(folder: Path) -> None:
    """Removes a control group and ends what runs in it (Linux 5.14 and later)."""
    with suppress(OSError):
        kill = os.open(folder / "cgroup.kill", os.O_WRONLY)
        try:
            os.write(kill, b"1")
        finally:
            os.close(kill)
    for _ in range(_REMOVALS):
        try:
            folder.rmdir()
        except OSError as error:
            if error.errno != errno.EBUSY:
                return
            time.sleep(_PAUSE_S)  # what was killed has not quite ended
        else:
            return


def new_group(limit_bytes: int, system: Path = Path("/")) -> MemoryGroup | None:
    """Makes a group within the one that systemd delegated to the agent (`Delegate=`); None without such a one."""
    home = _delegated(system)
    if home is None:
        return None
    try:
        return MemoryGroup(home / f"worker-{os.getpid()}-{next(_numbers)}", limit_bytes)
    except OSError:
        return None


def _delegated(system: Path) -> Path | None:
    """Returns the agent's own group, ready to hold groups of workers.

    Only what systemd marks as delegated is touched: as root, every group could be written.
    """
    try:
        lines = (system / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        own = next(line.removeprefix("0::/") for line in lines if line.startswith("0::/"))
        group = system / "sys/fs/cgroup" / own
        if group.name == _AGENT:
            group = group.parent
        if os.getxattr(group, "user.delegate") != b"1":
            return None
        if "memory" not in (group / "cgroup.controllers").read_text(encoding="ascii").split():
            return None
        if "memory" not in (group / "cgroup.subtree_control").read_text(encoding="ascii").split():
            # A group that holds groups with controllers must not hold processes itself.
            (group / _AGENT).mkdir(exist_ok=True)
            (group / _AGENT / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
            (group / "cgroup.subtree_control").write_text("+memory", encoding="ascii")
    except (OSError, StopIteration, AttributeError):
        return None
    return group
