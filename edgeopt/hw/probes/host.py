"""The operating system, its kernel, the architecture, the board, and what this system runs inside of."""

from typing import NamedTuple

from edgeopt.hw import kernel_text, sysctl
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


class Sign(NamedTuple):
    name: str
    source: str


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
        "board": board(host),
        "virtual_machine": virtual_machine(host),
        "container": container(host),
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


def _distribution(host: Host, system: str) -> Sign | None:
    for path in ("/etc/os-release", "/usr/lib/os-release"):
        lines = (line.partition("=") for line in (host.read(path) or "").splitlines())
        fields = {key.strip(): value.strip().strip("\"'") for key, _, value in lines}
        if name := kernel_text.name(fields.get("PRETTY_NAME") or fields.get("NAME")):
            return Sign(name[:100], path)
    if system == "Darwin":
        answer = host.call("platform", "mac_ver")
        if isinstance(answer, list) and answer and isinstance(answer[0], str) and answer[0]:
            return Sign(f"macOS {answer[0]}", "platform.mac_ver()")
    if system == "Windows":
        release, version = host.call("platform", "release"), host.call("platform", "version")
        if isinstance(release, str) and release:
            build = f" ({version})" if isinstance(version, str) and version else ""
            return Sign(f"Windows {release}{build}", "platform.release()")
    lines = (line.partition("=") for line in (host.read("/system/build.prop") or "").splitlines())
    release = next((value.strip() for key, _, value in lines if key == "ro.build.version.release"), "")
    return Sign(f"Android {release[:20]}", "/system/build.prop") if release else None


def _libc(host: Host) -> Sign | None:
    version = host.call("os", "confstr", "CS_GNU_LIBC_VERSION")
    if isinstance(version, str) and version.strip():
        return Sign(version.strip(), "os.confstr(CS_GNU_LIBC_VERSION)")
    if any(name.startswith("ld-musl-") for name in host.list("/lib")):
        return Sign("musl", "/lib/ld-musl-*")
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


DMI = "/sys/class/dmi/id"
DEVICE_TREES = ("/proc/device-tree", "/sys/firmware/devicetree/base")
_CLOCKS = "/sys/devices/system/clocksource/clocksource0/available_clocksource"
_REGISTRY = ("reg", "query", r"HKLM\HARDWARE\DESCRIPTION\System\BIOS")

# What the firmware of virtual machines calls itself (as systemd's detect-virt has it).
_FIRMWARES = (
    ("kvm", "kvm"),
    ("openstack", "kvm"),
    ("google compute engine", "kvm"),
    ("amazon ec2", "kvm"),
    ("alibaba cloud", "kvm"),
    ("digitalocean", "kvm"),
    ("qemu", "qemu"),
    ("vmware", "vmware"),
    ("virtualbox", "virtualbox"),
    ("innotek gmbh", "virtualbox"),
    ("xen", "xen"),
    ("bochs", "bochs"),
    ("parallels", "parallels"),
    ("bhyve", "bhyve"),
    ("apple virtualization", "apple"),
    ("microsoft corporation virtual machine", "hyper-v"),
)
_CLOCK_NAMES = (("kvm-clock", "kvm"), ("hyperv", "hyper-v"), ("xen", "xen"), ("vmware", "vmware"))
_GROUPS = (
    ("docker", "docker"),
    ("libpod", "podman"),
    ("kubepods", "kubernetes"),
    ("lxc", "lxc"),
    ("buildkit", "buildkit"),
    ("containerd", "containerd"),
    ("garden", "garden"),
)
# include/linux/proc_ns.h: the namespaces that the kernel itself makes have these fixed numbers.
_FIRST_NAMESPACES = (("/proc/self/ns/pid", "pid:[4026531836]"), ("/proc/self/ns/uts", "uts:[4026531838]"))
_PLACEHOLDERS = frozenset(
    {
        "",
        "none",
        "to be filled by o.e.m.",
        "default string",
        "system manufacturer",
        "system product name",
        "system version",
        "not specified",
        "not applicable",
        "invalid",
        "unknown",
        "o.e.m.",
        "oem",
    }
)


def virtual_machine(host: Host) -> Sign | None:
    """The hypervisor under this system; None: nothing shows one."""
    if "microsoft" in (host.read("/proc/sys/kernel/osrelease") or "").lower():
        return Sign("hyper-v", "/proc/sys/kernel/osrelease (WSL 2)")
    kind = (host.read("/sys/hypervisor/type") or "").strip()
    if kind and "control_d" not in (host.read("/proc/xen/capabilities") or ""):
        return Sign(kind, "/sys/hypervisor/type")
    return _by_firmware(host) or _by_device_tree(host) or _by_processor(host)


