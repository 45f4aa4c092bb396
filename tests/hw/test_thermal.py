import pytest

from edgeopt.hw.thermal import hot, temperatures, throttling

PI = "/sys/devices/platform/soc/soc:firmware/get_throttled"
X86 = "/sys/devices/system/cpu/cpu0/thermal_throttle"
ZONE = "/sys/class/thermal/thermal_zone"
COOLING = "/sys/class/thermal/cooling_device"


@pytest.mark.parametrize(
    ("flags", "now", "before"),
    [
        ("0", (), ()),
        ("50005", ("the supply voltage is too low", "the firmware throttles the clock"), ()),
        ("0x50000", (), ("the supply voltage is too low", "the firmware throttles the clock")),
        ("8", ("the soft temperature limit is reached",), ()),
    ],
)
def test_the_flags_of_a_raspberry_pi(machine, flags, now, before):
    found = throttling(machine({PI: f"{flags}\n"}))
    assert (found.now, found.before, found.source) == (now, before, PI)


def test_the_counters_of_x86_tell_of_the_past(machine):
    files = {f"{X86}/core_throttle_count": "0\n", f"{X86}/package_throttle_count": "17\n"}
    found = throttling(machine(files))
    assert (found.now, found.before) == ((), ("the package was throttled 17 times",))


def test_a_cooling_device_that_is_on(machine):
    files = {
        f"{COOLING}0/type": "cpufreq-cpu0",
        f"{COOLING}0/cur_state": "3",
        f"{COOLING}1/type": "pwm-fan",
        f"{COOLING}1/cur_state": "4",
    }
    assert throttling(machine(files)).now == ("the kernel's thermal governor limits the clock (cpufreq-cpu0)",)
    files[f"{COOLING}0/cur_state"] = "0"
    assert throttling(machine(files)).now == ()


@pytest.mark.parametrize(
    "files", [{}, {PI: "no"}, {PI: "-1"}, {PI: "9" * 40}, {f"{X86}/core_throttle_count": "-3"}]
)
def test_what_does_not_tell_is_no_answer(machine, files):
    assert throttling(machine(files)) is None


def test_zones_by_their_names(machine):
    files = {f"{ZONE}{n}/type": "acpitz" for n in range(2)} | {f"{ZONE}0/temp": "40000", f"{ZONE}1/temp": "41500"}
    found, sources = temperatures(machine(files | {f"{ZONE}2/type": "off", f"{ZONE}2/temp": "-274000"}))
    assert found == {"acpitz": 40.0, "acpitz (2)": 41.5}
    assert sources == (f"{ZONE}0/temp", f"{ZONE}1/temp")


def test_without_zones_the_sensors_of_the_cpu(board):
    assert temperatures(board("amd-zen4"))[0] == {"k10temp Tctl": 51.4}


@pytest.mark.parametrize(("milli", "is_hot"), [("84000", True), ("82000", True), ("70000", False), ("x", False)])
def test_near_the_limit(machine, milli, is_hot):
    folder = f"{ZONE}0"
    files = {
        f"{folder}/type": "cpu-thermal",
        f"{folder}/temp": milli,
        f"{folder}/trip_point_0_type": "active",
        f"{folder}/trip_point_0_temp": "30000",
        f"{folder}/trip_point_1_type": "passive",
        f"{folder}/trip_point_1_temp": "85000",
        f"{folder}/trip_point_2_type": "critical",
        f"{folder}/trip_point_2_temp": "0",
    }
    found = hot(machine(files))
    assert bool(found) == is_hot
    if found:
        assert (found[0].zone, found[0].limit_c) == ("cpu-thermal", 85.0)
