import pytest

from edgeopt.hw import cpu_identity, kernel_text

INTEL = "processor : 0\nvendor_id : GenuineIntel\ncpu family : 6\nmodel : {model}\nmodel name : {name}\n"
INTEL += "flags : {flags}\n"


def of(machine, cpuinfo):
    return cpu_identity.from_cpuinfo(machine({"/proc/cpuinfo": cpuinfo}), kernel_text.blocks(cpuinfo))


def test_a_hybrid_without_efficiency_cores_has_one_kind(machine):
    cpuinfo = INTEL.format(model=151, name="12th Gen Intel(R) Core(TM) i3-12100", flags="avx2")
    assert of(machine, cpuinfo).microarchitecture == "Golden Cove"


def test_a_guest_may_run_on_either_kind(machine):
    cpuinfo = INTEL.format(model=151, name="12th Gen Intel(R) Core(TM) i7-12700", flags="avx2 hypervisor")
    assert of(machine, cpuinfo).microarchitecture == "Golden Cove + Gracemont"


@pytest.mark.parametrize("name", ["QEMU Virtual CPU version 2.5+", "Common KVM processor"])
def test_a_cpu_that_a_hypervisor_made_up_has_no_micro_architecture(machine, name):
    found = of(machine, INTEL.format(model=6, name=name, flags="sse2"))
    assert (found.model, found.microarchitecture) == (name, None)
    assert "cpu.microarchitecture" not in found.sources


def test_what_only_some_cores_have_is_told_with_their_numbers(machine):
    block = "processor : {}\nFeatures : asimd {}\nCPU implementer : 0x41\nCPU part : 0xd46\n\n"
    found = of(machine, block.format(0, "i8mm") + block.format(1, "i8mm") + block.format(2, ""))
    assert found.flags == {"asimd"}
    assert found.flags_of_some == {"i8mm": (0, 1)}


def test_names_that_no_maker_would_give(machine):
    found = of(machine, INTEL.format(model=60, name="Core \x01\x02", flags="avx2"))
    assert found.model is None
    assert "cpu.model" not in found.sources
    assert found.vendor == "GenuineIntel"


def test_the_models_of_other_architectures(machine):
    assert of(machine, "processor : 0\ncpu : POWER9, altivec supported\n").model == "POWER9, altivec supported"
    assert of(machine, "processor : 0\nModel Name : Loongson-3A6000\n").model == "Loongson-3A6000"


@pytest.mark.parametrize(
    ("isa", "expected"),
    [
        ("rv64imafdc", {"i", "m", "a", "f", "d", "c"}),
        ("rv64imafdcv_zfh_zvfh", {"i", "m", "a", "f", "d", "c", "v", "zfh", "zvfh"}),
        ("RV64GC", {"i", "m", "a", "f", "d", "c"}),
        ("rv32i_zvl128b", {"i", "zvl128b"}),
        ("", set()),
        (None, set()),
        ("x86", set()),
        ("rv64imafdc zfh", set()),
    ],
)
def test_extensions(isa, expected):
    assert cpu_identity.riscv_extensions(isa) == expected


@pytest.mark.parametrize(
    ("names", "bits"),
    [
        ({"zvl128b", "zvl256b", "v"}, 256),
        ({"v"}, None),
        ({"zvl0b"}, None),
        ({"zvl100b"}, None),
        ({"zvl99999b"}, None),
    ],
)
def test_vector_length_where_it_is_told(names, bits):
    assert cpu_identity.vector_bits(frozenset(names)) == bits


def test_vendor_and_core():
    assert cpu_identity.riscv_vendor({"mvendorid": "0x710", "uarch": "spacemit,x60"}) == "SpacemiT"
    assert cpu_identity.riscv_vendor({"uarch": "sifive,u74-mc"}) == "SiFive"
    assert cpu_identity.riscv_vendor({"uarch": "newcomer,one"}) == "newcomer"
    assert cpu_identity.riscv_vendor({"mvendorid": "0x0"}) is None
    assert cpu_identity.riscv_core({"uarch": "sifive,u74-mc"}) == "SiFive U74"
    assert cpu_identity.riscv_core({"uarch": "thead,c910"}) == "T-Head C910"
    assert cpu_identity.riscv_core({"uarch": "unknown"}) is None
    assert cpu_identity.riscv_core({}) is None
