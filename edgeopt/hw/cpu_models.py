"""The names of CPUs by their numbers: Arm's implementers and parts, the families and models of x86."""

from typing import NamedTuple

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


def arm_vendor(implementer: str | None) -> str | None:
    number = whole(implementer)
    if number is None or not 0 <= number <= 0xFF:
        return None
    return IMPLEMENTERS.get(number, f"implementer {number:#x}")


def arm_model(implementer: str | None, part: str | None) -> str | None:
    """`Cortex-A72`, or the numbers where the part has no name here."""
    maker, number = whole(implementer), whole(part)
    if number is None or not 0 <= number <= 0xFFF:
        return None
    known = ARM_PARTS.get(number) if maker == 0x41 else OTHER_PARTS.get((maker or 0, number))
    return known or f"{arm_vendor(implementer) or 'Arm'} part {number:#05x}"


def of_midr(text: str | None) -> tuple[str, str] | None:
    """Implementer and part out of `regs/identification/midr_el1`, as /proc/cpuinfo would write them."""
    number = whole(text)
    if number is None or not 0 < number < 1 << 32:
        return None
    return f"{number >> 24:#x}", f"{number >> 4 & 0xFFF:#05x}"


class CoreKinds(NamedTuple):
    """The kinds of core of a CPU with unlike ones."""

    performance: str
    efficiency: str
    low_power: str | None = None


_INTEL_6 = {
    0x0F: "Merom",
    0x17: "Penryn",
    0x1D: "Dunnington",
    0x1A: "Nehalem",
    0x1E: "Nehalem",
    0x1F: "Nehalem",
    0x2E: "Nehalem-EX",
    0x25: "Westmere",
    0x2C: "Westmere",
    0x2F: "Westmere-EX",
    0x2A: "Sandy Bridge",
    0x2D: "Sandy Bridge",
    0x3A: "Ivy Bridge",
    0x3E: "Ivy Bridge",
    0x3C: "Haswell",
    0x3F: "Haswell",
    0x45: "Haswell",
    0x46: "Haswell",
    0x3D: "Broadwell",
    0x47: "Broadwell",
    0x4F: "Broadwell",
    0x56: "Broadwell",
    0x4E: "Skylake",
    0x5E: "Skylake",
    0x8E: "Kaby Lake",
    0x9E: "Kaby Lake",
    0xA5: "Comet Lake",
    0xA6: "Comet Lake",
    0x66: "Cannon Lake",
    0x7D: "Ice Lake",
    0x7E: "Ice Lake",
    0x9D: "Ice Lake",
    0x6A: "Ice Lake",
    0x6C: "Ice Lake",
    0x8C: "Tiger Lake",
    0x8D: "Tiger Lake",
    0xA7: "Rocket Lake",
    0x8F: "Sapphire Rapids",
    0xCF: "Emerald Rapids",
    0xAD: "Granite Rapids",
    0xAE: "Granite Rapids",
    0xAF: "Sierra Forest",
    0xB6: "Grand Ridge",
    0xDD: "Clearwater Forest",
    0xBE: "Gracemont",
    0xD7: "Raptor Cove",
    0x1C: "Bonnell",
    0x26: "Bonnell",
    0x27: "Saltwell",
    0x35: "Saltwell",
    0x36: "Saltwell",
    0x37: "Silvermont",
    0x4A: "Silvermont",
    0x4D: "Silvermont",
    0x5A: "Silvermont",
    0x5D: "Silvermont",
    0x4C: "Airmont",
    0x75: "Airmont",
    0x5C: "Goldmont",
    0x5F: "Goldmont",
    0x7A: "Goldmont Plus",
    0x86: "Tremont",
    0x96: "Tremont",
    0x9C: "Tremont",
    0x57: "Knights Landing",
    0x85: "Knights Mill",
}
_INTEL_6_HYBRID = {
    0x8A: CoreKinds("Sunny Cove", "Tremont"),
    0x97: CoreKinds("Golden Cove", "Gracemont"),
    0x9A: CoreKinds("Golden Cove", "Gracemont"),
    0xB7: CoreKinds("Raptor Cove", "Gracemont"),
    0xBA: CoreKinds("Raptor Cove", "Gracemont"),
    0xBF: CoreKinds("Raptor Cove", "Gracemont"),
    0xAA: CoreKinds("Redwood Cove", "Crestmont", "Crestmont"),
    0xAC: CoreKinds("Redwood Cove", "Crestmont", "Crestmont"),
    0xB5: CoreKinds("Redwood Cove", "Crestmont", "Crestmont"),
    0xC5: CoreKinds("Lion Cove", "Skymont", "Crestmont"),
    0xC6: CoreKinds("Lion Cove", "Skymont"),
    0xBD: CoreKinds("Lion Cove", "Skymont"),
    0xCC: CoreKinds("Cougar Cove", "Darkmont", "Darkmont"),
    0xD5: CoreKinds("Cougar Cove", "Darkmont", "Darkmont"),
}
_INTEL_SKYLAKE_SERVER = 0x55
# Same model number, told apart by the stepping: the first whose least stepping is reached.
_SKYLAKE_SERVER_STEPPINGS = ((10, "Cooper Lake"), (5, "Cascade Lake"), (0, "Skylake"))

