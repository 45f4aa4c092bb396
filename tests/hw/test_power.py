import pytest

from edgeopt.hw.power import draw, package_power_w, supply

BAT = "/sys/class/power_supply/BAT0"
AC = "/sys/class/power_supply/AC"
INA = "/sys/class/hwmon/hwmon1"
RAPL = "/sys/class/powercap"


def battery(status, **more):
    told = {"type": "Battery", "status": status, "capacity": "64"} | more
    return {f"{BAT}/{name}": f"{value}\n" for name, value in told.items()}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (battery("Discharging"), ("battery", 64.0)),
        (battery("Charging"), ("mains", 64.0)),
        (battery("Discharging") | {f"{AC}/type": "Mains", f"{AC}/online": "1"}, ("mains", 64.0)),
        (battery("Unknown", capacity="400"), (None, None)),
        ({f"{AC}/type": "Mains", f"{AC}/online": "1\n"}, ("mains", None)),
    ],
)
def test_where_the_power_comes_from(machine, files, expected):
    found = supply(machine(files))
    assert (found.source, found.battery_percent) == expected


@pytest.mark.parametrize(
    "files", [{}, {f"{AC}/type": "Mains", f"{AC}/online": "0"}, battery("Discharging", scope="Device")]
)
def test_nothing_tells(machine, files):
    assert supply(machine(files)) is None


def test_psutil_where_there_is_no_sysfs(board, machine):
    assert supply(board("macos-m2"))[:2] == ("mains", 83.0)
    assert supply(board("windows-11"))[:2] == ("battery", 64.0)
    calls = {"platform.system()": "Windows", "psutil.sensors_battery()": {"percent": -1, "power_plugged": None}}
    assert supply(machine(calls=calls))[:2] == (None, None)


def test_a_battery_tells_what_the_whole_device_draws(machine):
    assert draw(machine(battery("Discharging", power_now="7250000"))).power_w == 7.25
    found = draw(machine(battery("Discharging", power_now="", current_now="-812000", voltage_now="15400000")))
    assert found.power_w == 12.505
    assert "whole device" in found.source


def test_charging_is_no_draw(machine):
    host = machine(battery("Charging", power_now="45000000"))
    assert draw(host) is None


def test_the_meter_of_a_board(machine):
    files = {
        f"{INA}/name": "ina3221",
        f"{INA}/in1_label": "VDD_IN",
        f"{INA}/in1_input": "19000",
        f"{INA}/curr1_input": "420",
    }
    found = draw(machine(files))
    assert found.power_w == 7.98
    assert "VDD_IN" in found.source


@pytest.mark.parametrize("answer", [None, 0, -1.0, "8", 1e9])
def test_a_meter_that_stands_still_or_raves_is_none(machine, answer):
    files = {f"{RAPL}/intel-rapl:0/name": "package-0\n"}
    assert draw(machine(files, calls={"edgeopt.hw.power.package_power_w()": answer})) is None


def test_the_packages_of_rapl(machine):
    files = {f"{RAPL}/intel-rapl:0/name": "package-0\n"}
    found = draw(machine(files, calls={"edgeopt.hw.power.package_power_w()": 11.5}))
    assert found.power_w == 11.5
    assert "CPU packages" in found.source
    # Without a package there is nothing to ask.
    assert draw(machine({f"{RAPL}/intel-rapl:1/name": "psys\n"}, calls={})) is None


def test_this_machine_is_none_or_plausible():
    drawn = package_power_w()
    assert drawn is None or 0 <= drawn < 10_000
