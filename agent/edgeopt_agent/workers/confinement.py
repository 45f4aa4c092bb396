"""What a worker may not do, applied by its process before it loads a runtime; each limit says whether it holds."""

import ctypes
import os
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

MIB = 1 << 20
OPEN_FILES = 1024
FILE_BYTES = 16 * MIB
"""A worker writes nothing but its log pipe; shared memory of a runtime counts as a file."""
_STACK_BYTES = 8 * MIB
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_NAMESPACES = (_NEW_NETWORK, _NEW_USER | _NEW_NETWORK)
"""As root, and as any other user where the kernel lets one have a namespace of its own."""

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
    "/proc",
    "/sys",
    "/dev",
)
_DEVICES = (
    "null", "zero", "full", "random", "urandom", "tty", "dri", "kfd", "dxg", "accel", "mali*", "nvidia*",
    "nvhost*", "nvmap", "nvgpu", "dma_heap", "ion", "galcore", "apex_*", "rknpu*", "hailo*", "adsprpc*", "qaic*",
)  # fmt: skip


class Confinement(msgspec.Struct, frozen=True):
    """What the agent asks of a worker's process."""

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
    """What bounds it, or why nothing does."""


def confine(wanted: Confinement) -> tuple[WorkerLimit, ...]:
    """Applies every limit that this system allows. Only one thread may run yet."""
    if sys.platform != "linux":
        return (WorkerLimit("all", False, "limits of workers need Linux"),)
    # The network namespace first: Landlock leaves it out, and its own network rules are the second choice.
    network = _limit("network", _leave_network)
    files = _limit("files", lambda: _restrict_files(wanted))
    if not network.applied and files.applied:
        network = _network_by_landlock(network.how, files.how)
    processes = () if wanted.children else (_limit("processes", _stay_in_group),)
    memory = (_limit("memory", lambda: _bound_memory(wanted)),) if wanted.memory_bytes else ()
    resources = _limit("resources", lambda: _bound_resources(bool(wanted.cache)))
    return (*memory, network, files, *processes, resources)


def _limit(name: str, apply: Callable[[], str]) -> WorkerLimit:
    try:
        return WorkerLimit(name, True, apply())
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return WorkerLimit(name, False, said)


def _bound_memory(wanted: Confinement) -> str:
    most_bytes = wanted.memory_bytes
    if wanted.driver:
        raise ValueError("the driver of a GPU reserves memory that would count; a control group would bound it")
    # Not RLIMIT_AS: mapped weights and libraries count there too, half a gibibyte of them for OpenVINO.
    # Stacks of threads count whole, used or not, and runtimes start a thread for each core.
    _set_limit("RLIMIT_DATA", most_bytes + _STACK_BYTES * (os.cpu_count() or 1))
    return f"RLIMIT_DATA of {most_bytes // MIB} MiB and the stacks of threads"


def _leave_network() -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    for flags in _NAMESPACES:
        if libc.unshare(flags) == 0:
            return "a network namespace without interfaces"
    number = ctypes.get_errno()
    raise OSError(number, f"no network namespace: {os.strerror(number)}")


def _network_by_landlock(why_not: str, files: str) -> WorkerLimit:
    from edgeopt_agent.workers.landlock import NETWORK_ABI, landlock_abi

    if landlock_abi() >= NETWORK_ABI:
        return WorkerLimit("network", True, f"Landlock denies TCP; UDP is open ({why_not})")
    return WorkerLimit("network", False, f"{why_not}; {files} has no rules for the network")


def _restrict_files(wanted: Confinement) -> str:
    from edgeopt_agent.workers.landlock import restrict

    package = Path(__file__).resolve().parents[2]
    own = (
        sys.prefix,
        sys.base_prefix,
        sys.exec_prefix,
        *sys.path,
        *os.environ.get("LD_LIBRARY_PATH", "").split(":"),
    )
    readable = {Path(place) for place in (*_SYSTEM, *own, wanted.release) if place.startswith("/")}
    devices = [device for name in _DEVICES for device in Path("/dev").glob(name)]
    abi = restrict({*readable, package}, devices, [Path(wanted.cache)] if wanted.cache else ())
    return f"Landlock (ABI {abi}): reads its release, libraries and the system, writes nothing" + (
        f" but {wanted.cache}" if wanted.cache else ""
    )


def _stay_in_group() -> str:
    from edgeopt_agent.workers.seccomp import stay_in_group

    stay_in_group()
    return "seccomp: what it starts stays in its process group and ends with it"


def _bound_resources(large_files: bool) -> str:
    _set_limit("RLIMIT_CORE", 0)
    _set_limit("RLIMIT_NOFILE", OPEN_FILES)
    if not large_files:
        _set_limit("RLIMIT_FSIZE", FILE_BYTES)
    sizes = "" if large_files else f", files of at most {FILE_BYTES // MIB} MiB"
    return f"no core dumps, {OPEN_FILES} open files{sizes}"


def _set_limit(name: str, most: int) -> None:
    """Lowers a limit, soft and hard; one that is lower already stays."""
    import resource

    number = getattr(resource, name)
    found = [most if value == resource.RLIM_INFINITY else min(value, most) for value in resource.getrlimit(number)]
    resource.setrlimit(number, (found[0], found[1]))
