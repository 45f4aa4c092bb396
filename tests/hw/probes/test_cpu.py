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
            "sysctl hw.optional": "".join(f"hw.optional.{name}: {value}\n" for name, value in features.items()),
            "sysctl -n machdep.cpu.brand_string": "Apple M1\n",
        },
    )
    facts = probe(host)
    assert (facts.section.vendor, facts.section.model) == ("Apple", "Apple M1")
    assert facts.section.simd_level == "arm-dotprod"
    assert facts.sources["cpu.simd"] == "sysctl hw.optional"


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
