"""The limits of a worker's process, which applies them before it loads a runtime and reports which hold."""

import ctypes
import os
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from edgeopt_agent.workers.landlock import Files

MIB = 1 << 20
OPEN_FILES = 1024
FILE_BYTES = 16 * MIB
"""A worker writes nothing but its log pipe; shared memory of a runtime counts as a file."""
_STACK_BYTES = 8 * MIB
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
"""Both where the agent is not root: the kernel lets a user have a network in a user namespace, if at all."""

# Libraries, drivers and what the system tells of itself; not /home, /root, /var or the agent's own state.
_SYSTEM = (
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/bin",
    "/sbin",
    "/etc",
    "/opt",
    "/nix/store",
    "/sys",
)
# Of other processes nothing; `self` is the process that adds the rule.
_PROC = (
    "self", "cpuinfo", "meminfo", "stat", "vmstat", "zoneinfo", "loadavg", "uptime", "version", "filesystems",
    "devices", "modules", "cgroups", "swaps", "device-tree", "driver", "sys/vm", "sys/kernel",
)  # fmt: skip
_DEVICES = (
    "null", "zero", "full", "random", "urandom", "tty", "dri", "kfd", "dxg", "accel", "mali*", "nvidia*",
    "nvhost*", "nvmap", "nvgpu", "dma_heap", "ion", "galcore", "apex_*", "rknpu*", "hailo*", "adsprpc*", "qaic*",
)  # fmt: skip


class Confinement(msgspec.Struct, frozen=True):
    """The limits that the agent asks a worker's process to apply."""

    release: str
    memory_bytes: int
    """Most anonymous memory; 0 where something else bounds it."""
    driver: bool = False
    """Whether a GPU's driver is loaded, whose reservations would count as memory of the process."""
    cache: str = ""
    """The one folder that its runtime may write; then files may also be large."""
    children: bool = False
    """Whether it starts processes in groups of their own and ends them; its parent then ends what is left."""


class WorkerLimit(msgspec.Struct, frozen=True):
    name: str
    applied: bool
    how: str
    """Mechanism that enforces the limit, or the reason why nothing does."""


def confine(confinement: Confinement, agent: socket.socket | None = None) -> tuple[WorkerLimit, ...]:
    """Applies every limit that this system allows. Only one thread may run yet.

    Through the socket, which it closes, the process asks the agent for the cores of its threads; without one, only
    its first thread can choose its cores.
    """
    if sys.platform != "linux":
        return (WorkerLimit("all", False, "limits of workers need Linux"),)
    files = _files(confinement)
    memory = (_limit("memory", lambda: _bound_memory(confinement)),) if confinement.memory_bytes else ()
    # Each step takes away what those before it need: capabilities, then system calls.
    network = _limit("network", lambda: _leave_network(_NEW_NETWORK))
    user = _limit("user", lambda: _change_user(confinement, files))
    if not network.applied:
        network = _limit("network", lambda: _leave_network(_NEW_USER | _NEW_NETWORK))
    capabilities = _limit("capabilities", _drop_capabilities)
    opened = _limit("files", lambda: _restrict_files(confinement, files))
    processes = _limit("processes", lambda: _refuse_calls(opened.applied, agent, confinement.children))
    if not network.applied:
        network = _network_without_namespace(network.how, opened, processes)
    resources = _limit("resources", lambda: _bound_resources(bool(confinement.cache)))
    return (*memory, network, opened, user, capabilities, processes, resources)


def can_confine() -> bool:
    """Whether this kernel has seccomp or Landlock, without which a worker has the rights of the agent's user."""
    if sys.platform != "linux":
        return False
    from edgeopt_agent.workers.landlock import landlock_abi
    from edgeopt_agent.workers.seccomp import filters_exist

    return landlock_abi() > 0 or filters_exist()


def _limit(name: str, apply: Callable[[], str]) -> WorkerLimit:
    try:
        return WorkerLimit(name, True, apply())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return WorkerLimit(name, False, reason)


def _bound_memory(confinement: Confinement) -> str:
    max_bytes = confinement.memory_bytes
    if confinement.driver:
        raise ValueError("the driver of a GPU reserves memory that would count; a control group would bound it")
    # Not RLIMIT_AS: mapped weights and libraries count there too, half a gibibyte of them for OpenVINO.
    # Stacks of threads count whole, used or not, and runtimes start a thread for each core.
    _set_limit("RLIMIT_DATA", max_bytes + _STACK_BYTES * (os.cpu_count() or 1))
    return f"RLIMIT_DATA of {max_bytes // MIB} MiB and the stacks of threads"


