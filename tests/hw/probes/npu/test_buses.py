import pytest

from edgeopt.hw.probes.npu import probe

USB = "/sys/bus/usb/devices"


def test_a_coral_stick_that_this_user_may_not_open(board):
    (npu,) = probe(board("amd-radeon-desktop")).section
    assert (npu.name, npu.apis, npu.runtime) == ("Coral USB Accelerator", ("edgetpu",), "pycoral")
    assert "No permission to open /dev/bus/usb/002/003" in npu.note


def test_a_coral_stick_before_its_firmware_is_loaded(machine):
    files = {f"{USB}/1-1.2/idVendor": "1a6e\n", f"{USB}/1-1.2/idProduct": "089a\n"}
    assert probe(machine(files)).section[0].name == "Coral USB Accelerator"


@pytest.mark.parametrize(
    ("ids", "name", "driver"),
    [
        ("1AC1:089A", "Coral Edge TPU", "apex"),
        ("1E60:2864", "Hailo-8 or Hailo-8L", "hailo_pci"),
        ("1E60:0001", "Hailo NPU", "hailo_pci"),
        ("8086:7D1D", "Intel NPU (Meteor Lake)", "intel_vpu"),
        ("1022:17F0", "AMD XDNA 2 NPU (Strix, Strix Halo or Krackan)", "amdxdna"),
    ],
)
def test_a_card_that_no_driver_drives(machine, ids, name, driver):
    place = "/sys/bus/pci/devices/0000:05:00.0"
    facts = probe(machine({f"{place}/uevent": f"PCI_CLASS=120000\nPCI_ID={ids}\nPCI_SLOT_NAME=0000:05:00.0\n"}))
    (npu,) = facts.section
    assert (npu.name, npu.driver) == (name, None)
    assert npu.note == f"No driver is bound to it: install and load {driver}."
    assert driver in facts.unavailable["npu.0.driver"]


def test_a_driver_without_a_node(machine):
    place = "/sys/bus/pci/devices/0000:05:00.0"
    facts = probe(machine({f"{place}/uevent": "DRIVER=hailo\nPCI_ID=1E60:2864\n"}))
    assert "shows no device node" in facts.section[0].note


def test_other_devices_are_no_npus(machine):
    files = {f"{USB}/1-1/idVendor": "18d1\n", f"{USB}/1-1/idProduct": "4ee7\n", f"{USB}/usb1/idVendor": "1d6b\n"}
    assert "no PCI or USB device" in probe(machine(files)).reason


@pytest.mark.parametrize("text", ["9" * 5000, "-1", "x", ""])
def test_absurd_numbers_on_the_bus(machine, text):
    files = {"idVendor": "18d1\n", "idProduct": "9302\n", "busnum": text, "devnum": text}
    host = machine({f"{USB}/2-3/{name}": content for name, content in files.items()})
    assert len(probe(host).section) == 1
