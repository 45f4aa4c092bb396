"""Names for the implementer and part numbers of /proc/cpuinfo on Arm (their MIDR_EL1 fields)."""

from edgeopt.hw.kernel_text import whole

IMPLEMENTERS = {
    0x41: "ARM",
    0x42: "Broadcom",
    0x43: "Cavium",
    0x46: "Fujitsu",
    0x48: "HiSilicon",
    0x4E: "NVIDIA",
    0x51: "Qualcomm",
    0x53: "Samsung",
    0x61: "Apple",
    0xC0: "Ampere",
}

ARM_PARTS = {
    0xC07: "Cortex-A7",
    0xC08: "Cortex-A8",
    0xC09: "Cortex-A9",
    0xC0F: "Cortex-A15",
    0xD03: "Cortex-A53",
    0xD04: "Cortex-A35",
    0xD05: "Cortex-A55",
    0xD07: "Cortex-A57",
    0xD08: "Cortex-A72",
    0xD09: "Cortex-A73",
    0xD0A: "Cortex-A75",
    0xD0B: "Cortex-A76",
    0xD0C: "Neoverse-N1",
    0xD0D: "Cortex-A77",
    0xD0E: "Cortex-A76AE",
    0xD40: "Neoverse-V1",
    0xD41: "Cortex-A78",
    0xD42: "Cortex-A78AE",
    0xD44: "Cortex-X1",
    0xD46: "Cortex-A510",
    0xD47: "Cortex-A710",
    0xD48: "Cortex-X2",
    0xD49: "Neoverse-N2",
    0xD4A: "Neoverse-E1",
    0xD4B: "Cortex-A78C",
    0xD4D: "Cortex-A715",
    0xD4E: "Cortex-X3",
    0xD4F: "Neoverse-V2",
    0xD80: "Cortex-A520",
    0xD81: "Cortex-A720",
    0xD82: "Cortex-X4",
}


def vendor(implementer: str | None) -> str | None:
    number = whole(implementer)
    return None if number is None else IMPLEMENTERS.get(number, f"implementer {number:#x}")


def model(implementer: str | None, part: str | None) -> str | None:
    """`Cortex-A72`, or the numbers where the part has no name here."""
    number = whole(part)
    if number is None:
        return None
    if whole(implementer) == 0x41 and number in ARM_PARTS:
        return ARM_PARTS[number]
    return f"{vendor(implementer) or 'Arm'} part {number:#05x}"
