"""GPUs that a runtime could compute on: NVIDIA by its driver's files, others by their DRM render node."""

import re

from edgeopt.hw import kernel_text
from edgeopt.hw.device import Accelerator, Unavailable
from edgeopt.hw.facts import Facts
from edgeopt.hw.host import Host

NVIDIA_FOLDER = "/proc/driver/nvidia"
DRM_FOLDER = "/sys/class/drm"
_NVIDIA = "0x10de"
_VENDORS = {"0x8086": "Intel", "0x1002": "AMD", _NVIDIA: "NVIDIA"}


def probe(host: Host) -> Facts | Unavailable:
    nvidia = _nvidia(host)
    found = nvidia if isinstance(nvidia, tuple) else ()
    drm = _render_nodes(host, skip_nvidia=bool(found))
    found += drm
    if not found:
        reason = nvidia.reason if isinstance(nvidia, Unavailable) else "the NVIDIA driver lists no GPU"
        return Unavailable(f"{reason} and no DRM render node of a GPU ({DRM_FOLDER})")
    sources = {"accelerators.gpu": NVIDIA_FOLDER if found != drm else DRM_FOLDER}
    return Facts(found, sources, {"gpu.nvidia": nvidia.reason} if isinstance(nvidia, Unavailable) else {})


def _nvidia(host: Host) -> tuple[Accelerator, ...] | Unavailable:
    text = host.read(f"{NVIDIA_FOLDER}/version")
    if text is None:
        return Unavailable(f"no NVIDIA driver ({NVIDIA_FOLDER} is missing)", "cuda")
    version = re.search(r"\s(\d+\.\d+(?:\.\d+)?)\s", text)
    nodes = [name for name in host.list("/dev") if re.fullmatch(r"nvidia\d+", name)]
    if not nodes:
        return Unavailable("an NVIDIA driver but no /dev/nvidia0 (a container must be given the GPU)", "cuda")
    names = []
    for bus in host.list(f"{NVIDIA_FOLDER}/gpus"):
        information = kernel_text.blocks(host.read(f"{NVIDIA_FOLDER}/gpus/{bus}/information") or "")
        names.append(next(iter(kernel_text.values(information, "Model")), "NVIDIA GPU"))
    # A container sees every GPU of the machine in /proc, but only its own in /dev.
    names = names[: len(nodes)] if names else ["NVIDIA GPU"] * len(nodes)
    return tuple(Accelerator("gpu", name, driver=version[1] if version else None) for name in names)


def _render_nodes(host: Host, *, skip_nvidia: bool) -> tuple[Accelerator, ...]:
    found = []
    for node in host.list(DRM_FOLDER):
        if not node.startswith("renderD"):
            continue
        folder = f"{DRM_FOLDER}/{node}/device"
        vendor = (host.read(f"{folder}/vendor") or "").strip()
        driver = re.search(r"^DRIVER=(\S+)$", host.read(f"{folder}/uevent") or "", re.MULTILINE)
        if vendor not in _VENDORS and (vendor or not driver):
            continue  # the display of a virtual machine or of a server's management chip
        if skip_nvidia and vendor == _NVIDIA:
            continue
        device = (host.read(f"{folder}/device") or "").strip()
        name = f"{_VENDORS[vendor]} GPU {device}".strip() if vendor else f"{driver[1] if driver else ''} GPU"
        found.append(Accelerator("gpu", name, driver=driver[1] if driver else None))
    return tuple(found)
