import pytest

from edgeopt.hw.probes.gpu import probe

DEVICE = "/sys/class/drm/renderD128/device"
RADEON = {
    f"{DEVICE}/uevent": "DRIVER=amdgpu\nPCI_CLASS=30000\nPCI_ID=1002:744C\nPCI_SLOT_NAME=0000:2d:00.0\n",
    f"{DEVICE}/mem_info_vram_total": "25753026560\n",
    f"{DEVICE}/gpu_busy_percent": "3\n",
}


def test_a_radeon_with_all_that_amdgpu_tells(board):
    facts = probe(board("amd-radeon-desktop"))
    (gpu,) = facts.section
    assert (gpu.name, gpu.vendor, gpu.driver) == ("AMD Radeon RX 7900 XTX", "AMD", "amdgpu")
    assert (gpu.memory_total_bytes, gpu.memory_free_bytes, gpu.memory_shared) == (25753026560, 24573378560, False)
    assert (gpu.clock_max_hz, gpu.clock_hz, gpu.utilization_percent) == (2_526_000_000, 772_000_000, 3.0)
    assert (gpu.temperature_c, gpu.power_w, gpu.power_limit_w) == (41.0, 23.0, 315.0)
    assert gpu.numa_node is None
    assert gpu.apis == ("rocm", "migraphx")
    assert (gpu.runtime, gpu.runtime_installed, gpu.note) == ("onnxruntime-migraphx", False, "")
    assert facts.sources["accelerators.gpu.0.name"] == "/usr/share/libdrm/amdgpu.ids"


def test_an_amd_gpu_inside_a_cpu_shares_its_memory(board):
    facts = probe(board("amd-zen4"))
    assert (facts.section[0].name, facts.section[0].memory_shared) == ("AMD GPU 0x15bf", True)
    assert "no sensor" in facts.unavailable["gpu.0.temperature_c"]


def test_a_gpu_that_sleeps_is_not_woken(machine):
    facts = probe(machine({**RADEON, f"{DEVICE}/power/runtime_status": "suspended\n"}))
    assert facts.section[0].utilization_percent is None
    assert facts.unavailable["gpu.0.utilization_percent"] == "asleep until it is used"
    assert facts.section[0].memory_total_bytes == 25753026560


@pytest.mark.parametrize("text", ["-1", "0", "9" * 30, "zero", "", "25753026560 bytes", "\0"])
def test_absurd_memory_is_no_memory(machine, text):
    facts = probe(machine({**RADEON, f"{DEVICE}/mem_info_vram_total": text}))
    assert facts.section[0].memory_total_bytes is None
    assert facts.unavailable["gpu.0.memory_total_bytes"]


def test_more_free_than_there_is_is_not_believed(machine):
    facts = probe(machine({**RADEON, f"{DEVICE}/mem_info_vram_used": "-5\n"}))
    assert facts.section[0].memory_free_bytes is None
    assert "more than there is" in facts.unavailable["gpu.0.memory_free_bytes"]


def test_an_intel_gpu_inside_a_cpu_and_a_card_beside_it(board):
    facts = probe(board("intel-arc-desktop"))
    inside, card = facts.section
    assert (inside.name, inside.memory_shared, inside.clock_max_hz) == (
        "Intel UHD Graphics 630",
        True,
        1_050_000_000,
    )
    assert (card.name, card.memory_shared, card.power_limit_w) == ("Intel Arc A770", False, 190.0)
    assert (card.index, card.clock_hz, card.driver) == (1, 600_000_000, "i915")
    assert (card.apis, card.runtime, card.runtime_installed) == (("openvino",), "openvino", True)
    assert "does not report it" in facts.unavailable["gpu.1.memory_total_bytes"]


def test_intels_newer_driver(board):
    facts = probe(board("intel-core-ultra"))
    gpu = facts.section[0]
    assert (gpu.name, gpu.driver) == ("Intel Arc Graphics 130V / 140V", "xe")
    assert (gpu.clock_max_hz, gpu.clock_hz) == (1_950_000_000, None)
    assert facts.unavailable["gpu.0.clock_hz"] == "it idles with its clock off"


