"""The operating system, its kernel, the architecture, the board, and what this system runs inside of."""

from edgeopt.hw import kernel_text, signs
from edgeopt.hw.device import Facts, HostFacts
from edgeopt.hw.host import Host

UNKNOWN = "unknown"
_ALIASES = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64", "armv8l": "armv7l", "i386": "i686"}
_ABSENT = {
    "distribution": "no os-release, and the operating system does not say either",
    "libc": "neither os.confstr() nor /lib shows glibc or musl",
    "board": "neither a device tree nor the firmware (DMI) names it",
    "virtual_machine": "no sign of a hypervisor in firmware, device tree or CPU flags",
    "container": "no sign of a container in files of engines, control groups or the environment",
}


def probe(host: Host) -> Facts:
    sources: dict[str, str] = {}
    system, sources["host.os"] = _first(
        (host.call("platform", "system"), "platform.system()"),
        (host.read("/proc/sys/kernel/ostype"), "/proc/sys/kernel/ostype"),
        ("Linux" if host.read("/proc/cpuinfo") else None, "/proc/cpuinfo, which only Linux has"),
    )
    kernel, sources["host.kernel"] = _first(
        (host.read("/proc/sys/kernel/osrelease"), "/proc/sys/kernel/osrelease"),
        (host.call("platform", "release"), "platform.release()"),
    )
    python, sources["host.python"] = _first((host.call("platform", "python_version"), "platform.python_version()"))
    name, sources["host.architecture"] = architecture(host)
    found = {
        "distribution": _distribution(host, system),
        "libc": _libc(host),
        "board": signs.board(host),
        "virtual_machine": signs.virtual_machine(host),
        "container": signs.container(host),
    }
    sources |= {f"host.{fact}": sign.source for fact, sign in found.items() if sign}
    return Facts(
        HostFacts(
            os=system,
            kernel=kernel,
            architecture=name,
            python=python,
            **{fact: sign.name for fact, sign in found.items() if sign},
        ),
        {fact: source for fact, source in sources.items() if source},
        {f"host.{fact}": _ABSENT[fact] for fact, sign in found.items() if not sign},
    )


def architecture(host: Host) -> tuple[str, str]:
    """`x86_64`, `aarch64`, `armv7l`, ... and what says so."""
    name, source = _first(
        (host.call("platform", "machine"), "platform.machine()"),
        (host.read("/proc/sys/kernel/arch"), "/proc/sys/kernel/arch"),
        (cpuinfo_architecture(host), "/proc/cpuinfo"),
    )
    return _ALIASES.get(name.lower(), name), source


def _distribution(host: Host, system: str) -> signs.Sign | None:
    for path in ("/etc/os-release", "/usr/lib/os-release"):
        lines = (line.partition("=") for line in (host.read(path) or "").splitlines())
        told = {key.strip(): value.strip().strip("\"'") for key, _, value in lines}
        if name := kernel_text.name(told.get("PRETTY_NAME") or told.get("NAME")):
            return signs.Sign(name[:100], path)
    if system == "Darwin":
        answer = host.call("platform", "mac_ver")
        if isinstance(answer, list) and answer and isinstance(answer[0], str) and answer[0]:
            return signs.Sign(f"macOS {answer[0]}", "platform.mac_ver()")
    if system == "Windows":
        release, version = host.call("platform", "release"), host.call("platform", "version")
        if isinstance(release, str) and release:
            build = f" ({version})" if isinstance(version, str) and version else ""
            return signs.Sign(f"Windows {release}{build}", "platform.release()")
    lines = (line.partition("=") for line in (host.read("/system/build.prop") or "").splitlines())
    release = next((value.strip() for key, _, value in lines if key == "ro.build.version.release"), "")
    return signs.Sign(f"Android {release[:20]}", "/system/build.prop") if release else None


def _libc(host: Host) -> signs.Sign | None:
    told = host.call("os", "confstr", "CS_GNU_LIBC_VERSION")
    if isinstance(told, str) and told.strip():
        return signs.Sign(told.strip(), "os.confstr(CS_GNU_LIBC_VERSION)")
    if any(name.startswith("ld-musl-") for name in host.list("/lib")):
        return signs.Sign("musl", "/lib/ld-musl-*")
    return None


def cpuinfo_architecture(host: Host) -> str | None:
    """The architecture of the CPU in /proc/cpuinfo, which is the host's under QEMU's user mode."""
    found = kernel_text.blocks(host.read("/proc/cpuinfo") or "")
    if flags := kernel_text.values(found, "flags"):
        return "x86_64" if "lm" in flags[0].split() else "i686"
    if version := kernel_text.values(found, "CPU architecture"):
        return "aarch64" if version[0] in {"8", "AArch64"} else f"armv{version[0]}l"
    isa = kernel_text.values(found, "isa")
    return f"riscv{isa[0][2:4]}" if isa and isa[0].startswith("rv") else None


def _first(*answers: tuple[object, str]) -> tuple[str, str]:
    for answer, source in answers:
        if isinstance(answer, str) and (name := kernel_text.name(answer)):
            return name, source
    return UNKNOWN, ""
