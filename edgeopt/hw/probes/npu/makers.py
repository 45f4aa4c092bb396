"""What edgeopt knows of each maker's NPUs: PCI and USB ids, names, and the runtimes that drive them."""

from typing import NamedTuple


class Maker(NamedTuple):
    vendor: str
    name: str
    """Where the exact model is not told."""
    apis: tuple[str, ...]
    runtimes: tuple[str, ...]
    """Distributions for Python, the usual one first."""
    driver: str
    """The kernel's driver, and what is missing where it is not bound."""
    shares_memory: bool | None
    """Whether it works in the host's memory; None where cards differ."""


INTEL = Maker("Intel", "Intel NPU", ("openvino",), ("openvino", "onnxruntime-openvino"), "intel_vpu", True)
AMD = Maker("AMD", "AMD XDNA NPU", ("vitisai",), ("onnxruntime-vitisai",), "amdxdna", True)
QUALCOMM = Maker("Qualcomm", "Qualcomm Hexagon NPU", ("qnn",), ("onnxruntime-qnn",), "fastrpc", True)
CLOUD_AI = Maker("Qualcomm", "Qualcomm Cloud AI 100", ("qaic",), ("qaic",), "qaic", False)
ROCKCHIP = Maker("Rockchip", "Rockchip NPU", ("rknn",), ("rknn-toolkit-lite2", "rknn-toolkit2"), "rknpu", True)
HAILO = Maker("Hailo", "Hailo NPU", ("hailo",), ("hailort",), "hailo_pci", None)
CORAL = Maker(
    "Google", "Coral Edge TPU", ("edgetpu",), ("pycoral", "ai-edge-litert", "tflite-runtime"), "apex", False
)
HABANA = Maker("Habana", "Habana accelerator", ("habana",), ("habana-torch-plugin",), "habanalabs", False)
ETHOS_U = Maker("Arm", "Arm Ethos-U NPU", ("ethos-u",), ("tflite-runtime", "ai-edge-litert"), "ethosu", True)
ETHOS_N = Maker("Arm", "Arm Ethos-N NPU", ("ethos-n",), ("pyarmnn",), "ethosn", True)

# The ids in the drivers of the kernel (drivers/accel) and of the makers.
PCI_MODELS: dict[tuple[str, str], tuple[Maker, str]] = {
    ("8086", "7d1d"): (INTEL, "Intel NPU (Meteor Lake)"),
    ("8086", "ad1d"): (INTEL, "Intel NPU (Arrow Lake)"),
    ("8086", "643e"): (INTEL, "Intel NPU (Lunar Lake)"),
    ("8086", "b03e"): (INTEL, "Intel NPU (Panther Lake)"),
    ("8086", "fd3e"): (INTEL, "Intel NPU (Wildcat Lake)"),
    ("8086", "d71d"): (INTEL, "Intel NPU (Nova Lake)"),
    ("1022", "1502"): (AMD, "AMD XDNA NPU (Phoenix or Hawk Point)"),
    ("1022", "17f0"): (AMD, "AMD XDNA 2 NPU (Strix, Strix Halo or Krackan)"),
    ("17cb", "a100"): (CLOUD_AI, "Qualcomm Cloud AI 100"),
    ("1ac1", "089a"): (CORAL, "Coral Edge TPU"),
    ("1e60", "2864"): (HAILO, "Hailo-8 or Hailo-8L"),
    ("1e60", "45c4"): (HAILO, "Hailo-10H or Hailo-15H"),
    ("1e60", "43a2"): (HAILO, "Hailo-15L"),
}
# Makers that sell nothing else with these ids.
PCI_MAKERS: dict[str, Maker] = {"1e60": HAILO, "1da3": HABANA}

USB_MODELS: dict[tuple[str, str], tuple[Maker, str]] = {
    ("1a6e", "089a"): (CORAL, "Coral USB Accelerator"),
    ("18d1", "9302"): (CORAL, "Coral USB Accelerator"),
}

# The driver that is bound, for devices of the kernel's class that have no PCI id.
DRIVERS: dict[str, Maker] = {
    "intel_vpu": INTEL,
    "amdxdna": AMD,
    "qaic": CLOUD_AI,
    "rocket": ROCKCHIP._replace(driver="rocket"),
    "ethosu": ETHOS_U,
    "habanalabs": HABANA,
}


def of_pci(vendor: str, device: str) -> tuple[Maker, str] | None:
    known = PCI_MODELS.get((vendor, device))
    maker = PCI_MAKERS.get(vendor)
    return known or ((maker, maker.name) if maker else None)
