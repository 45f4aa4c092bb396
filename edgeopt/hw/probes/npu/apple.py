"""The Apple Neural Engine: in every Mac with Apple silicon; macOS lists it nowhere, CoreML just uses it."""

from edgeopt.hw.accelerators import Finding, Sheet
from edgeopt.hw.host import Host
from edgeopt.hw.probes.gpu.apple import BRAND, chip


def find(host: Host) -> Finding:
    silicon = chip(host)
    if not silicon:
        return Finding()
    sheet = Sheet("npu")
    sheet.put("name", f"Apple Neural Engine ({silicon})", BRAND)
    sheet.put("vendor", "Apple", BRAND)
    sheet.put("memory_shared", True, "Apple silicon has one memory")
    sheet.driven_by(host, ("coreml",), ("onnxruntime", "coremltools"))
    return Finding((sheet,), {}, (BRAND,))
