import pytest

from edgeopt.hw.sensors import board_rails, rail_w

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
