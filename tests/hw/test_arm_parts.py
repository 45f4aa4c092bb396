import pytest

from edgeopt.hw import cpu_models


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
