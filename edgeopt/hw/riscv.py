"""What /proc/cpuinfo says of a RISC-V hart: its extensions, its vendor, its core."""

import re

from edgeopt.hw.kernel_text import Block, whole

# JEDEC numbers of mvendorid, as the kernel's arch/riscv/include/asm/vendorid_list.h has them, and others.
_VENDORS = {
    0x31E: "Andes",
    0x489: "SiFive",
    0x5B7: "T-Head",
    0x61F: "Tenstorrent",
    0x67E: "StarFive",
    0x710: "SpacemiT",
}
# The left half of a device tree's `compatible`, which the kernel prints as uarch.
_PREFIXES = {
    "andes": "Andes",
    "andestech": "Andes",
    "microchip": "Microchip",
    "sifive": "SiFive",
    "sophgo": "Sophgo",
    "spacemit": "SpacemiT",
    "starfive": "StarFive",
    "tenstorrent": "Tenstorrent",
    "thead": "T-Head",
    "ultrarisc": "UltraRISC",
}
_ISA = re.compile(r"rv(32|64|128)([a-z]*)((?:_[a-z0-9]+)*)")
_VECTOR_LENGTH = re.compile(r"zvl([1-9]\d{1,5})b")


def extensions(isa: str | None) -> frozenset[str]:
    """`rv64imafdcv_zfh_zvfh` as its parts: single letters, and longer names as they are."""
    match = _ISA.fullmatch((isa or "").strip().lower())
    if not match:
        return frozenset()
    # g stands for imafd with zicsr and zifencei (the unprivileged specification, chapter on naming).
    letters = match[2].replace("g", "imafd")
    return frozenset(letters) | frozenset(part for part in match[3].split("_") if part)


def vector_bits(names: frozenset[str]) -> int | None:
    """The least length of the vector registers, where the hart tells by a `zvl` extension."""
    lengths = [int(match[1]) for name in names if (match := _VECTOR_LENGTH.fullmatch(name))]
    powers = [length for length in lengths if length & (length - 1) == 0 and 32 <= length <= 65536]
    return max(powers, default=None)


def vendor(block: Block) -> str | None:
    """By its number, else by the left half of uarch."""
    number = whole(block.get("mvendorid"))
    if number in _VENDORS:
        return _VENDORS[number]
    prefix, comma, _ = block.get("uarch", "").partition(",")
    return _PREFIXES.get(prefix, prefix or None) if comma else None


def microarchitecture(block: Block) -> str | None:
    """`SiFive U74`, out of `sifive,u74-mc`."""
    prefix, comma, core = block.get("uarch", "").partition(",")
    if not comma or not core:
        return None
    name = core.removesuffix("-mc")
    return f"{_PREFIXES.get(prefix, prefix)} {name.upper() if len(name) <= 5 else name}"
