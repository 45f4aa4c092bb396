"""Names for the implementer and part numbers of /proc/cpuinfo on Arm (their MIDR_EL1 fields)."""

from edgeopt.hw.kernel_text import whole

IMPLEMENTERS = {
    0x41: "ARM",
    0x42: "Broadcom",
    0x43: "Cavium",
    0x44: "DEC",
    0x46: "Fujitsu",
    0x48: "HiSilicon",
    0x4E: "NVIDIA",
    0x50: "APM",
    0x51: "Qualcomm",
    0x53: "Samsung",
    0x56: "Marvell",
    0x61: "Apple",
    0x69: "Intel",
    0x6D: "Microsoft",
    0x70: "Phytium",
    0xC0: "Ampere",
}

ARM_PARTS = {
    0xB02: "ARM11 MPCore",
    0xB36: "ARM1136",
    0xB56: "ARM1156",
    0xB76: "ARM1176",
    0xC05: "Cortex-A5",
    0xC07: "Cortex-A7",
    0xC08: "Cortex-A8",
    0xC09: "Cortex-A9",
    0xC0D: "Cortex-A12",
    0xC0E: "Cortex-A17",
    0xC0F: "Cortex-A15",
    0xD01: "Cortex-A32",
    0xD02: "Cortex-A34",
    0xD03: "Cortex-A53",
    0xD04: "Cortex-A35",
    0xD05: "Cortex-A55",
    0xD06: "Cortex-A65",
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
    0xD43: "Cortex-A65AE",
    0xD44: "Cortex-X1",
    0xD46: "Cortex-A510",
    0xD47: "Cortex-A710",
    0xD48: "Cortex-X2",
    0xD49: "Neoverse-N2",
    0xD4A: "Neoverse-E1",
    0xD4B: "Cortex-A78C",
    0xD4C: "Cortex-X1C",
    0xD4D: "Cortex-A715",
    0xD4E: "Cortex-X3",
    0xD4F: "Neoverse-V2",
    0xD80: "Cortex-A520",
    0xD81: "Cortex-A720",
    0xD82: "Cortex-X4",
    0xD83: "Neoverse-V3AE",
    0xD84: "Neoverse-V3",
    0xD85: "Cortex-X925",
    0xD87: "Cortex-A725",
    0xD88: "Cortex-A520AE",
    0xD89: "Cortex-A720AE",
    0xD8A: "C1-Nano",
    0xD8B: "C1-Pro",
    0xD8C: "C1-Ultra",
    0xD8E: "Neoverse-N3",
    0xD8F: "Cortex-A320",
    0xD90: "C1-Premium",
}

