"""SIMD instruction sets: edgeopt's names for them, the kernel's, and the levels they make up."""

# Kernel flag (arch/x86/include/asm/cpufeatures.h, arch/arm64/kernel/cpuinfo.c) -> name; the second spelling
# of some is that of macOS' sysctl or of py-cpuinfo, where there is no /proc/cpuinfo.
_X86 = (
    ("sse4_2", "sse4_2"),
    ("sse4.2", "sse4_2"),
    ("avx", "avx"),
    ("avx1.0", "avx"),
    ("avx2", "avx2"),
    ("fma", "fma"),
    ("f16c", "f16c"),
    ("avx_vnni", "avx-vnni"),
    ("avx_vnni_int8", "avx-vnni-int8"),
    ("avx512f", "avx512f"),
    ("avx512bw", "avx512bw"),
    ("avx512dq", "avx512dq"),
    ("avx512vl", "avx512vl"),
    ("avx512_vnni", "avx512-vnni"),
    ("avx512vnni", "avx512-vnni"),
    ("avx512_bf16", "avx512-bf16"),
    ("avx512_fp16", "avx512-fp16"),
    ("avx10", "avx10"),
    ("avx10_1", "avx10.1"),
    ("avx10_2", "avx10.2"),
    ("amx_tile", "amx-tile"),
    ("amx_int8", "amx-int8"),
    ("amx_bf16", "amx-bf16"),
    ("amx_fp16", "amx-fp16"),
)
_ARM = (
    ("neon", "neon"),
    ("asimd", "neon"),
    ("asimdhp", "fp16"),
    ("asimdfhm", "fhm"),
    ("asimddp", "dotprod"),
    ("i8mm", "i8mm"),
    ("bf16", "bf16"),
    ("asimdbf16", "bf16"),
    ("sve", "sve"),
    ("sve2", "sve2"),
    ("svei8mm", "sve-i8mm"),
    ("svebf16", "sve-bf16"),
    ("sme", "sme"),
    ("sme2", "sme2"),
)
# `sysctl hw.optional.arm` on Apple's own chips, which have no /proc/cpuinfo.
_APPLE = (
    ("AdvSIMD", "neon"),
    ("FEAT_FP16", "fp16"),
    ("FEAT_FHM", "fhm"),
    ("FEAT_DotProd", "dotprod"),
    ("FEAT_I8MM", "i8mm"),
    ("FEAT_BF16", "bf16"),
    ("FEAT_SME", "sme"),
    ("FEAT_SME2", "sme2"),
)
# Extensions of the isa string (Documentation/devicetree/bindings/riscv/extensions.yaml).
_RISCV = (("v", "rvv"), ("zfh", "zfh"), ("zvfh", "zvfh"), ("zvfbfwma", "zvfbfwma"), ("zvqdotq", "zvqdotq"))

_AVX2 = ("sse4_2", "avx", "avx2", "fma")
_AVX512 = (*_AVX2, "avx512f", "avx512bw", "avx512dq", "avx512vl")
_VNNI = (*_AVX512, "avx512-vnni")

# Highest first: runtimes choose kernels by whole sets, so a level with one set missing is not that level.
LEVELS = (
    ("amx", (*_VNNI, "amx-tile", "amx-int8", "amx-bf16")),
    ("avx512-vnni", _VNNI),
    ("avx512", _AVX512),
    ("avx-vnni", (*_AVX2, "avx-vnni")),
    ("avx2", _AVX2),
    ("avx", ("sse4_2", "avx")),
    ("sse4", ("sse4_2",)),
    ("arm-i8mm", ("neon", "dotprod", "i8mm")),
    ("arm-dotprod", ("neon", "dotprod")),
    ("neon", ("neon",)),
    ("riscv-rvv", ("rvv",)),
)
BASELINE = "baseline"
NAMES = tuple(dict.fromkeys(name for _, name in (*_X86, *_ARM, *_RISCV)))

# Sets whose vectors have one length on every CPU; those of SVE and RVV differ from core to core.
_WIDTHS = ((512, ("avx512f", "avx10.2")), (256, ("avx", "avx2")), (128, ("sse4_2", "neon")))


def names(flags: frozenset[str], architecture: str) -> tuple[str, ...]:
    """edgeopt's names for a CPU's flags, lowest first."""
    table: tuple[tuple[str, str], ...] = ()
    if architecture in {"x86_64", "i686"}:
        table = _X86
    elif architecture.startswith(("aarch64", "arm")):
        table = (*_ARM, *_APPLE)
    elif architecture.startswith("riscv"):
        table = _RISCV
    return tuple(dict.fromkeys(name for flag, name in table if flag in flags))


def level(simd: tuple[str, ...]) -> str:
    """The highest level that is complete."""
    return next((name for name, needed in LEVELS if set(needed) <= set(simd)), BASELINE)


def fixed_vector_bits(simd: tuple[str, ...]) -> int | None:
    """Returns the width of the widest vectors of a fixed length, or None if there are none."""
    return next((bits for bits, sets in _WIDTHS if not set(sets).isdisjoint(simd)), None)
