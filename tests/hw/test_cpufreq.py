import pytest

from edgeopt.hw import topology

CPU = "/sys/devices/system/cpu/cpu0"


@pytest.mark.parametrize(
    ("text", "hz"),
    [
        ("4700000\n", 4_700_000_000),
        ("0", None),
        ("-1", None),
        ("1", None),
        ("99999999999", None),
        ("<unknown>", None),
        (None, None),
    ],
)
def test_what_no_clock_can_be_is_left_out(text, hz):
    assert topology.hertz(text, 1000) == hz


def test_base_clocks_of_the_driver_and_of_the_firmware(machine):
    both = {f"{CPU}/cpufreq/base_frequency": "2800000", f"{CPU}/acpi_cppc/nominal_freq": "2700"}
    assert topology.base_hz(machine(both), 0) == (2_800_000_000, f"{CPU}/cpufreq/base_frequency")


def test_a_firmware_that_leaves_the_base_clock_out_writes_zero(machine):
    path = f"{CPU}/acpi_cppc/nominal_freq"
    assert topology.base_hz(machine({path: "0\n"}), 0) is None
    assert topology.base_hz(machine({path: "3800\n"}), 0) == (3_800_000_000, path)
