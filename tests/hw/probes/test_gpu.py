from edgeopt.hw.device import Accelerator, Unavailable
from edgeopt.hw.probes.gpu import probe

NVIDIA = {
    "/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19\n",
    "/proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: \t\t NVIDIA L4\nIRQ:   \t\t 130\n",
}
OPEN_MODULE = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n"


def test_nvidia(machine):
    facts = probe(machine({**NVIDIA, "/dev/nvidia0": "", "/dev/nvidiactl": ""}))
    assert facts.section == (Accelerator("gpu", "NVIDIA L4", driver="535.104.05"),)


def test_nvidias_open_module(machine):
    facts = probe(machine({**NVIDIA, "/proc/driver/nvidia/version": OPEN_MODULE, "/dev/nvidia0": ""}))
    assert facts.section[0].driver == "570.86.15"


def test_a_container_without_the_device_node_has_no_gpu(machine):
    answer = probe(machine(NVIDIA))
    assert isinstance(answer, Unavailable)
    assert "no /dev/nvidia0" in answer.reason


def test_a_container_has_only_the_gpus_it_was_given(machine):
    other = {"/proc/driver/nvidia/gpus/0000:02:00.0/information": "Model: NVIDIA L4\n"}
    assert len(probe(machine({**NVIDIA, **other, "/dev/nvidia1": ""})).section) == 1


def test_other_gpus_by_their_render_node(board):
    facts = probe(board("amd-zen4"))
    assert facts.section == (Accelerator("gpu", "AMD GPU 0x15bf", driver="amdgpu"),)
    assert probe(board("raspberry-pi-4")).section == (Accelerator("gpu", "v3d GPU", driver="v3d"),)


def test_one_nvidia_gpu_is_not_listed_twice(machine):
    drm = {"/sys/class/drm/renderD128/device/vendor": "0x10de\n"}
    assert len(probe(machine({**NVIDIA, **drm, "/dev/nvidia0": ""})).section) == 1


def test_the_display_of_a_virtual_machine_is_no_gpu(machine):
    drm = {
        "/sys/class/drm/renderD128/device/vendor": "0x1af4\n",
        "/sys/class/drm/renderD128/device/uevent": "DRIVER=virtio-pci\n",
    }
    answer = probe(machine(drm))
    assert isinstance(answer, Unavailable)
    assert answer.reason == (
        "no NVIDIA driver (/proc/driver/nvidia is missing) and no DRM render node of a GPU (/sys/class/drm)"
    )
