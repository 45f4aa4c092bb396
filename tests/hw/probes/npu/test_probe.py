from edgeopt.hw.device import Unavailable
from edgeopt.hw.probes.npu import probe


def test_none(board):
    answer = probe(board("intel-avx2"))
    assert isinstance(answer, Unavailable)
    assert answer.reason == (
        "no compute accelerator (/sys/class/accel), no device node and no PCI or USB device of a known NPU"
    )


def test_systems_without_a_kernel_of_linux_are_told_so_in_their_own_words(machine):
    assert "only Apple silicon" in probe(machine(calls={"platform.system()": "Darwin"})).reason
    assert "ComputeAccelerator" in probe(machine(calls={"platform.system()": "Windows"})).reason


def test_one_npu_is_not_listed_twice_by_class_node_and_bus(machine):
    slot = "DRIVER=intel_vpu\nPCI_ID=8086:643E\nPCI_SLOT_NAME=0000:00:0b.0\n"
    files = {
        "/sys/class/accel/accel0/device/uevent": slot,
        "/sys/bus/pci/devices/0000:00:0b.0/uevent": slot,
        "/dev/apex_0": "",
        "/sys/class/apex/apex_0/device/uevent": "PCI_ID=1AC1:089A\nPCI_SLOT_NAME=0000:03:00.0\n",
        "/sys/bus/pci/devices/0000:03:00.0/uevent": "DRIVER=apex\nPCI_ID=1AC1:089A\nPCI_SLOT_NAME=0000:03:00.0\n",
    }
    assert [npu.name for npu in probe(machine(files)).section] == ["Intel NPU (Lunar Lake)", "Coral Edge TPU"]
