import pytest

from edgeopt.hw import accelerators
from edgeopt.hw.accelerators import Finding, Sheet, blocked, gather, json_of, number, rows, scaled
from edgeopt.hw.device import Unavailable


def named(name="GPU"):
    sheet = Sheet("gpu")
    sheet.put("name", name, "a file")
    return sheet


def test_accelerators_are_numbered_with_their_sources_and_reasons():
    second = named("Second")
    second.put("power_w", None, "a file", "it does not report it")
    facts = gather(
        "gpu", (Finding((named("First"),), {"gpu.x": "no x"}, ("a",)), Finding((second,), {}, ("b",))), ""
    )
    assert [(gpu.name, gpu.index) for gpu in facts.section] == [("First", 0), ("Second", 1)]
    assert facts.sources["accelerators.gpu"] == "a, b"
    assert facts.sources["accelerators.gpu.1.name"] == "a file"
    assert facts.unavailable == {"gpu.x": "no x", "gpu.1.power_w": "it does not report it"}


def test_nothing_found_is_every_reason_in_one_sentence():
    answer = gather("npu", (Finding(unavailable={"npu.a": "no a"}), Finding()), "no b")
    assert answer == Unavailable("no a; no b")


def test_the_first_fact_counts_and_a_later_one_fills_a_gap():
    sheet = named("First")
    sheet.put("name", "Second", "elsewhere")
    sheet.put("clock_hz", None, "a", "a does not report it")
    sheet.put("clock_hz", 10**9, "b")
    assert sheet.values["name"] == "First"
    assert (sheet.sources["clock_hz"], sheet.absent) == ("b", {})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature_c", 4000.0),
        ("temperature_c", float("nan")),
        ("utilization_percent", 101),
        ("power_w", 0),
        ("clock_hz", -1),
        ("memory_total_bytes", 10**30),
        ("memory_total_bytes", True),
        ("numa_node", -1),
        ("vendor", "\ud800"),
        ("vendor", "\x07"),
        ("vendor", "\ufffd\ufffd"),
    ],
)
def test_the_absurd_is_absent_with_a_reason(name, value):
    sheet = named()
    sheet.put(name, value, "a file")
    assert getattr(sheet.record(0), name) is None
    assert "impossible" in sheet.absent[name]


def test_a_sheet_without_a_name_is_no_accelerator():
    assert gather("gpu", (Finding((Sheet("gpu"),)),), "nothing") == Unavailable("nothing")


def test_of_several_runtimes_the_installed_one_is_named(machine):
    sheet = named()
    sheet.driven_by(machine(versions={"second": "1.0"}), ("api",), ("first", "second"))
    record = sheet.record(0)
    assert (record.runtime, record.runtime_installed, record.apis) == ("second", True, ("api",))


def test_a_tree_of_files_does_not_say_what_is_installed(machine):
    sheet = named()
    sheet.driven_by(machine(), ("api",), ("first",))
    assert sheet.record(0).runtime_installed is None
    assert "does not list" in sheet.absent["runtime_installed"]


def test_a_recording_without_dev_says_nothing_about_nodes(machine):
    assert blocked(machine(), "/dev/dri/renderD128", "the GPU") == ""


def test_numbers_of_files_and_libraries():
    assert number("42\n") == 42
    assert number("1500", 0.001) == pytest.approx(1.5)
    assert number("900", 1e6) == 900_000_000
    assert (number(None), number(""), number("x"), number("9" * 5000)) == (None, None, None, None)
    assert scaled(1410, 1e6) == 1_410_000_000
    assert (scaled(True, 1), scaled("3", 1), scaled(10**400, 1e6), scaled(float("nan"), 1e6)) == (None,) * 4


def test_json_of_commands():
    assert rows(json_of('{"a": 1}')) == ({"a": 1},)
    assert rows(json_of('[{"a": 1}, 2]')) == ({"a": 1},)
    assert (json_of(None), json_of("{"), json_of("[" * 99_999)) == (None, None, None)


IDS = """# a comment
1002  Advanced Micro Devices, Inc. [AMD/ATI]
\t744c  Navi 31 [Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M]
\t\t1002 0e3b  RX 7900 GRE [XFX]
8086  Intel Corporation
\t643e  Lunar Lake NPU
8088  Beijing Wangxun Technology Co., Ltd.
\t0100  WX1860AL-W Gigabit Ethernet Controller
"""


def test_devices_are_read_from_their_uevent(machine):
    place = "/sys/bus/pci/devices/0000:01:00.0"
    host = machine({f"{place}/uevent": "DRIVER=nvidia\nPCI_CLASS=30200\nPCI_ID=10DE:20B2\n"})
    assert accelerators.pci_devices(host) == (
        accelerators.PciDevice("0000:01:00.0", "10de", "20b2", 0x30200, "nvidia"),
    )


def test_what_is_no_device_is_left_out(machine):
    host = machine({"/sys/bus/pci/devices/x/uevent": "PCI_ID=zz\n", "/sys/bus/pci/devices/y/uevent": "\0\0"})
    assert accelerators.pci_devices(host) == ()


def test_the_name_on_the_box_and_the_name_of_the_chip(machine):
    host = machine({"/usr/share/misc/pci.ids": IDS})
    assert accelerators.pci_name(host, "1002", "744c") == (
        "Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M",
        "/usr/share/misc/pci.ids",
    )
    assert accelerators.pci_name(host, "8086", "643e") == ("Lunar Lake NPU", "/usr/share/misc/pci.ids")


def test_a_device_of_the_next_maker_is_not_taken_for_it(machine):
    host = machine({"/usr/share/hwdata/pci.ids": IDS})
    assert accelerators.pci_name(host, "8086", "0100") is None
    assert accelerators.pci_name(host, "dead", "beef") is None


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


def test_the_board_and_its_chip(machine):
    host = machine({"/proc/device-tree/compatible": "radxa,rock-5b\0rockchip,rk3588\0"})
    assert accelerators.compatible(host) == ("radxa,rock-5b", "rockchip,rk3588")
    assert accelerators.compatible(machine({"/proc/device-tree/compatible": ""})) == ()
