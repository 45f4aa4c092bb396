import pytest

from edgeopt.hw.cpu_models import CoreKinds, has_avx_vnni, hybrid_cores, microarchitecture, name_of_all

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
def test_names(vendor, family, model, stepping, name):
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
