import pytest

from edgeopt.hw.probes.cpu import probe


def test_x86(board):
    cpu = probe(board("amd-zen4")).section
    assert cpu.vendor == "AuthenticAMD"
    assert {"avx2", "fma", "avx512f", "avx512-vnni", "avx512-bf16"} <= set(cpu.simd)
    assert "amx-tile" not in cpu.simd


def test_arm(board):
    cpu = probe(board("raspberry-pi-5")).section
    assert cpu.vendor == "ARM"
    assert cpu.simd == ("neon", "fp16", "dotprod")


def test_of_unlike_cores_only_what_all_have_counts(machine):
    small = "Features : asimd asimddp i8mm\nCPU implementer : 0x41\nCPU architecture: 8\nCPU part : 0xd46\n"
    large = "Features : asimd asimddp\nCPU implementer : 0x41\nCPU architecture: 8\nCPU part : 0xd4e\n"
    cpu = probe(machine({"/proc/cpuinfo": f"processor : 0\n{small}\nprocessor : 1\n{large}"})).section
    assert cpu.simd_level == "arm-dotprod"
    assert cpu.model == "Cortex-A510 + Cortex-X3"


def test_features_that_stand_once_for_all_cores(machine):
    """Kernels of about 2012 on 32-bit Arm."""
    both = "Features : neon vfpv4\nCPU implementer : 0x41\nCPU architecture: 7\nCPU part : 0xc0f\n"
    cpu = probe(machine({"/proc/cpuinfo": f"processor : 0\n\nprocessor : 1\n\n{both}"})).section
    assert (cpu.model, cpu.simd, cpu.logical_cores) == ("Cortex-A15", ("neon",), 2)


def test_apple_silicon_by_sysctl(machine):
    features = {"arm.FEAT_DotProd": 1, "arm.FEAT_I8MM": 0, "arm.AdvSIMD": 1}
    host = machine(
        calls={"platform.machine()": "arm64", "platform.system()": "Darwin", "os.cpu_count()": 8},
        run={
            "sysctl hw machdep.cpu": "machdep.cpu.brand_string: Apple M1\n"
            + "".join(f"hw.optional.{name}: {value}\n" for name, value in features.items())
        },
    )
    facts = probe(host)
    assert (facts.section.vendor, facts.section.model) == ("Apple", "Apple M1")
    assert facts.section.simd_level == "arm-dotprod"
    assert facts.sources["cpu.simd"] == "sysctl hw.optional, machdep.cpu.features"


def test_py_cpuinfo_where_there_is_no_cpuinfo_file(machine):
    host = machine(
        calls={
            "platform.machine()": "AMD64",
            "cpuinfo.get_cpu_info()": {
                "vendor_id_raw": "GenuineIntel",
                "brand_raw": "Some CPU",
                "flags": ["sse4_2", "avx", "avx2", "fma"],
            },
        }
    )
    facts = probe(host)
    assert (facts.section.model, facts.section.simd_level) == ("Some CPU", "avx2")
    assert facts.sources["cpu.model"] == "py-cpuinfo"


def test_a_64_bit_arm_without_flags_still_has_neon(machine):
    facts = probe(machine(calls={"platform.machine()": "aarch64"}))
    assert facts.section.simd == ("neon",)
    assert facts.sources["cpu.simd"] == "the architecture, aarch64"


HWCAP_CALL = "edgeopt.hw.arm_hwcap.read()"
HWCAP = {"AT_HWCAP": 1 << 1 | 1 << 20, "AT_HWCAP2": 1 << 13}
X86_CPUINFO = "processor : 0\nvendor_id : AuthenticAMD\nmodel name : AMD EPYC\nflags : lm avx2 fma\n"