def test_a_node_that_this_user_may_not_open_and_one_that_a_container_lacks(machine):
    closed = machine({**RADEON, "/dev/dri/renderD128": ""}, calls={'os.access("/dev/dri/renderD128", 6)': False})
    assert "No permission to open /dev/dri/renderD128" in probe(closed).section[0].note
    lacking = machine({"/dev/null": "", "/dev/dri/card0": ""})
    (lacking.root / "dev/dri/renderD128").unlink()
    note = probe(lacking).section[0].note
    assert "There is no /dev/dri/renderD128" in note
    assert "/dev/kfd is missing" in note


def test_nvidia_without_its_own_driver(machine):
    facts = probe(machine({f"{DEVICE}/uevent": "DRIVER=nouveau\nPCI_ID=10DE:2684\n"}))
    assert facts.section[0].name == "NVIDIA GPU 0x2684"
    assert facts.section[0].apis == ()
    assert facts.section[0].note == "The driver nouveau runs no CUDA: install NVIDIA's own."


@pytest.mark.parametrize(
    ("name", "gpu", "vendor"),
    [
        ("raspberry-pi-4", "Broadcom VideoCore VI", "Broadcom"),
        ("raspberry-pi-5", "Broadcom VideoCore VII", "Broadcom"),
        ("qualcomm-qcs6490", "Qualcomm Adreno", "Qualcomm"),
    ],
)
def test_gpus_of_boards(board, name, gpu, vendor):
    (found,) = probe(board(name)).section
    assert (found.name, found.vendor, found.memory_shared, found.runtime) == (gpu, vendor, True, None)
    assert found.note == "No ONNX runtime that edgeopt supports can use it."


@pytest.mark.parametrize(
    ("driver", "compatible", "name"),
    [
        ("panthor", "rockchip,rk3588-mali", "Arm Mali-G610"),
        ("panthor", "arm,mali-valhall-csf", "Arm Mali (Valhall)"),
        ("panfrost", "arm,mali-t860", "Arm Mali-T860"),
        ("msm", "qcom,adreno-690.0", "Qualcomm Adreno 690"),
        ("newdriver", "maker,unknown", "newdriver GPU"),
    ],
)
def test_models_by_the_device_tree(machine, driver, compatible, name):
    facts = probe(machine({f"{DEVICE}/uevent": f"DRIVER={driver}\nOF_COMPATIBLE_0={compatible}\n"}))
    assert facts.section[0].name == name


def test_clocks_of_a_board_by_devfreq(machine):
    files = {
        f"{DEVICE}/uevent": "DRIVER=panfrost\n",
        f"{DEVICE}/devfreq/ff9a0000.gpu/max_freq": "800000000\n",
        f"{DEVICE}/devfreq/ff9a0000.gpu/cur_freq": "200000000\n",
    }
    gpu = probe(machine(files)).section[0]
    assert (gpu.clock_max_hz, gpu.clock_hz) == (800_000_000, 200_000_000)


KGSL = "/sys/class/kgsl/kgsl-3d0"


def test_a_mali_with_arms_own_driver_is_the_boards_only_gpu(board):
    """The render nodes of its display and of its NPU are none."""
    facts = probe(board("rockchip-rk3588"))
    (gpu,) = facts.section
    assert (gpu.name, gpu.driver) == ("Arm Mali-G610 (4 cores)", "mali")
    assert (gpu.clock_max_hz, gpu.clock_hz, gpu.utilization_percent) == (1_000_000_000, 300_000_000, 0.0)
    assert facts.sources["accelerators.gpu"] == "/sys/class/misc/mali0/device"


def test_an_adreno_with_qualcomms_own_driver(machine):
    files = {
        f"{KGSL}/gpu_model": "Adreno740v2\n",
        f"{KGSL}/max_gpuclk": "680000000\n",
        f"{KGSL}/gpuclk": "220000000\n",
        f"{KGSL}/gpu_busy_percentage": "12 %\n",
        f"{KGSL}/temp": "38500\n",
    }
    (gpu,) = probe(machine(files)).section
    assert (gpu.name, gpu.apis, gpu.runtime) == ("Qualcomm Adreno 740", ("qnn", "opencl"), "onnxruntime-qnn")
    assert (gpu.clock_max_hz, gpu.utilization_percent, gpu.temperature_c) == (680_000_000, 12.0, 38.5)
