from edgeopt.hw.device import Unavailable
from edgeopt.hw.probes.npu import probe


def test_a_hailo_by_its_node_and_the_exact_model_by_its_pci_id(board):
    facts = probe(board("raspberry-pi-5"))
    (npu,) = facts.section
    assert (npu.name, npu.driver, npu.vendor) == ("Hailo-8 or Hailo-8L", "hailo_pci", "Hailo")
    assert (npu.apis, npu.runtime, npu.runtime_installed, npu.note) == (("hailo",), "hailort", False, "")
    assert facts.sources["accelerators.npu"] == "/dev/hailo0"


def test_rockchips_own_kernel_shows_its_npu_as_a_platform_driver(board):
    (npu,) = probe(board("rockchip-rk3588")).section
    assert (npu.name, npu.driver, npu.clock_max_hz) == ("Rockchip NPU (RK3588)", "rknpu", 1_000_000_000)
    assert (npu.runtime, npu.runtime_installed) == ("rknn-toolkit-lite2", True)


def test_rockchips_node_of_older_kernels(machine):
    tree = {"/proc/device-tree/compatible": "radxa,rock3a\0rockchip,rk3568\0"}
    (npu,) = probe(machine({**tree, "/dev/rknpu": ""})).section
    assert npu.name == "Rockchip NPU (RK3568)"


def test_a_hexagon_is_one_npu_with_several_nodes(board):
    (npu,) = probe(board("qualcomm-qcs6490")).section
    assert (npu.name, npu.driver) == ("Qualcomm Hexagon NPU (QCS6490)", "fastrpc")
    assert (npu.apis, npu.runtime, npu.runtime_installed) == (("qnn",), "onnxruntime-qnn", True)


def test_the_node_of_androids_kernels(machine):
    (npu,) = probe(machine({"/dev/adsprpc-smd": "", "/dev/adsprpc-smd-secure": ""})).section
    assert npu.driver == "adsprpc"


def test_a_dsp_for_sound_is_no_npu(machine):
    assert isinstance(probe(machine({"/dev/fastrpc-adsp": ""})), Unavailable)


def test_two_cards_are_two(machine):
    found = probe(machine({"/dev/apex_0": "", "/dev/apex_1": "", "/dev/ethosu0": "", "/dev/ethosn0": ""})).section
    assert [(npu.name, npu.index) for npu in found] == [
        ("Coral Edge TPU", 0),
        ("Coral Edge TPU", 1),
        ("Arm Ethos-U NPU", 2),
        ("Arm Ethos-N NPU", 3),
    ]
