"""What devices of all makers have in sysfs: sleep, NUMA node, sensors."""

from edgeopt.hw.accelerators import Sheet, number
from edgeopt.hw.host import Host

_VOLATILE = ("clock_hz", "utilization_percent", "temperature_c", "power_w")


def asleep(host: Host, sheet: Sheet, folder: str) -> bool:
    """Whether the kernel has switched it off until it is used; says so for what changes while it works."""
    if (host.read(f"{folder}/power/runtime_status") or "").strip() != "suspended":
        return False
    for name in _VOLATILE:
        sheet.absent.setdefault(name, "asleep until it is used")
    return True


def numa_node(host: Host, sheet: Sheet, folder: str) -> None:
    """-1 is the kernel's word for a machine without NUMA."""
    node = number(host.read(f"{folder}/numa_node"))
    sheet.put("numa_node", node if node is not None and node >= 0 else None, f"{folder}/numa_node")


def hwmon(host: Host, sheet: Sheet, folder: str) -> None:
    """The sensors of its own, in the units of the kernel's hwmon interface."""
    names = host.list(f"{folder}/hwmon")
    sensors = f"{folder}/hwmon/{names[0]}" if names else f"{folder}/hwmon"
    for name, files, scale in (
        ("temperature_c", ("temp1_input", "temp2_input"), 1e-3),
        ("power_w", ("power1_average", "power1_input"), 1e-6),
        ("power_limit_w", ("power1_cap", "power1_max"), 1e-6),
    ):
        answers = ((file, number(host.read(f"{sensors}/{file}"), scale)) for file in files)
        file, value = next(((f, v) for f, v in answers if v is not None), (files[0], None))
        sheet.put(name, value, f"{sensors}/{file}", f"no sensor for it ({sensors}/{files[0]})")
