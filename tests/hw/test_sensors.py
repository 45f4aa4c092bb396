import pytest

from edgeopt.hw.sensors import board_rails, clock_files, cpu_ticks, mean_clock_hz, rail_w, temperature_c

CPUS = "/sys/devices/system/cpu"


def test_ticks_with_and_without_steal(machine):
    assert cpu_ticks(machine({"/proc/stat": "cpu  10 0 20 60 5 0 0 5 9 9\ncpu0 1 2 3 4\n"})) == (100, 65, 5)
    assert cpu_ticks(machine({"/proc/stat": "cpu  10 0 20 60\n"})) == (90, 60, 0)


@pytest.mark.parametrize(
    "text", ["", "cpu", "cpu 1 2 3", "cpu 1 2 x 4", "cpu 1 2 -3 4", "cpu ² ² ² ²", "cpu" + " 9" * 3]
)
def test_what_are_no_ticks(machine, text):
    assert cpu_ticks(machine({"/proc/stat": text})) is None


def test_of_very_many_cores_some_speak_for_all(machine):
    files = {f"{CPUS}/cpu{n}/cpufreq/scaling_cur_freq": f"{1000 + n}000" for n in range(64)}
    host = machine(files | {f"{CPUS}/cpufreq/policy0/scaling_cur_freq": "1"})
    chosen = clock_files(host)
    assert len(chosen) == 16
    assert chosen[0] == f"{CPUS}/cpu0/cpufreq/scaling_cur_freq"
    assert mean_clock_hz(host, chosen) == pytest.approx(1.03e9, rel=0.01)


def test_absurd_clocks_and_temperatures_are_none(machine):
    host = machine({"/a": "9" * 20, "/b": "-5", "/c": "0", "/d": "-274000", "/e": "45250"})
    assert mean_clock_hz(host, ("/a", "/b", "/c")) is None
    assert temperature_c(host, "/d") is temperature_c(host, "/a") is temperature_c(host, "/none") is None
    assert temperature_c(host, "/e") == 45.25


INA = "/sys/class/hwmon/hwmon1"


def chip(folder=INA, **files):
    return {f"{folder}/name": "ina3221\n"} | {f"{folder}/{name}": f"{text}\n" for name, text in files.items()}


def test_the_rail_that_feeds_the_board_counts_alone(machine):
    files = chip(in1_label="VDD_CPU", in1_input=5000, curr1_input=100)
    files |= chip(in2_label="VDD_IN", in2_input=19000, curr2_input=420)
    host = machine(files)
    [rail] = board_rails(host)
    assert (rail.label, rail.channel, rail_w(host, rail)) == ("VDD_IN", 2, 7.98)


def test_without_it_all_rails_of_all_chips(machine):
    files = chip(in1_label="VDD_SOC", in1_input=20000, curr1_input=200)
    files |= chip(in2_label="VDD_CPU", in2_input=20000, curr2_input=100)
    files |= chip("/sys/class/hwmon/hwmon2", in1_label="VDDQ", in1_input=5000, curr1_input=300)
    # Not connected, and what the chip itself adds up.
    files |= chip(in3_label="NC", in3_input=1, curr3_input=1)
    files |= chip(in7_label="sum of shunt voltages", in7_input=9, curr7_input=9)
    host = machine(files)
    assert [rail.label for rail in board_rails(host)] == ["VDD_SOC", "VDD_CPU", "VDDQ"]
    assert sum(rail_w(host, rail) for rail in board_rails(host)) == 7.5


@pytest.mark.parametrize(
    "files",
    [
        {},
        {f"{INA}/name": "k10temp\n", f"{INA}/in1_input": "1", f"{INA}/curr1_input": "1"},
        chip(in1_label="VDD_IN", in1_input="", curr1_input=420),
    ],
)
def test_what_is_no_meter_or_does_not_answer(machine, files):
    assert board_rails(machine(files)) == ()
