import pytest

from edgeopt.hw.probes.npu import probe

DEVICE = "/sys/class/accel/accel0/device"


def test_amds_driver_names_its_model(board):
    facts = probe(board("amd-zen4"))
    (npu,) = facts.section
    assert (npu.name, npu.vendor, npu.driver) == ("AMD XDNA NPU (Phoenix)", "AMD", "amdxdna")
    assert (npu.apis, npu.runtime, npu.runtime_installed) == (("vitisai",), "onnxruntime-vitisai", False)
    assert facts.sources["accelerators.npu"] == "/sys/class/accel/accel0"
    assert facts.sources["accelerators.npu.0.name"].endswith("/vbnv")


def test_an_intel_npu_that_this_user_may_not_open(board):
    facts = probe(board("intel-core-ultra"))
    (npu,) = facts.section
    assert (npu.name, npu.vendor, npu.driver) == ("Intel NPU (Lunar Lake)", "Intel", "intel_vpu")
    assert (npu.clock_max_hz, npu.clock_hz, npu.memory_shared) == (1_950_000_000, None, True)
    assert (npu.apis, npu.runtime, npu.runtime_installed) == (("openvino",), "openvino", True)
    assert "No permission to open /dev/accel/accel0" in npu.note
    assert "usually `render`" in npu.note


@pytest.mark.parametrize(
    ("uevent", "name", "api"),
    [
        ("DRIVER=intel_vpu\nPCI_ID=8086:FFFF\n", "Intel NPU", ("openvino",)),
        ("DRIVER=qaic\nPCI_ID=17CB:A100\n", "Qualcomm Cloud AI 100", ("qaic",)),
        ("DRIVER=rocket\nOF_COMPATIBLE_0=rockchip,rk3588-rknn-core\n", "Rockchip NPU", ("rknn",)),
        ("DRIVER=ethosu\nOF_COMPATIBLE_0=arm,ethos-u65\n", "Arm Ethos-U NPU", ("ethos-u",)),
        ("DRIVER=habanalabs\nPCI_ID=1DA3:1020\n", "Habana accelerator", ("habana",)),
        ("DRIVER=newdriver\n", "newdriver NPU", ()),
        ("", "unnamed NPU", ()),
    ],
)
def test_names_by_id_or_driver(machine, uevent, name, api):
    (npu,) = probe(machine({f"{DEVICE}/uevent": uevent})).section
    assert (npu.name, npu.apis) == (name, api)


def test_other_names_in_the_class_are_no_npus(machine):
    assert "no compute accelerator" in probe(machine({"/sys/class/accel/version": "1"})).reason
