"""Names of x86 micro-architectures by vendor, family and model, as /proc/cpuinfo gives the numbers.

From the kernel's arch/x86/include/asm/intel-family.h and arch/x86/kernel/cpu/amd.c, and the vendors' manuals.
"""

from typing import NamedTuple


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
    """What the kinds of core are called on Intel's CPUs that come with more than one."""
    if vendor != "GenuineIntel":
        return None
    if family == 0x12 and model in {0x01, 0x03}:
        return CoreKinds("Coyote Cove", "Arctic Wolf", "Arctic Wolf")
    return _INTEL_6_HYBRID.get(model) if family == 6 and model is not None else None


def has_avx_vnni(vendor: str | None, family: int | None, model: int | None) -> bool:
    """Whether every CPU of this model has it, for systems that do not tell."""
    return vendor == "GenuineIntel" and family == 6 and model in _INTEL_6_AVX_VNNI


def name_of_all(vendor: str | None, family: int | None, model: int | None, stepping: int | None) -> str | None:
    """As `microarchitecture`; where cores are unlike, both names."""
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
        return next((name for least, name in _SKYLAKE_SERVER_STEPPINGS if (stepping or 0) >= least), None)
    return _INTEL_6.get(model)