def container(host: Host) -> Sign | None:
    """The kind of container around this process; None: nothing shows one."""
    if "microsoft" in (host.read("/proc/sys/kernel/osrelease") or "").lower():
        return Sign("wsl", "/proc/sys/kernel/osrelease")
    for path in ("/run/systemd/container", "/run/host/container-manager"):
        if name := (host.read(path) or "").strip():
            return Sign(name.splitlines()[0][:40], path)
    if host.read("/.flatpak-info") is not None:
        return Sign("flatpak", "/.flatpak-info")
    if host.read("/run/.containerenv") is not None:
        return Sign("podman", "/run/.containerenv")
    # A virtual machine that was made of a container's image still has the mark, but is none.
    if host.read("/.dockerenv") is not None and not _first_namespaces(host):
        return Sign("docker", "/.dockerenv")
    for path in ("/proc/1/cgroup", "/proc/self/cgroup"):
        text = host.read(path) or ""
        for part, name in _GROUPS:
            if f"/{part}" in text or f"-{part}" in text:
                return Sign(name, path)
    environment = (host.read("/proc/1/environ") or "").split("\0")
    named = next((entry[10:] for entry in environment if entry.startswith("container=")), "")
    if named:
        return Sign(named[:40], "/proc/1/environ: container")
    if host.call("os", "getenv", "KUBERNETES_SERVICE_HOST"):
        return Sign("kubernetes", "KUBERNETES_SERVICE_HOST in the environment")
    return None


def board(host: Host) -> Sign | None:
    """The name of the board or the product; never its serial number."""
    for folder in DEVICE_TREES:
        if name := _one_line(host.read(f"{folder}/model")):
            return Sign(name, f"{folder}/model")
    for vendor, product in (("sys_vendor", "product_name"), ("board_vendor", "board_name")):
        parts = (_informative(host.read(f"{DMI}/{part}")) for part in (vendor, product, "product_version"))
        if name := _product(*parts):
            return Sign(name, f"{DMI}/{product}")
    if model := sysctl.read(host).get("hw.model"):
        return Sign(model, "sysctl hw.model")
    if host.call("platform", "system") == "Windows":
        values = _registry(host)
        keys = ("SystemManufacturer", "SystemProductName", "SystemVersion")
        if name := _product(*(values.get(key, "") for key in keys)):
            return Sign(name, " ".join(_REGISTRY))
    return None


def _product(maker: str, name: str, version: str) -> str:
    if not name:
        return ""
    if maker == "LENOVO":  # its product names are numbers, and its versions the names that people know
        name = version or name
    return name if not maker or name.lower().startswith(maker.lower()) else f"{maker} {name}"


def _by_firmware(host: Host) -> Sign | None:
    names = {part: _one_line(host.read(f"{DMI}/{part}")) for part in ("sys_vendor", "product_name", "bios_vendor")}
    source = DMI
    if not any(names.values()) and host.call("platform", "system") == "Windows":
        found, source = _registry(host), " ".join(_REGISTRY)
        names = {
            "sys_vendor": found.get("SystemManufacturer", ""),
            "product_name": found.get("SystemProductName", ""),
        }
    text = " ".join(name for name in names.values() if name).lower()
    if ".metal" in names.get("product_name", ""):
        return None  # Amazon's machines without a hypervisor
    return next((Sign(name, source) for part, name in _FIRMWARES if part in text), None)


def _by_device_tree(host: Host) -> Sign | None:
    for folder in DEVICE_TREES:
        if compatible := _one_line(host.read(f"{folder}/hypervisor/compatible")):
            source = f"{folder}/hypervisor/compatible"
            return Sign("kvm" if "kvm" in compatible else "xen" if "xen" in compatible else compatible, source)
        if "dummy-virt" in (host.read(f"{folder}/compatible") or ""):
            return Sign("qemu", f"{folder}/compatible")
    return None


def _by_processor(host: Host) -> Sign | None:
    flags = kernel_text.values(kernel_text.blocks(host.read("/proc/cpuinfo") or ""), "flags")
    if not flags:
        shown = (host.run(("sysctl", "-n", "kern.hv_vmm_present")) or "").strip() if _is_mac(host) else ""
        return Sign("apple", "sysctl kern.hv_vmm_present") if shown == "1" else None
    if "hypervisor" not in flags[0].split():
        return None
    clocks = host.read(_CLOCKS) or ""
    named = next((name for part, name in _CLOCK_NAMES if part in clocks), None)
    if named:
        return Sign(named, f"/proc/cpuinfo: flags (hypervisor), {_CLOCKS}")
    return Sign("unnamed hypervisor", "/proc/cpuinfo: flags (hypervisor)")


def _is_mac(host: Host) -> bool:
    return host.call("platform", "system") == "Darwin"


def _first_namespaces(host: Host) -> bool:
    return all(host.call("os", "readlink", path) == link for path, link in _FIRST_NAMESPACES)


def _registry(host: Host) -> dict[str, str]:
    """`    SystemProductName    REG_SZ    Surface Pro 9`, as `reg query` prints it."""
    lines = (line.split(None, 2) for line in (host.run(_REGISTRY) or "").splitlines())
    named = {words[0]: words[2].strip() for words in lines if len(words) == 3 and words[1] == "REG_SZ"}
    return {name: value for name, value in named.items() if value.lower() not in _PLACEHOLDERS}


def _informative(text: str | None) -> str:
    name = _one_line(text)
    return "" if name.lower() in _PLACEHOLDERS else name


def _one_line(text: str | None) -> str:
    """Device trees end their texts with a NUL; what is not printable is no name."""
    first = (text or "").replace("\0", " ").strip().partition("\n")[0].strip()
    return first[:100] if first.isprintable() and "\ufffd" not in first else ""