def test_an_emulated_arm_has_the_features_of_the_emulator_and_no_name_of_the_host(machine):
    host = machine({"/proc/cpuinfo": X86_CPUINFO}, calls={"platform.machine()": "aarch64", HWCAP_CALL: HWCAP})
    facts = probe(host)
    assert (facts.section.simd, facts.section.simd_level) == (("neon", "dotprod", "i8mm"), "arm-i8mm")
    assert facts.sources["cpu.simd"] == "/proc/self/auxv: AT_HWCAP, AT_HWCAP2"
    assert (facts.section.vendor, facts.section.model, facts.section.microarchitecture) == (None, None, None)
    assert facts.unavailable["cpu.model"] == "/proc/cpuinfo describes an x86_64 CPU, which emulates this one"


def test_an_emulated_riscv_has_no_name_of_the_host(machine):
    facts = probe(machine({"/proc/cpuinfo": X86_CPUINFO}, calls={"platform.machine()": "riscv64"}))
    assert (facts.section.model, facts.section.simd) == (None, ())


@pytest.mark.parametrize(
    ("features", "source"),
    [
        ("fp asimd asimddp i8mm", "/proc/cpuinfo: Features"),
        ("fp asimd asimddp", "/proc/self/auxv: AT_HWCAP, AT_HWCAP2"),
    ],
)
def test_features_of_cpuinfo_count_where_the_auxiliary_vector_agrees(machine, features, source):
    text = f"processor : 0\nFeatures : {features}\nCPU implementer : 0x41\nCPU part : 0xd0b\n"
    facts = probe(machine({"/proc/cpuinfo": text}, calls={"platform.machine()": "aarch64", HWCAP_CALL: HWCAP}))
    assert facts.section.simd == ("neon", "dotprod", "i8mm")
    assert (facts.sources["cpu.simd"], facts.section.model) == (source, "Cortex-A76")


def test_a_hybrid_of_intel(board):
    facts = probe(board("intel-hybrid"))
    cpu = facts.section
    assert (cpu.microarchitecture, cpu.simd_level, cpu.vector_bits) == ("Golden Cove + Gracemont", "avx-vnni", 256)
    assert (cpu.physical_cores, cpu.logical_cores, cpu.threads_per_core, cpu.sockets) == (6, 8, 2, 1)
    assert "avx512f" not in cpu.simd


def test_two_sockets_with_amx_and_cores_switched_off(board):
    cpu = probe(board("xeon-amx")).section
    assert (cpu.microarchitecture, cpu.simd_level, cpu.vector_bits) == ("Sapphire Rapids", "amx", 512)
    assert {"amx-tile", "amx-int8", "amx-bf16", "avx512-fp16", "avx512-bf16", "avx-vnni"} <= set(cpu.simd)
    assert (cpu.sockets, cpu.physical_cores, cpu.logical_cores, cpu.threads_per_core) == (2, 8, 8, 1)


def test_zen_2_has_no_vnni(board):
    cpu = probe(board("amd-zen2")).section
    assert (cpu.microarchitecture, cpu.simd_level) == ("Zen 2", "avx2")
    assert cpu.simd == ("sse4_2", "avx", "avx2", "fma", "f16c")


def test_a_phone_with_sve2(board):
    facts = probe(board("arm-sve2"))
    cpu = facts.section
    assert cpu.microarchitecture == "Cortex-A510 + Cortex-A715 + Cortex-X3"
    assert {"i8mm", "bf16", "sve2", "sve-i8mm"} <= set(cpu.simd)
    assert (cpu.simd_level, cpu.vector_bits) == ("arm-i8mm", 128)
    assert facts.sources["cpu.vector_bits"] == "/proc/sys/abi/sve_default_vector_length"
    assert (cpu.sockets, cpu.physical_cores) == (1, 9)


def test_risc_v_with_vectors(board):
    facts = probe(board("riscv-rvv"))
    cpu = facts.section
    assert (cpu.vendor, cpu.model, cpu.microarchitecture) == ("SpacemiT", "Spacemit(R) X60", "SpacemiT X60")
    assert (cpu.simd_level, cpu.simd) == ("riscv-rvv", ("rvv", "zfh", "zvfh"))
    assert cpu.vector_bits is None
    assert "zvl" in facts.unavailable["cpu.vector_bits"]


