"""The operating system, its kernel, the architecture and the Python that runs."""

from edgeopt.hw import kernel_text
from edgeopt.hw.device import HostFacts
from edgeopt.hw.facts import Facts
from edgeopt.hw.host import Host

UNKNOWN = "unknown"
_ALIASES = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64", "armv8l": "armv7l", "i386": "i686"}


def probe(host: Host) -> Facts:
    sources: dict[str, str] = {}
    system, sources["host.os"] = _first(
        (host.call("platform", "system"), "platform.system()"),
        (host.read("/proc/sys/kernel/ostype"), "/proc/sys/kernel/ostype"),
    )
    kernel, sources["host.kernel"] = _first(
        (host.read("/proc/sys/kernel/osrelease"), "/proc/sys/kernel/osrelease"),
        (host.call("platform", "release"), "platform.release()"),
    )
    python, sources["host.python"] = _first((host.call("platform", "python_version"), "platform.python_version()"))
    name, sources["host.architecture"] = architecture(host)
    return Facts(
        HostFacts(os=system, kernel=kernel, architecture=name, python=python),
        {fact: source for fact, source in sources.items() if source},
    )


def architecture(host: Host) -> tuple[str, str]:
    """`x86_64`, `aarch64`, `armv7l`, ... and what says so."""
    name, source = _first(
        (host.call("platform", "machine"), "platform.machine()"),
        (host.read("/proc/sys/kernel/arch"), "/proc/sys/kernel/arch"),
        (_from_cpuinfo(host), "/proc/cpuinfo"),
    )
    return _ALIASES.get(name.lower(), name), source


def _from_cpuinfo(host: Host) -> str | None:
    """For recordings, which may hold nothing but files."""
    found = kernel_text.blocks(host.read("/proc/cpuinfo") or "")
    if flags := kernel_text.values(found, "flags"):
        return "x86_64" if "lm" in flags[0].split() else "i686"
    if version := kernel_text.values(found, "CPU architecture"):
        return "aarch64" if version[0] in {"8", "AArch64"} else f"armv{version[0]}l"
    isa = kernel_text.values(found, "isa")
    return f"riscv{isa[0][2:4]}" if isa and isa[0].startswith("rv") else None


def _first(*answers: tuple[object, str]) -> tuple[str, str]:
    for answer, source in answers:
        if isinstance(answer, str) and answer.strip():
            return answer.strip(), source
    return UNKNOWN, ""
