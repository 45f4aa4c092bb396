"""Instruction sets in words: what the levels mean, and what each set is good for."""

LEVEL_WORDS = {
    "amx": "AMX, matrix units for 8-bit integers and bfloat16",
    "avx512-vnni": "AVX-512 with VNNI, for 8-bit integers",
    "avx512": "AVX-512",
    "avx-vnni": "AVX2 with VNNI, for 8-bit integers",
    "avx2": "AVX2",
    "avx": "AVX",
    "sse4": "SSE4.2",
    "arm-i8mm": "Arm NEON with 8-bit matrix products",
    "arm-dotprod": "Arm NEON with 8-bit dot products",
    "neon": "Arm NEON",
    "riscv-rvv": "RISC-V vectors",
    "baseline": "no vector instructions that edgeopt uses",
}
_PURPOSES = (
    (
        "8-bit integers",
        ("avx-vnni", "avx-vnni-int8", "avx512-vnni", "amx-int8", "dotprod", "i8mm", "sve-i8mm", "zvqdotq"),
    ),
    (
        "Half precision",
        (
            *("f16c", "avx512-bf16", "avx512-fp16", "amx-bf16", "amx-fp16"),
            *("fp16", "fhm", "bf16", "sve-bf16", "zfh", "zvfh", "zvfbfwma"),
        ),
    ),
)
_VECTORS = "Vectors"


def level_words(level: str) -> str:
    """Returns a SIMD level in words; a level of a newer edgeopt stays as it is."""
    return LEVEL_WORDS.get(level, level)


def by_purpose(simd: tuple[str, ...]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Groups instruction sets by purpose, lowest first, without empty groups."""
    special = {name for _, names in _PURPOSES for name in names}
    groups = [(_VECTORS, tuple(name for name in simd if name not in special))]
    groups += [(title, tuple(name for name in simd if name in names)) for title, names in _PURPOSES]
    return tuple((title, names) for title, names in groups if names)
