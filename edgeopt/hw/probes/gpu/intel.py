"""Intel GPUs: what the drivers `i915` and `xe` write into sysfs."""

from edgeopt.hw import accelerators
from edgeopt.hw.accelerators import Sheet, number
from edgeopt.hw.host import Host

_INTEGRATED = "0000:00:02.0"
"""Where every GPU inside an Intel CPU sits; cards are on other buses."""


def fill(host: Host, sheet: Sheet, folder: str, lines: dict[str, str]) -> None:
    slot = lines.get("PCI_SLOT_NAME")
    if slot:
        sheet.put("memory_shared", slot == _INTEGRATED, f"{folder}/uevent: PCI_SLOT_NAME")
    if slot != _INTEGRATED:
        sheet.absent["memory_total_bytes"] = f"{lines.get('DRIVER', 'the driver')} does not report it in sysfs"
    accelerators.numa_node(host, sheet, folder)
    largest, current = _clock_files(host, folder)
    sheet.put("clock_max_hz", number(host.read(largest), 1e6), largest, f"no {largest}")
    if not accelerators.asleep(host, sheet, folder):
        # 0 while it idles in RC6, which is no clock.
        sheet.put("clock_hz", number(host.read(current), 1e6) or None, current, "it idles with its clock off")
        if slot != _INTEGRATED:
            accelerators.hwmon(host, sheet, folder)
        sheet.absent.setdefault("utilization_percent", "the driver reports it only through perf")
    sheet.driven_by(host, ("openvino",), ("openvino", "onnxruntime-openvino"))


def _clock_files(host: Host, folder: str) -> tuple[str, str]:
    """The highest clock of the hardware and the one of now; the first tile speaks for all."""
    if "tile0" in host.list(folder):
        clocks = f"{folder}/tile0/gt0/freq0"
        return f"{clocks}/rp0_freq", f"{clocks}/act_freq"
    cards = [name for name in host.list(f"{folder}/drm") if name.startswith("card")]
    card = f"{folder}/drm/{cards[0] if cards else 'card0'}"
    return f"{card}/gt_RP0_freq_mhz", f"{card}/gt_act_freq_mhz"
