import pytest

from edgeopt.hw.probes.gpu import probe


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