# Cores by those who design or change their own, by implementer and part.
OTHER_PARTS = {
    (0x42, 0x00F): "Brahma-B15",
    (0x42, 0x100): "Brahma-B53",
    (0x42, 0x516): "ThunderX2",
    (0x43, 0x0A0): "ThunderX",
    (0x43, 0x0A1): "ThunderX-88XX",
    (0x43, 0x0A2): "ThunderX-81XX",
    (0x43, 0x0A3): "ThunderX-83XX",
    (0x43, 0x0AF): "ThunderX2-99xx",
    (0x43, 0x0B1): "OcteonTX2-98XX",
    (0x43, 0x0B2): "OcteonTX2-96XX",
    (0x43, 0x0B8): "ThunderX3",
    (0x46, 0x001): "A64FX",
    (0x46, 0x003): "Monaka",
    (0x48, 0xD01): "TaiShan-v110",
    (0x48, 0xD02): "TaiShan-v120",
    (0x48, 0xD40): "Cortex-A76",
    (0x48, 0xD41): "Cortex-A77",
    (0x4E, 0x000): "Denver",
    (0x4E, 0x003): "Denver 2",
    (0x4E, 0x004): "Carmel",
    (0x4E, 0x010): "Olympus",
    (0x50, 0x000): "X-Gene",
    (0x51, 0x001): "Oryon",
    (0x51, 0x002): "Oryon",
    (0x51, 0x00F): "Scorpion",
    (0x51, 0x02D): "Scorpion",
    (0x51, 0x04D): "Krait",
    (0x51, 0x06F): "Krait",
    (0x51, 0x201): "Kryo",
    (0x51, 0x205): "Kryo",
    (0x51, 0x211): "Kryo",
    (0x51, 0x800): "Kryo-2XX-Gold",
    (0x51, 0x801): "Kryo-2XX-Silver",
    (0x51, 0x802): "Kryo-3XX-Gold",
    (0x51, 0x803): "Kryo-3XX-Silver",
    (0x51, 0x804): "Kryo-4XX-Gold",
    (0x51, 0x805): "Kryo-4XX-Silver",
    (0x51, 0xC00): "Falkor",
    (0x51, 0xC01): "Saphira",
    (0x53, 0x001): "Exynos-M1",
    (0x53, 0x002): "Exynos-M3",
    (0x53, 0x003): "Exynos-M4",
    (0x53, 0x004): "Exynos-M5",
    (0x56, 0x581): "PJ4",
    (0x56, 0x584): "PJ4B",
    (0x61, 0x020): "Icestorm",
    (0x61, 0x021): "Firestorm",
    (0x61, 0x022): "Icestorm",
    (0x61, 0x023): "Firestorm",
    (0x61, 0x024): "Icestorm",
    (0x61, 0x025): "Firestorm",
    (0x61, 0x028): "Icestorm",
    (0x61, 0x029): "Firestorm",
    (0x61, 0x030): "Blizzard",
    (0x61, 0x031): "Avalanche",
    (0x61, 0x032): "Blizzard",
    (0x61, 0x033): "Avalanche",
    (0x61, 0x034): "Blizzard",
    (0x61, 0x035): "Avalanche",
    (0x61, 0x038): "Blizzard",
    (0x61, 0x039): "Avalanche",
    (0x61, 0x042): "Sawtooth",
    (0x61, 0x043): "Everest",
    (0x61, 0x044): "Sawtooth",
    (0x61, 0x045): "Everest",
    (0x61, 0x048): "Sawtooth",
    (0x61, 0x049): "Everest",
    (0x6D, 0xD49): "Azure-Cobalt-100",
    (0x70, 0x303): "FTC310",
    (0x70, 0x660): "FTC660",
    (0x70, 0x661): "FTC661",
    (0x70, 0x662): "FTC662",
    (0x70, 0x663): "FTC663",
    (0x70, 0x664): "FTC664",
    (0x70, 0x862): "FTC862",
    (0xC0, 0xAC3): "Ampere-1",
    (0xC0, 0xAC4): "Ampere-1a",
}

# Designed to be the small ones beside bigger cores.
LITTLE = frozenset(
    {
        "Cortex-A7",
        "Cortex-A32",
        "Cortex-A34",
        "Cortex-A35",
        "Cortex-A53",
        "Cortex-A55",
        "Cortex-A510",
        "Cortex-A520",
        "Cortex-A520AE",
        "C1-Nano",
        "Kryo-2XX-Silver",
        "Kryo-3XX-Silver",
        "Kryo-4XX-Silver",
        "Icestorm",
        "Blizzard",
        "Sawtooth",
    }
)


def vendor(implementer: str | None) -> str | None:
    number = whole(implementer)
    if number is None or not 0 <= number <= 0xFF:
        return None
    return IMPLEMENTERS.get(number, f"implementer {number:#x}")


def model(implementer: str | None, part: str | None) -> str | None:
    """`Cortex-A72`, or the numbers where the part has no name here."""
    maker, number = whole(implementer), whole(part)
    if number is None or not 0 <= number <= 0xFFF:
        return None
    known = ARM_PARTS.get(number) if maker == 0x41 else OTHER_PARTS.get((maker or 0, number))
    return known or f"{vendor(implementer) or 'Arm'} part {number:#05x}"


def of_midr(text: str | None) -> tuple[str, str] | None:
    """Implementer and part out of `regs/identification/midr_el1`, as /proc/cpuinfo would write them."""
    number = whole(text)
    if number is None or not 0 < number < 1 << 32:
        return None
    return f"{number >> 24:#x}", f"{number >> 4 & 0xFFF:#05x}"
