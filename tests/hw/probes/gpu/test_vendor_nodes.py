from edgeopt.hw.probes.gpu import probe

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
