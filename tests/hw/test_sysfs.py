from edgeopt.hw import accelerators
from edgeopt.hw.accelerators import Sheet


def test_sensors_in_the_units_of_the_record(machine):
    sheet = Sheet("gpu")
    sensors = "/device/hwmon/hwmon7"
    files = {f"{sensors}/temp2_input": "51500\n", f"{sensors}/power1_input": "12345678\n"}
    accelerators.hwmon(machine(files), sheet, "/device")
    assert sheet.values == {"temperature_c": 51.5, "power_w": 12.345678}
    assert sheet.sources["temperature_c"] == f"{sensors}/temp2_input"
    assert "power1_cap" in sheet.absent["power_limit_w"]


def test_sleep_is_said_for_what_changes(machine):
    sheet = Sheet("gpu")
    assert accelerators.asleep(machine({"/device/power/runtime_status": "suspended\n"}), sheet, "/device")
    assert sheet.absent["power_w"] == "asleep until it is used"
    assert not accelerators.asleep(machine({"/device/power/runtime_status": "active\n"}), Sheet("gpu"), "/device")


def test_a_machine_without_numa_has_no_node(machine):
    sheet = Sheet("gpu")
    accelerators.numa_node(machine({"/device/numa_node": "-1\n"}), sheet, "/device")
    assert "numa_node" not in sheet.values
