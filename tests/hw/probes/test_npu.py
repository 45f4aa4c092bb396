from edgeopt.hw.device import Accelerator, Unavailable
from edgeopt.hw.probes.npu import probe


def test_the_kernels_accelerator_class(board):
    facts = probe(board("amd-zen4"))
    assert facts.section == (Accelerator("npu", "AMD NPU", driver="amdxdna"),)
    assert facts.sources == {"accelerators.npu": "/sys/class/accel/accel0"}


def test_a_driver_with_a_device_node_of_its_own(board):
    assert probe(board("raspberry-pi-5")).section == (Accelerator("npu", "Hailo NPU", driver="hailo_pci"),)


def test_none(board):
    answer = probe(board("intel-avx2"))
    assert isinstance(answer, Unavailable)
    assert "/sys/class/accel" in answer.reason
