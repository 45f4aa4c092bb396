import pytest

from edgeopt.hw.device import Unavailable
from edgeopt.hw.probes.gpu import probe

QUESTION = (
    "nvidia-smi --query-gpu=pci.bus_id,name,driver_version,memory.total,memory.free,clocks.max.sm,clocks.sm,"
    "power.limit,power.draw,temperature.gpu,utilization.gpu{} --format=csv,noheader,nounits"
)
OPEN_MODULE = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n"


def test_two_gpus_through_nvml(with_pynvml):
    facts = probe(with_pynvml(versions={"onnxruntime-gpu": "1.22.0"}))
    first, second = facts.section
    assert (first.name, first.vendor, first.driver) == ("NVIDIA A100-SXM4-80GB", "NVIDIA", "550.54.15")
    assert (first.compute_capability, first.cuda_version) == ("8.0", "12.4")
    assert (first.memory_total_bytes, first.memory_free_bytes) == (81920 * 2**20, 80000 * 2**20)
    assert (first.clock_max_hz, first.clock_hz) == (1_410_000_000, 210_000_000)
    assert (first.power_limit_w, first.power_w) == (400.0, pytest.approx(61.234))
    assert (first.temperature_c, second.temperature_c) == (34.0, 35.0)
    assert (first.utilization_percent, second.utilization_percent) == (45.0, 0.0)
    assert (first.numa_node, second.numa_node) == (0, 1)
    assert first.links == ("NVLink to GPU 1 (4 links)", "P2P to GPU 1")
    assert second.links == ("NVLink to GPU 0 (4 links)", "P2P to GPU 0")
    assert (first.index, second.index) == (0, 1)
    assert first.apis == ("cuda", "tensorrt")
    assert (first.runtime, first.runtime_installed, first.note) == ("onnxruntime-gpu", True, "")
    assert facts.unavailable == {}


def test_each_fact_names_the_call_that_told_it(with_pynvml):
    sources = probe(with_pynvml()).sources
    assert sources["accelerators.gpu"] == "/proc/driver/nvidia, NVML"
    assert sources["accelerators.gpu.1.memory_free_bytes"] == "NVML nvmlDeviceGetMemoryInfo"
    assert sources["accelerators.gpu.0.runtime_installed"] == "installed Python distributions"


def test_links_that_end_at_a_switch(with_pynvml):
    assert probe(with_pynvml("switch")).section[0].links == ("NVLink to an NVSwitch (4 links)",)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("library", "libnvidia-ml.so.1"),
        ("driver", "not loaded"),
        ("permission", "gives this user no access"),
        ("mismatch", "different versions: restart"),
        ("no gpu", "NVML lists no GPU"),
        ("crash", "crashed: SIGABRT"),
    ],
)
def test_what_keeps_nvml_from_answering_is_said_and_the_drivers_files_still_count(with_pynvml, fault, words):
    facts = probe(with_pynvml(fault))
    assert words in facts.unavailable["gpu.nvidia"]
    assert [gpu.name for gpu in facts.section] == ["NVIDIA A100-SXM4-80GB"] * 2
    assert words in facts.section[0].note
    assert (facts.section[0].driver, facts.section[0].cuda_version) == ("550.54.15", "12.4")
    assert facts.section[0].memory_total_bytes is None


def test_a_call_that_raises_costs_that_fact_alone(with_pynvml):
    facts = probe(with_pynvml("call"))
    assert facts.section[0].power_w is None
    assert facts.unavailable["gpu.0.power_w"] == "NVML failed: the sensor went away"
    assert facts.unavailable["gpu.0.temperature_c"] == "this GPU does not report it"
    assert facts.section[0].power_limit_w == 400.0


def test_a_gpu_that_is_lost_stays_in_the_list_with_its_name(with_pynvml):
    facts = probe(with_pynvml("lost"))
    assert len(facts.section) == 2
    assert "fallen off the bus" in facts.section[1].note
    assert "fallen off the bus" in facts.unavailable["gpu.1.memory_total_bytes"]
    assert facts.section[0].memory_total_bytes == 81920 * 2**20


