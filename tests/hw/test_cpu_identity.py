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