# Since Alder Lake every core without AVX-512 has AVX-VNNI, and Lakefield is the one hybrid before it.
_INTEL_6_AVX_VNNI = frozenset({*_INTEL_6_HYBRID, 0xAF, 0xB6, 0xBE, 0xD7, 0xDD}) - {0x8A}

# Ranges of models, first and last, by family; the first that fits.
_AMD = {
    0x0F: ((0x00, 0xFF, "K8"),),
    0x10: ((0x00, 0xFF, "K10"),),
    0x12: ((0x00, 0xFF, "K10"),),
    0x14: ((0x00, 0xFF, "Bobcat"),),
    0x15: (
        (0x02, 0x02, "Piledriver"),
        (0x00, 0x0F, "Bulldozer"),
        (0x10, 0x1F, "Piledriver"),
        (0x30, 0x3F, "Steamroller"),
        (0x60, 0x7F, "Excavator"),
    ),
    0x16: ((0x00, 0x0F, "Jaguar"), (0x30, 0x3F, "Puma")),
    0x17: (
        (0x08, 0x08, "Zen+"),
        (0x18, 0x18, "Zen+"),
        (0x00, 0x2F, "Zen"),
        (0x50, 0x5F, "Zen"),
        (0x30, 0x4F, "Zen 2"),
        (0x60, 0xAF, "Zen 2"),
    ),
    0x19: (
        (0x00, 0x0F, "Zen 3"),
        (0x40, 0x4F, "Zen 3+"),
        (0x20, 0x5F, "Zen 3"),
        (0xA0, 0xAF, "Zen 4c"),
        (0x10, 0x1F, "Zen 4"),
        (0x60, 0x9F, "Zen 4"),
    ),
    0x1A: (
        (0x10, 0x1F, "Zen 5c"),
        (0x00, 0x4F, "Zen 5"),
        (0x60, 0x7F, "Zen 5"),
        (0x50, 0x5F, "Zen 6"),
        (0x80, 0xCF, "Zen 6"),
    ),
}
_ZHAOXIN = {(6, 0x0F): "Isaiah", (6, 0x19): "ZhangJiang", (7, 0x0B): "ZhangJiang", (7, 0x1B): "WuDaoKou"}
_ZHAOXIN |= {(7, 0x3B): "LuJiaZui", (7, 0x5B): "YongFeng", (7, 0x6B): "ShiJiDaDao"}


def microarchitecture(
    vendor: str | None, family: int | None, model: int | None, stepping: int | None
) -> str | None:
    """`Zen 4`, `Sapphire Rapids`; None for a CPU without a name here, and for those with unlike cores."""
    if family is None or model is None:
        return None
    if vendor == "GenuineIntel":
        return _intel(family, model, stepping)
    if vendor == "AuthenticAMD":
        return next((name for first, last, name in _AMD.get(family, ()) if first <= model <= last), None)
    if vendor == "HygonGenuine":
        return "Dhyana" if family == 0x18 else None
    if vendor in {"CentaurHauls", "Shanghai"}:
        return _ZHAOXIN.get((family, model))
    return None


def hybrid_cores(vendor: str | None, family: int | None, model: int | None) -> CoreKinds | None:
    """Returns the names of the kinds of core of an Intel CPU that has more than one."""
    if vendor != "GenuineIntel":
        return None
    if family == 0x12 and model in {0x01, 0x03}:
        return CoreKinds("Coyote Cove", "Arctic Wolf", "Arctic Wolf")
    return _INTEL_6_HYBRID.get(model) if family == 6 and model is not None else None


def has_avx_vnni(vendor: str | None, family: int | None, model: int | None) -> bool:
    """Whether every CPU of this model has it, for systems that do not tell."""
    return vendor == "GenuineIntel" and family == 6 and model in _INTEL_6_AVX_VNNI


def name_of_all(vendor: str | None, family: int | None, model: int | None, stepping: int | None) -> str | None:
    """Returns the name that `microarchitecture` returns, or both names on a CPU with two kinds of core."""
    if cores := hybrid_cores(vendor, family, model):
        return f"{cores.performance} + {cores.efficiency}"
    return microarchitecture(vendor, family, model, stepping)


def _intel(family: int, model: int, stepping: int | None) -> str | None:
    if family == 0x13 and model == 0x01:
        return "Diamond Rapids"
    if family == 0x0F:
        return "NetBurst"
    if family != 6:
        return None
    if model == _INTEL_SKYLAKE_SERVER:
        return next((name for minimum, name in _SKYLAKE_SERVER_STEPPINGS if (stepping or 0) >= minimum), None)
    return _INTEL_6.get(model)
