"""What the board's device tree says; machines with ACPI have none."""

from edgeopt.hw.host import Host

COMPATIBLE = "/proc/device-tree/compatible"


def compatible(host: Host) -> tuple[str, ...]:
    """The board and its chip from the most exact to the least: `("xunlong,orangepi-5", "rockchip,rk3588s")`."""
    return tuple(part for part in (host.read(COMPATIBLE) or "").strip("\n").split("\0") if part)
