from edgeopt.hw.device import Unavailable
from edgeopt.hw.probes.gpu import probe


def test_nothing_is_said_with_every_place_that_was_looked_at(machine):
    drm = {
        "/sys/class/drm/renderD128/device/vendor": "0x1af4\n",
        "/sys/class/drm/renderD128/device/uevent": "DRIVER=virtio-pci\n",
    }
    answer = probe(machine(drm))
    assert isinstance(answer, Unavailable)
    assert answer.reason == (
        "no NVIDIA driver (/proc/driver/nvidia is missing); no DRM render node of a GPU (/sys/class/drm)"
    )


def test_a_gpu_that_is_plugged_in_without_a_driver_is_named(machine):
    slot = "/sys/bus/pci/devices/0000:01:00.0"
    answer = probe(machine({f"{slot}/uevent": "PCI_CLASS=30000\nPCI_ID=10DE:2684\nPCI_SLOT_NAME=0000:01:00.0\n"}))
    assert "an NVIDIA GPU at PCI 0000:01:00.0 has no driver bound to it" in answer.reason


def test_systems_without_a_kernel_of_linux_are_told_so_in_their_own_words(machine):
    mac = probe(machine(calls={"platform.system()": "Darwin"}))
    windows = probe(machine(calls={"platform.system()": "Windows"}))
    assert mac.reason == "system_profiler lists no GPU"
    assert "PowerShell did not list the display adapters" in windows.reason
