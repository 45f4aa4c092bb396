import json

from edgeopt.hw.probes.gpu import probe

PYTHON = {"platform.system()": "Darwin", "platform.python_version()": "3.12.4"}
SILICON = {
    "_name": "Apple M2",
    "spdisplays_mtlgpufamilysupport": "spdisplays_metal3",
    "spdisplays_vendor": "sppci_vendor_Apple",
    "sppci_bus": "spdisplays_builtin",
    "sppci_cores": "10",
    "sppci_device_type": "spdisplays_gpu",
    "sppci_model": "Apple M2",
}
CARD = {"spdisplays_vendor": "sppci_vendor_amd", "spdisplays_vram": "8 GB", "sppci_model": "AMD Radeon Pro 5500M"}
INSIDE = {
    "spdisplays_vendor": "Intel",
    "spdisplays_vram_shared": "1536 MB",
    "sppci_model": "Intel UHD Graphics 630",
}
DISPLAYS = "system_profiler -json SPDisplaysDataType"
SYSCTL = "sysctl hw machdep.cpu"


def mac(machine, cards, **run):
    answers = {DISPLAYS: json.dumps({"SPDisplaysDataType": cards}), **run}
    return machine(calls=PYTHON, run=answers, versions={"onnxruntime": "1.22.0"})


def test_the_gpu_of_apple_silicon_works_in_the_one_memory(machine):
    facts = probe(mac(machine, [SILICON], **{SYSCTL: "hw.memsize: 17179869184\n"}))
    (gpu,) = facts.section
    assert (gpu.name, gpu.vendor) == ("Apple M2 (10 cores)", "Apple")
    assert (gpu.memory_shared, gpu.memory_total_bytes) == (True, 16 * 2**30)
    assert (gpu.apis, gpu.runtime, gpu.runtime_installed) == (("coreml", "mps"), "onnxruntime", True)
    assert facts.sources["accelerators.gpu"] == DISPLAYS


def test_a_mac_with_an_intel_cpu_has_two(machine):
    card, inside = probe(mac(machine, [CARD, INSIDE])).section
    assert (card.name, card.vendor, card.memory_total_bytes) == ("AMD Radeon Pro 5500M", "AMD", 8 * 2**30)
    assert (inside.vendor, inside.memory_shared, inside.memory_total_bytes) == ("Intel", True, 1536 * 2**20)


def test_without_system_profiler_the_chip_names_its_gpu(machine):
    facts = probe(machine(calls=PYTHON, run={SYSCTL: "machdep.cpu.brand_string: Apple M3 Max\n"}))
    assert facts.section[0].name == "Apple M3 Max"
    assert facts.sources["accelerators.gpu"] == "sysctl machdep.cpu.brand_string"
    assert facts.unavailable["gpu.0.memory_total_bytes"] == "sysctl does not report it"


def test_a_recorded_mac(board):
    (gpu,) = probe(board("macos-m2")).section
    assert (gpu.name, gpu.memory_total_bytes, gpu.runtime_installed) == ("Apple M2 (10 cores)", 16 * 2**30, True)