def test_mig_and_a_hidden_gpu_stand_in_the_way(with_pynvml):
    host = with_pynvml("mig", calls={'os.getenv("CUDA_VISIBLE_DEVICES")': ""})
    note = probe(host).section[0].note
    assert "MIG is on" in note
    assert "CUDA_VISIBLE_DEVICES hides" in note


def test_a_node_that_this_user_may_not_open(with_pynvml):
    host = with_pynvml(calls={'os.access("/dev/nvidiactl", 6)': False})
    assert "No permission to open /dev/nvidiactl" in probe(host).section[0].note


def test_without_the_binding_nvidia_smi_tells_most(machine, driver_files):
    answer = (
        "00000000:17:00.0, NVIDIA A100-SXM4-80GB, 550.54.15, 81920, 80000, 1410, 210, 400.00, 61.23, 34, 45, 8.0\n"
        "00000000:CA:00.0, NVIDIA A100-SXM4-80GB, 550.54.15, 81920, 79000, 1410, 210, [N/A], [N/A], 35, 0, 8.0\n"
    )
    facts = probe(machine(driver_files, run={QUESTION.format(",compute_cap"): answer}))
    first, second = facts.section
    assert (first.memory_total_bytes, first.compute_capability, first.power_w) == (81920 * 2**20, "8.0", 61.23)
    assert first.cuda_version == "12.4"
    assert second.power_limit_w is None
    assert facts.unavailable["gpu.1.power_limit_w"] == "nvidia-smi says N/A"
    assert facts.sources["accelerators.gpu.0.power_w"] == "nvidia-smi power.draw"
    assert "pip install onnxruntime-gpu nvidia-ml-py" in facts.unavailable["gpu.nvidia"]
    assert first.note == ""


def test_an_old_nvidia_smi_is_asked_for_less(machine, driver_files):
    answer = "00000000:17:00.0, Tesla T4, 470.57.02, 15109, 15000, 1590, 300, 70.00, 9.5, 30, 0\n"
    facts = probe(machine(driver_files, run={QUESTION.format(""): answer}))
    assert facts.section[0].name == "Tesla T4"
    assert facts.section[0].cuda_version == "11.4"
    assert facts.section[0].compute_capability is None
    assert "nvidia-smi does not report it" in facts.unavailable["gpu.0.compute_capability"]


def test_without_binding_and_tool_the_drivers_files_are_left(machine, driver_files):
    facts = probe(machine({**driver_files, "/sys/bus/pci/devices/0000:ca:00.0/numa_node": "1\n"}))
    assert [(gpu.name, gpu.driver, gpu.numa_node) for gpu in facts.section] == [
        ("NVIDIA A100-SXM4-80GB", "550.54.15", None),
        ("NVIDIA A100-SXM4-80GB", "550.54.15", 1),
    ]
    assert "nvidia-ml-py, is not installed" in facts.unavailable["gpu.nvidia"]


def test_nvidias_open_module(machine, driver_files):
    facts = probe(machine({**driver_files, "/proc/driver/nvidia/version": OPEN_MODULE}))
    assert facts.section[0].driver == "570.86.15"


def test_a_container_without_the_device_node_has_no_gpu(machine, driver_files):
    files = {path: text for path, text in driver_files.items() if not path.startswith("/dev/nvidia")}
    answer = probe(machine(files))
    assert isinstance(answer, Unavailable)
    assert "an NVIDIA driver but no /dev/nvidia0 (start the container" in answer.reason


def test_a_driver_that_found_no_gpu(machine, driver_files):
    answer = probe(machine({"/proc/driver/nvidia/version": driver_files["/proc/driver/nvidia/version"]}))
    assert isinstance(answer, Unavailable)
    assert "loaded, but found no GPU" in answer.reason


def test_a_container_has_only_the_gpus_it_was_given(machine, driver_files):
    files = {path: text for path, text in driver_files.items() if path != "/dev/nvidia0"}
    facts = probe(machine({**files, "/sys/bus/pci/devices/0000:ca:00.0/numa_node": "1\n"}))
    assert [gpu.numa_node for gpu in facts.section] == [1]


