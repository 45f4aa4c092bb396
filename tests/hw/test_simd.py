import pytest

from edgeopt.hw import simd

AVX2 = "sse4_2 avx avx2 fma f16c"
AVX512 = f"{AVX2} avx512f avx512bw avx512dq avx512vl"


@pytest.mark.parametrize(
    ("architecture", "flags", "level"),
    [
        ("x86_64", "fpu sse2", "baseline"),
        ("x86_64", "sse4_2", "sse4"),
        ("x86_64", "sse4_2 avx", "avx"),
        ("x86_64", "sse4_2 avx avx2", "avx"),
        ("x86_64", AVX2, "avx2"),
        ("x86_64", f"{AVX2} avx_vnni", "avx-vnni"),
        ("x86_64", f"{AVX512} avx_vnni", "avx512"),
        ("x86_64", f"{AVX2} avx512f avx512bw avx512vl", "avx2"),
        ("x86_64", f"{AVX2} avx512f avx512_vnni", "avx2"),
        ("x86_64", AVX512, "avx512"),
        ("x86_64", f"{AVX512} avx512_vnni", "avx512-vnni"),
        ("x86_64", f"{AVX512} avx512_vnni amx_tile amx_int8", "avx512-vnni"),
        ("x86_64", f"{AVX512} avx512_vnni amx_tile amx_int8 amx_bf16", "amx"),
        ("x86_64", f"{AVX512} amx_tile amx_int8 amx_bf16", "avx512"),
        ("aarch64", "fp asimd", "neon"),
        ("aarch64", "fp asimd asimddp", "arm-dotprod"),
        ("aarch64", "asimd asimddp i8mm bf16 sve2", "arm-i8mm"),
        ("aarch64", "asimd i8mm", "neon"),
        ("armv7l", "half thumb neon vfpv4", "neon"),
        ("riscv64", "avx2 asimd", "baseline"),
        ("riscv64", "i m a f d c v zvfh", "riscv-rvv"),
        ("riscv64", "i m a f d c", "baseline"),
    ],
)
def test_a_level_counts_only_when_it_is_complete(architecture, flags, level):
    assert simd.level(simd.names(frozenset(flags.split()), architecture)) == level


def test_flags_of_the_kernel_get_one_name_each():
    flags = frozenset({"avx512_vnni", "avx512_bf16", "avx512_fp16", "avx_vnni", "amx_bf16", "asimd"})
    assert simd.names(flags, "x86_64") == ("avx-vnni", "avx512-vnni", "avx512-bf16", "avx512-fp16", "amx-bf16")


def test_bf16_of_arm_is_not_taken_from_x86():
    assert simd.names(frozenset({"bf16"}), "x86_64") == ()


def test_every_level_is_made_of_known_sets():
    assert {name for _, needed in simd.LEVELS for name in needed} <= set(simd.NAMES)


@pytest.mark.parametrize(
    ("architecture", "flags", "bits"),
    [
        ("x86_64", AVX512, 512),
        ("x86_64", AVX2, 256),
        ("x86_64", "sse4_2", 128),
        ("aarch64", "asimd", 128),
        ("riscv64", "v", None),
        ("x86_64", "", None),
    ],
)
def test_widths(architecture, flags, bits):
    assert simd.fixed_vector_bits(simd.names(frozenset(flags.split()), architecture)) == bits


def test_what_newer_cpus_have():
    x86 = frozenset({"avx_vnni_int8", "avx10_1", "avx10_2", "amx_fp16"})
    assert simd.names(x86, "x86_64") == ("avx-vnni-int8", "avx10.1", "avx10.2", "amx-fp16")
    arm = frozenset({"sve", "sve2", "sme", "sme2", "svei8mm", "svebf16", "asimdfhm"})
    assert simd.names(arm, "aarch64") == ("fhm", "sve", "sve2", "sve-i8mm", "sve-bf16", "sme", "sme2")
    assert simd.names(frozenset({"zfh", "zvfh", "zvfbfwma"}), "riscv64") == ("zfh", "zvfh", "zvfbfwma")
