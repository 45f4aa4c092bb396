import pytest

from edgeopt.hw import arm_parts


@pytest.mark.parametrize(
    ("implementer", "part", "vendor", "model"),
    [
        ("0x41", "0xd08", "ARM", "Cortex-A72"),
        ("0x41", "0xfff", "ARM", "ARM part 0xfff"),
        ("0x51", "0xd08", "Qualcomm", "Qualcomm part 0xd08"),
        ("0x7f", "0x001", "implementer 0x7f", "implementer 0x7f part 0x001"),
        (None, None, None, None),
        ("nonsense", "nonsense", None, None),
    ],
)
def test_names(implementer, part, vendor, model):
    assert arm_parts.vendor(implementer) == vendor
    assert arm_parts.model(implementer, part) == model
