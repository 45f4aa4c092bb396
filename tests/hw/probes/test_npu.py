import pytest

from edgeopt.hw.device import Unavailable
from edgeopt.hw.probes.npu import COMMAND, probe


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


MAC = {"platform.system()": "Darwin", "platform.python_version()": "3.12.4"}
SYSCTL = "sysctl hw machdep.cpu"


def test_every_apple_chip_has_a_neural_engine(machine):
    (npu,) = probe(machine(calls=MAC, run={SYSCTL: "machdep.cpu.brand_string: Apple M2\n"})).section
    assert npu.name == "Apple Neural Engine (Apple M2)"
    assert (npu.apis, npu.runtime, npu.runtime_installed) == (("coreml",), "onnxruntime", False)


def test_a_mac_with_an_intel_cpu_has_none(machine):
    host = machine(calls=MAC, run={SYSCTL: "machdep.cpu.brand_string: Intel(R) Core(TM) i7-9750H CPU @ 2.60GHz\n"})
    assert "only Apple silicon" in probe(host).reason


WINDOWS = {"platform.system()": "Windows", "platform.python_version()": "3.12.4"}
KEY = "HKEY_LOCAL_MACHINE\\SYSTEM\\CurrentControlSet\\Control\\Class\\{f01a9d53-3ff6-48d2-9f97-c8a7004be10c}"


def test_an_npu_by_its_name_in_the_registry(machine):
    answer = (
        f"\r\n{KEY}\\0000\r\n    DriverDesc    REG_SZ    Intel(R) AI Boost\r\n"
        "    DriverVersion    REG_SZ    32.0.100.3104\r\n\r\nEnd of search: 2 match(es) found.\r\n"
    )
    (npu,) = probe(machine(calls=WINDOWS, run={" ".join(COMMAND): answer})).section
    assert (npu.name, npu.vendor, npu.driver) == ("Intel(R) AI Boost", "Intel", "32.0.100.3104")
    assert (npu.apis, npu.runtime) == (("openvino",), "openvino")


def test_a_maker_that_is_not_known(machine):
    answer = f"{KEY}\\0001\n    DriverDesc    REG_SZ    Some Accelerator\n"
    facts = probe(machine(calls=WINDOWS, run={" ".join(COMMAND): answer}))
    assert (facts.section[0].vendor, facts.section[0].apis) == (None, ())
    assert facts.unavailable["npu.0.driver"] == "the registry does not report it"
