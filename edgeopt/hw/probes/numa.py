"""NUMA nodes: which CPUs and how much memory lie close together, and how far the others are."""

import re

from edgeopt.hw import kernel_text, windows_facts
from edgeopt.hw.device import Facts, NumaNode, Unavailable
from edgeopt.hw.host import Host
from edgeopt.hw.topology import NODE_FOLDER

_MAX_NODES = 1024
_LARGEST_BYTES = 1 << 56


def probe(host: Host) -> Facts | Unavailable:
    numbers = sorted(int(name[4:]) for name in host.list(NODE_FOLDER) if re.fullmatch(r"node\d{1,4}", name))
    nodes = [_node(host, number, len(numbers)) for number in numbers[:_MAX_NODES]]
    rows = tuple(node for node in nodes if node.cpus or node.memory_bytes)
    if not rows and windows_facts.read(host):
        return Unavailable(windows_facts.NOT_ASKED)
    if not rows:
        return Unavailable(f"the kernel lists no NUMA nodes ({NODE_FOLDER} is missing or empty)")
    sources = {"numa": f"{NODE_FOLDER}/node*"}
    if any(row.memory_bytes for row in rows):
        sources["numa.memory_bytes"] = f"{NODE_FOLDER}/node*/meminfo"
    if any(row.distances for row in rows):
        sources["numa.distances"] = f"{NODE_FOLDER}/node*/distance"
    return Facts(rows, sources)


def _node(host: Host, number: int, nodes: int) -> NumaNode:
    folder = f"{NODE_FOLDER}/node{number}"
    cpus = kernel_text.cpu_list(host.read(f"{folder}/cpulist"))
    cpus = cpus or kernel_text.cpu_mask(host.read(f"{folder}/cpumap"))
    return NumaNode(
        number, kernel_text.as_list(cpus), _memory(host.read(f"{folder}/meminfo")), _distances(host, folder, nodes)
    )


def _memory(text: str | None) -> int | None:
    """Returns the memory of a node in bytes from its meminfo: `Node 0 MemTotal:  24684096 kB`."""
    match = re.search(r"MemTotal:\s+(\d{1,15}) kB", text or "")
    size = int(match[1]) * 1024 if match else 0
    return size if 0 < size <= _LARGEST_BYTES else None


def _distances(host: Host, folder: str, nodes: int) -> tuple[int, ...]:
    """10 is near, by the ACPI specification; one number a node."""
    numbers = [kernel_text.whole(word) for word in (host.read(f"{folder}/distance") or "").split()]
    known = tuple(number for number in numbers if number is not None and 0 < number <= 255)
    return known if len(known) == len(numbers) == nodes else ()