def _leave_network(flags: int) -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flags):
        number = ctypes.get_errno()
        raise OSError(number, f"no network namespace: {os.strerror(number)}")
    return "a network namespace without interfaces"


def _network_without_namespace(why_not: str, files: WorkerLimit, processes: WorkerLimit) -> WorkerLimit:
    from edgeopt_agent.workers.landlock import NETWORK_ABI, landlock_abi

    if processes.applied:
        return WorkerLimit("network", True, f"seccomp denies sockets ({why_not})")
    if files.applied and landlock_abi() >= NETWORK_ABI:
        return WorkerLimit("network", True, f"Landlock denies TCP; UDP is open ({why_not})")
    return WorkerLimit("network", False, f"{why_not}; neither seccomp nor Landlock can deny it here")


def _files(confinement: Confinement) -> "Files":
    """Returns what a worker may open."""
    from edgeopt_agent.workers.landlock import Files

    # Children have a /proc/self of their own. Memory and environment of others stay closed: Landlock denies what
    # takes the rights of a debugger.
    proc = ("/proc",) if confinement.children else tuple(f"/proc/{name}" for name in _PROC)
    system = (Path(place) for place in (*_SYSTEM, *proc))
    devices = tuple(device for name in _DEVICES for device in Path("/dev").glob(name))
    cache = (Path(confinement.cache),) if confinement.cache else ()
    return Files((*_needed(confinement), *system), (Path("/dev"),), devices, cache)


def _needed(confinement: Confinement) -> tuple[Path, ...]:
    """Returns the folders that the worker reads: the release, then those from which Python loads programs."""
    package = Path(__file__).resolve().parents[2]
    own = (*(sys.prefix, sys.base_prefix, sys.exec_prefix), *sys.path)
    libraries = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    places = (confinement.release, str(package), *own, *libraries)
    return tuple(dict.fromkeys(Path(place) for place in places if place.startswith("/")))


def _change_user(confinement: Confinement, files: "Files") -> str:
    if os.geteuid() != 0:
        return "the agent's, which is not root"
    from edgeopt_agent.workers.own_user import take_own_user

    if confinement.cache:
        raise ValueError(f"root, as the agent: its runtime writes to {confinement.cache}")
    try:
        return f"{take_own_user(_needed(confinement), files.devices)}, which owns nothing"
    except OSError as error:
        raise ValueError(f"root, as the agent: {error.strerror or error}") from None


def _drop_capabilities() -> str:
    from edgeopt_agent.workers.capabilities import drop_capabilities

    drop_capabilities()
    return "none, and none can be gained"


def _restrict_files(confinement: Confinement, files: "Files") -> str:
    from edgeopt_agent.workers.landlock import restrict

    abi = restrict(files)
    return f"Landlock (ABI {abi}): reads its release, libraries and the system, writes nothing" + (
        f" but {confinement.cache}" if confinement.cache else ""
    )


def _refuse_calls(landlock: bool, agent: socket.socket | None, children: bool) -> str:
    from edgeopt_agent.workers.landlock import SCOPES_ABI, landlock_abi
    from edgeopt_agent.workers.seccomp import refuse_calls

    scoped = landlock and landlock_abi() >= SCOPES_ABI
    with ExitStack() as at_last:
        if agent is not None:
            at_last.enter_context(agent)  # a model must not send anything by it
        signals = not (scoped or children)
        listener = refuse_calls(signals_too=signals, ask_for_cores=agent is not None, children=children)
        if agent is not None and listener is not None:
            from edgeopt_agent.workers.thread_cores import send_listener

            send_listener(agent, listener)
    if children:
        return "seccomp: it does not change other processes, except for the cores of its own user's"
    signal_rule = "Landlock denies signals to others" if scoped else "signals to others included"
    return f"seccomp: it reaches no other process ({signal_rule}), and what it starts ends with it"


def _bound_resources(large_files: bool) -> str:
    _set_limit("RLIMIT_CORE", 0)
    _set_limit("RLIMIT_NOFILE", OPEN_FILES)
    if not large_files:
        _set_limit("RLIMIT_FSIZE", FILE_BYTES)
    sizes = "" if large_files else f", files of at most {FILE_BYTES // MIB} MiB"
    return f"no core dumps, {OPEN_FILES} open files{sizes}"


def _set_limit(name: str, maximum: int) -> None:
    """Lowers a limit, soft and hard; one that is lower already stays."""
    import resource

    number = getattr(resource, name)
    found = [
        maximum if value == resource.RLIM_INFINITY else min(value, maximum) for value in resource.getrlimit(number)
    ]
    resource.setrlimit(number, (found[0], found[1]))
