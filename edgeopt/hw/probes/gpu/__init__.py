"""Probes of GPUs: by NVIDIA's library, Linux's DRM, and the tools of Windows and macOS."""

from edgeopt.hw.accelerators import Finding, gather, pci_devices
from edgeopt.hw.device import Facts, Unavailable
from edgeopt.hw.host import Host
from edgeopt.hw.probes.gpu import apple, drm, nvidia, windows

_DISPLAY_CONTROLLERS = 0x03
_MAKERS = {"10de": "an NVIDIA", "1002": "an AMD", "8086": "an Intel"}


def probe(host: Host) -> Facts | Unavailable:
    match host.call("platform", "system"):
        case "Darwin":
            return gather("gpu", (apple.find(host),), "system_profiler lists no GPU")
        case "Windows":
            return gather("gpu", windows.find(host), "Windows lists no display adapter for compute")
        case _:
            return _linux(host)


def _linux(host: Host) -> Facts | Unavailable:
    board = nvidia.find_jetson(host)
    cards = board if board.sheets else nvidia.find(host)
    nodes = drm.find(host, skip_nvidia=bool(cards.sheets))
    others = drm.find_vendor_nodes(host)
    findings = [cards, nodes, others]
    if not any(finding.sheets for finding in findings):
        findings.append(_without_driver(host))
    return gather("gpu", findings, f"no DRM render node of a GPU ({drm.FOLDER})")


def _without_driver(host: Host) -> Finding:
    """A GPU that is plugged in, but that nothing drives."""
    idle = [
        device
        for device in pci_devices(host)
        if device.kind >> 16 == _DISPLAY_CONTROLLERS and not device.driver and device.vendor in _MAKERS
    ]
    return Finding(
        unavailable={
            f"gpu.{device.slot}": f"{_MAKERS[device.vendor]} GPU at PCI {device.slot} has no driver bound to it"
            for device in idle
        }
    )
