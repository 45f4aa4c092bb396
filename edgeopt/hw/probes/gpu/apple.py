"""GPUs of Macs, from `system_profiler`; on Apple silicon from the chip's name where that does not answer."""

import re

from edgeopt.hw import sysctl
from edgeopt.hw.accelerators import Finding, Sheet, json_of, number, rows
from edgeopt.hw.host import Host

DISPLAYS = ("system_profiler", "-json", "SPDisplaysDataType")
BRAND = "sysctl machdep.cpu.brand_string"
_MEMORY = "sysctl hw.memsize"
_SOURCE = " ".join(DISPLAYS)
_VENDORS = (("apple", "Apple"), ("amd", "AMD"), ("ati", "AMD"), ("intel", "Intel"), ("nvidia", "NVIDIA"))
_UNITS = {"MB": 2**20, "GB": 2**30}


def chip(host: Host) -> str | None:
    """`Apple M2 Pro`; None on a Mac with an Intel CPU."""
    brand = sysctl.read(host).get("machdep.cpu.brand_string", "")
    return brand if brand.startswith("Apple") else None


def find(host: Host) -> Finding:
    answer = json_of(host.run(DISPLAYS))
    cards = rows(answer.get("SPDisplaysDataType")) if isinstance(answer, dict) else ()
    sheets = tuple(_card(host, card) for card in cards if isinstance(card.get("sppci_model"), str))
    if sheets:
        return Finding(sheets, {}, (_SOURCE,))
    silicon = chip(host)
    if not silicon:
        return Finding()
    sheet = Sheet("gpu")
    sheet.put("name", silicon, BRAND)
    sheet.put("vendor", "Apple", BRAND)
    _unified(host, sheet)
    _drive(host, sheet)
    return Finding((sheet,), {}, (BRAND,))


def _unified(host: Host, sheet: Sheet) -> None:
    sheet.put("memory_shared", True, "Apple silicon has one memory")
    size = number(sysctl.read(host).get("hw.memsize"))
    sheet.put("memory_total_bytes", size, _MEMORY, "sysctl does not report it")


def _card(host: Host, card: dict[str, object]) -> Sheet:
    """The GPU of Apple silicon; on a Mac with an Intel CPU a card of AMD's, or the GPU inside the CPU."""
    sheet = Sheet("gpu")
    cores = card.get("sppci_cores")
    suffix = f" ({cores} cores)" if isinstance(cores, str) and re.fullmatch(r"[0-9]{1,4}", cores) else ""
    sheet.put("name", f"{card['sppci_model']}{suffix}", f"{_SOURCE}: sppci_model, sppci_cores")
    vendor_text = str(card.get("spdisplays_vendor", "")).lower()
    vendor = next((name for word, name in _VENDORS if word in vendor_text), None)
    sheet.put("vendor", vendor, f"{_SOURCE}: spdisplays_vendor")
    if sheet.values.get("vendor") == "Apple":
        _unified(host, sheet)
    for key, shared in (("spdisplays_vram", False), ("spdisplays_vram_shared", True)):
        size = re.fullmatch(r"(\d{1,9}) (MB|GB)", str(card.get(key, "")))
        if size:
            sheet.put("memory_total_bytes", int(size[1]) * _UNITS[size[2]], f"{_SOURCE}: {key}")
            sheet.put("memory_shared", shared, f"{_SOURCE}: {key}")
    _drive(host, sheet)
    return sheet


def _drive(host: Host, sheet: Sheet) -> None:
    # The ordinary onnxruntime for macOS holds the CoreML provider.
    sheet.driven_by(host, ("coreml", "mps"), ("onnxruntime", "coremltools"))
