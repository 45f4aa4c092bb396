"""A pool over a whole machine: a worker process for each NUMA node, group of cores or GPU."""

import contextlib
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from edgeopt.backends.base import Backend, Options
from edgeopt.bundle.golden import answer_golden
from edgeopt.bundle.runtime.isolated.session import Isolation, isolated
from edgeopt.bundle.runtime.locate import SessionPlace, locate
from edgeopt.bundle.runtime.session import Session
from edgeopt.errors import BundleError, UsageError
from edgeopt.hw.device import Accelerator, Device
from edgeopt.hw.host import Host, LocalHost
from edgeopt.hw.kernel_text import cpu_list
from edgeopt.hw.probe import probe
from edgeopt.hw.topology import cores
from edgeopt.platform.processes import usable_cores

_CUDA = ("onnxruntime-cuda", "onnxruntime-tensorrt")


@dataclass(frozen=True, slots=True)
class PoolPart:
    """CPUs or GPU that one member of a pool runs on."""

    name: str
    cpus: tuple[int, ...] = ()
    """The logical CPUs that its worker is bound to; empty: the system chooses."""
    cores: int | None = None
    """Physical cores to use; None where the backend does not run on the CPU."""
    gpu: int | None = None
    """Number of the GPU in CUDA's order."""


def spread(
    path: Path,
    backend: str | None,
    options: Options | None,
    parts: int | None,
    isolation: Isolation,
) -> dict[str, Session]:
    """A session in a worker of its own for each part of this machine, by name."""
    place = locate(path, backend, options)
    host = LocalHost()
    planned = parts_of(probe(host), cores_of(host), place.backend, parts)
    sessions: dict[str, Session] = {}
    with contextlib.ExitStack() as opened:
        for part in planned:
            sessions[part.name] = opened.enter_context(_member(place, part, isolation))
        opened.pop_all()
    return sessions


def cores_of(host: Host) -> tuple[tuple[int, ...], ...]:
    """The logical CPUs of each physical core that this process may use."""
    allowed = usable_cores()
    groups = cores(host)
    kept = [tuple(c for c in core if allowed is None or c in allowed) for core in (groups.cpus if groups else ())]
    return tuple(core for core in kept if core)


def parts_of(
    device: Device, machine: tuple[tuple[int, ...], ...], backend: Backend, parts: int | None
) -> tuple[PoolPart, ...]:
    """The parts of a device for a backend: by default one for each NUMA node, or for each GPU with CUDA.

    `machine` has the logical CPUs of each physical core.
    """
    if parts is not None and parts < 1:
        raise UsageError(f"A pool cannot have {parts} members.", "Give at least 1, or leave 'parts' out.")
    if backend.name in _CUDA:
        return _gpus(device, parts)
    if "threads" not in backend.options.__struct_fields__:
        # A device whose topology nobody tells: its workers share it.
        return tuple(PoolPart(f"{backend.name} {number}") for number in range(parts or 1))
    nodes = [group for node in device.numa if (group := _within(machine, cpu_list(node.cpus)))]
    if sum(map(len, nodes)) != len(machine):
        nodes = [machine]
    usable = min(device.limits.usable_cores, len(machine) or device.limits.usable_cores)
    if parts is not None and parts > usable:
        raise UsageError(
            f"{parts} members cannot share {usable} cores.", f"Give at most {usable}, or leave 'parts' out."
        )
    if usable < len(machine) or not machine:
        # A limit on time, as containers have, names no cores to bind to.
        count = parts or 1
        return tuple(PoolPart(f"{number}", cores=_share(usable, count, number)) for number in range(count))
    groups = nodes
    if parts is not None:
        ordered = iter([core for node in nodes for core in node])
        groups = [tuple(islice(ordered, _share(usable, parts, number))) for number in range(parts)]
    return tuple(_cpu_part(group, bound=len(groups) > 1) for group in groups)


def _within(machine: tuple[tuple[int, ...], ...], cpus: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    return tuple(core for core in machine if core[0] in cpus)


def _share(total: int, count: int, number: int) -> int:
    """Returns a member's share of whole cores; the first members get one more."""
    return total // count + (number < total % count)


def _cpu_part(group: tuple[tuple[int, ...], ...], bound: bool) -> PoolPart:
    cpus = tuple(sorted(cpu for core in group for cpu in core))
    return PoolPart(f"cpus {_listed(cpus)}", cpus if bound else (), len(group))


def _gpus(device: Device, parts: int | None) -> tuple[PoolPart, ...]:
    found = [each for each in device.accelerators if each.kind == "gpu" and "cuda" in each.apis]
    count = parts or len(found) or 1
    if count > max(len(found), 1):
        raise UsageError(
            f"{count} members cannot share {len(found)} GPUs.", f"Give at most {len(found)}, or leave 'parts' out."
        )
    # CUDA puts the fastest GPU first and the probe the first on the bus: only equal ones are in the same order.
    same = len({each.name for each in found}) == 1
    return tuple(
        PoolPart(f"gpu {number}", _near(device, found[number]) if same else (), gpu=number)
        for number in range(count)
    )


def _near(device: Device, gpu: Accelerator) -> tuple[int, ...]:
    """The CPUs of its NUMA node, where the machine has several."""
    if len(device.numa) < 2:
        return ()
    return next((cpu_list(node.cpus) for node in device.numa if node.number == gpu.numa_node), ())


def _listed(cpus: tuple[int, ...]) -> str:
    """`0-3,8`."""
    begins = [cpu for cpu in cpus if cpu - 1 not in cpus]
    ends = [cpu for cpu in cpus if cpu + 1 not in cpus]
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in zip(begins, ends, strict=True))


def member_options(options: Options, part: PoolPart) -> Options:
    """The options of one member: no more threads than its part has cores."""
    chosen: dict[str, object] = {}
    if part.gpu is not None:
        chosen["device_id"] = part.gpu
    if part.cores is not None:
        threads = options.get("threads") or part.cores
        chosen["threads"] = min(int(str(threads)), part.cores)
    return {**options, **chosen}  # type: ignore[dict-item]


def _member(place: SessionPlace, part: PoolPart, isolation: Isolation) -> Session:
    options = member_options(place.options, part)
    bound = replace(isolation, cpus=part.cpus or isolation.cpus)
    session = Session(replace(place, options=options, backend=isolated(place.backend, bound)))
    if place.bundle is None or dict(options) == dict(place.options):
        return session
    try:
        wrong = answer_golden(place.bundle, session).sentence(f"The member '{part.name}'")
        if wrong:
            raise BundleError(wrong, "Load the bundle with the options it was proved with: edgeopt.load.")
    except BaseException:
        session.close()
        raise
    return session
