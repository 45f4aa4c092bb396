import pytest

from edgeopt.hw import cpu_models
from edgeopt.hw.cpu_models import CoreKinds, has_avx_vnni, hybrid_cores, microarchitecture, name_of_all


@pytest.mark.parametrize(
    ("implementer", "part", "vendor", "model"),
    [
        ("0x41", "0xd08", "ARM", "Cortex-A72"),
        ("0x41", "0xfff", "ARM", "ARM part 0xfff"),
        ("0x51", "0xd08", "Qualcomm", "Qualcomm part 0xd08"),
        ("0x7f", "0x001", "implementer 0x7f", "implementer 0x7f part 0x001"),
        (None, None, None, None),
        ("nonsense", "nonsense", None, None),
        ("0x41", "0xd4e", "ARM", "Cortex-X3"),
        ("0x41", "0xd84", "ARM", "Neoverse-V3"),
        ("0x51", "0x001", "Qualcomm", "Oryon"),
        ("0x51", "0x804", "Qualcomm", "Kryo-4XX-Gold"),
        ("0x4e", "0x004", "NVIDIA", "Carmel"),
        ("0x61", "0x022", "Apple", "Icestorm"),
        ("0xc0", "0xac3", "Ampere", "Ampere-1"),
        ("0x46", "0x001", "Fujitsu", "A64FX"),
        ("0x48", "0xd01", "HiSilicon", "TaiShan-v110"),
        ("0x141", "0xd08", None, "Arm part 0xd08"),
        ("0x41", "0x10000", "ARM", None),
        ("-1", "-1", None, None),
    ],
)
def test_names(implementer, part, vendor, model):
    assert cpu_models.arm_vendor(implementer) == vendor
    assert cpu_models.arm_model(implementer, part) == model


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0x00000000411fd461\n", ("0x41", "0xd46")),
        ("0x00000000410fd4e0", ("0x41", "0xd4e")),
        ("0", None),
        ("0xffffffffffffffff", None),
        (None, None),
    ],
)
def test_numbers_out_of_the_register(text, expected):
    assert cpu_models.of_midr(text) == expected


def test_every_little_core_is_one_with_a_name():
    assert set(cpu_models.ARM_PARTS.values()) | set(cpu_models.OTHER_PARTS.values()) >= cpu_models.LITTLE


INTEL, AMD = "GenuineIntel", "AuthenticAMD"


@pytest.mark.parametrize(
    ("vendor", "family", "model", "stepping", "name"),
    [
        (INTEL, 6, 42, 7, "Sandy Bridge"),
        (INTEL, 6, 60, 3, "Haswell"),
        (INTEL, 6, 85, 4, "Skylake"),
        (INTEL, 6, 85, 7, "Cascade Lake"),
        (INTEL, 6, 85, 11, "Cooper Lake"),
        (INTEL, 6, 85, None, "Skylake"),
        (INTEL, 6, 106, 6, "Ice Lake"),
        (INTEL, 6, 140, 1, "Tiger Lake"),
        (INTEL, 6, 143, 8, "Sapphire Rapids"),
        (INTEL, 6, 173, 1, "Granite Rapids"),
        (INTEL, 6, 175, 3, "Sierra Forest"),
        (INTEL, 6, 122, 1, "Goldmont Plus"),
        (INTEL, 6, 190, 0, "Gracemont"),
        (INTEL, 19, 1, 0, "Diamond Rapids"),
        (INTEL, 6, 154, 4, None),
        (AMD, 21, 2, 0, "Piledriver"),
        (AMD, 22, 48, 1, "Puma"),
        (AMD, 23, 1, 2, "Zen"),
        (AMD, 23, 24, 1, "Zen+"),
        (AMD, 23, 49, 0, "Zen 2"),
        (AMD, 23, 96, 1, "Zen 2"),
        (AMD, 25, 1, 1, "Zen 3"),
        (AMD, 25, 68, 1, "Zen 3+"),
        (AMD, 25, 80, 0, "Zen 3"),
        (AMD, 25, 17, 1, "Zen 4"),
        (AMD, 25, 116, 1, "Zen 4"),
        (AMD, 25, 160, 1, "Zen 4c"),
        (AMD, 26, 2, 1, "Zen 5"),
        (AMD, 26, 17, 0, "Zen 5c"),
        (AMD, 26, 68, 0, "Zen 5"),
        ("HygonGenuine", 24, 0, 1, "Dhyana"),
        ("CentaurHauls", 7, 59, 0, "LuJiaZui"),
        (INTEL, 6, 9999, 0, None),
        (AMD, 99, 0, 0, None),
        ("SomebodyElse", 6, 42, 0, None),
        (INTEL, None, None, None, None),
        (None, 6, 42, 7, None),
    ],
)
def test_names_of_x86(vendor, family, model, stepping, name):
    assert microarchitecture(vendor, family, model, stepping) == name


def test_unlike_cores_have_a_name_each():
    assert hybrid_cores(INTEL, 6, 154) == CoreKinds("Golden Cove", "Gracemont")
    assert hybrid_cores(INTEL, 6, 170).low_power == "Crestmont"
    assert hybrid_cores(INTEL, 6, 143) is None
    assert hybrid_cores(AMD, 6, 154) is None
    assert name_of_all(INTEL, 6, 189, 1) == "Lion Cove + Skymont"
    assert name_of_all(AMD, 25, 17, 1) == "Zen 4"


def test_which_models_have_avx_vnni_for_sure():
    assert has_avx_vnni(INTEL, 6, 154)
    assert not has_avx_vnni(INTEL, 6, 138)
    assert not has_avx_vnni(INTEL, 6, 60)
    assert not has_avx_vnni(AMD, 6, 154)