def test_one_nvidia_gpu_is_not_listed_twice(machine, driver_files):
    drm = {"/sys/class/drm/renderD128/device/uevent": "DRIVER=nvidia\nPCI_ID=10DE:20B2\n"}
    assert len(probe(machine({**driver_files, **drm})).section) == 2


def test_a_gpu_in_wsl(with_pynvml, monkeypatch, machine):
    host = with_pynvml(files={"/dev/dxg": "", "/usr/lib/wsl/lib/libnvidia-ml.so.1": ""})
    for path in ("proc/driver/nvidia/version", "dev/nvidia0", "dev/nvidia1", "dev/nvidiactl"):
        (host.root / path).unlink()
    first = probe(host).section[0]
    assert (first.name, first.driver, first.note) == ("NVIDIA A100-SXM4-80GB", "550.54.15", "")


@pytest.mark.parametrize(
    "gpus", [5, "x", {}, [None], [[]], [{}], [{"name": 3, "errors": 1, "links": 2, "clock_mhz": 1e308}]]
)
def test_an_answer_of_another_shape_breaks_nothing(machine, driver_files, gpus):
    calls = {"edgeopt.hw.nvml.query()": {"driver": [], "cuda": "x", "gpus": gpus, "errors": 0}}
    host = machine(driver_files, calls=calls, versions={"nvidia-ml-py": "12"})
    assert {gpu.driver for gpu in probe(host).section} == {"550.54.15"}


def test_an_orin_by_its_own_files_and_not_by_nvml(board):
    facts = probe(board("jetson-orin"))
    (gpu,) = facts.section
    assert (gpu.name, gpu.vendor) == ("Jetson Orin GPU (Ampere)", "NVIDIA")
    assert (gpu.driver, gpu.cuda_version, gpu.compute_capability) == ("L4T 36.4.3 (JetPack 6.2)", "12.6", "8.7")
    assert (gpu.clock_max_hz, gpu.clock_hz) == (1_020_000_000, 306_000_000)
    assert (gpu.utilization_percent, gpu.temperature_c, gpu.memory_shared) == (12.5, 49.593, True)
    assert (gpu.apis, gpu.runtime, gpu.runtime_installed) == (("cuda", "tensorrt"), "onnxruntime-gpu", True)
    assert gpu.note == ""
    assert facts.unavailable == {}
    assert facts.sources["accelerators.gpu.0.driver"] == "/etc/nv_tegra_release"


TREE = {"/proc/device-tree/compatible": "nvidia,p3737-0000\0nvidia,tegra234\0"}


@pytest.mark.parametrize(
    ("release", "driver"),
    [
        ("# R36 (release), REVISION: 3.0, GCID: 1", "L4T 36.3.0 (JetPack 6.0)"),
        ("# R35 (release), REVISION: 4.1, GCID: 1", "L4T 35.4.1 (JetPack 5)"),
        ("# R99 (release), REVISION: 1.0, GCID: 1", "L4T 99.1.0"),
        ("nonsense", None),
    ],
)
def test_jetpack_by_the_release_of_its_linux(machine, release, driver):
    facts = probe(machine({**TREE, "/etc/nv_tegra_release": release}))
    assert facts.section[0].driver == driver
    assert driver or "/etc/nv_tegra_release" in facts.unavailable["gpu.0.driver"]


def test_a_container_without_the_gpu(machine):
    facts = probe(machine({**TREE, "/dev/null": ""}))
    assert "--runtime nvidia" in facts.section[0].note


def test_what_jetpack_has_not_written_has_a_reason(machine):
    facts = probe(machine(TREE))
    assert facts.section[0].cuda_version is None
    assert "no CUDA of JetPack" in facts.unavailable["gpu.0.cuda_version"]
    assert facts.unavailable["gpu.0.clock_max_hz"] == "no GPU in /sys/class/devfreq"
    assert facts.unavailable["gpu.0.temperature_c"] == "no thermal zone of the GPU"