def test_32_bit_arm(board):
    cpu = probe(board("raspberry-pi-2")).section
    assert (cpu.model, cpu.simd_level, cpu.physical_cores) == ("Cortex-A7", "neon", 4)


def test_windows(board):
    facts = probe(board("windows-11"))
    cpu = facts.section
    assert (cpu.model, cpu.microarchitecture) == ("13th Gen Intel(R) Core(TM) i7-1360P", "Raptor Cove + Gracemont")
    assert (cpu.simd_level, cpu.physical_cores, cpu.logical_cores) == ("avx-vnni", 12, 16)
    assert "cpu.threads_per_core" in facts.unavailable


def test_vectors_that_the_kernel_keeps_off_do_not_count(machine):
    cpuinfo = "processor : 0\nhart : 0\nisa : rv64imafdcv_zvfh_zvl256b\n"
    files = {"/proc/cpuinfo": cpuinfo, "/proc/sys/abi/riscv_v_default_allow": "0\n"}
    facts = probe(machine(files))
    assert facts.section.simd == ()
    assert "riscv_v_default_allow" in facts.unavailable["cpu.simd.rvv"]
    allowed = probe(machine(files | {"/proc/sys/abi/riscv_v_default_allow": "1\n"})).section
    assert (allowed.simd, allowed.vector_bits) == (("rvv", "zvfh"), 256)


def test_what_only_some_cores_have_is_said(machine):
    block = "processor : {}\nFeatures : asimd asimddp {}\nCPU implementer : 0x41\nCPU architecture: 8\n\n"
    facts = probe(
        machine({"/proc/cpuinfo": block.format(0, "i8mm") + block.format(1, "i8mm") + block.format(2, "")})
    )
    assert facts.section.simd_level == "arm-dotprod"
    assert "CPUs 0-1" in facts.unavailable["cpu.simd.i8mm"]


def test_the_length_of_sve_is_never_guessed(machine):
    cpuinfo = (
        "processor : 0\nFeatures : asimd sve\nCPU implementer : 0x46\nCPU architecture: 8\nCPU part : 0x001\n"
    )
    for told in ("", "0", "-16", "17", "99999999"):
        facts = probe(machine({"/proc/cpuinfo": cpuinfo, "/proc/sys/abi/sve_default_vector_length": told}))
        assert facts.section.vector_bits is None
        assert "cpu.vector_bits" in facts.unavailable
    facts = probe(machine({"/proc/cpuinfo": cpuinfo, "/proc/sys/abi/sve_default_vector_length": "64\n"}))
    assert facts.section.vector_bits == 512


def test_a_set_that_the_kernel_does_not_print(machine):
    cpuinfo = (
        "processor : 0\nvendor_id : GenuineIntel\ncpu family : 6\nmodel : 189\nflags : lm avx_vnni avx_ifma{}\n"
    )
    facts = probe(machine({"/proc/cpuinfo": cpuinfo.format("")}))
    assert "avx-vnni-int8" in facts.section.simd
    assert "avx_ifma" in facts.sources["cpu.simd"]
    guest = probe(machine({"/proc/cpuinfo": cpuinfo.format(" hypervisor")}))
    assert "avx-vnni-int8" not in guest.section.simd


def test_what_is_absent_has_a_reason(machine):
    facts = probe(machine())
    absent = ("vendor", "model", "microarchitecture", "sockets", "physical_cores", "vector_bits")
    assert [name for name in absent if not facts.unavailable.get(f"cpu.{name}")] == []


def test_more_cores_than_threads_is_not_believed(machine):
    facts = probe(machine(calls={"os.cpu_count()": 4, "psutil.cpu_count(false)": 8}))
    assert (facts.section.physical_cores, facts.section.logical_cores) == (None, 4)
