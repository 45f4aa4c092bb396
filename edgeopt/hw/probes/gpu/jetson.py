"""The GPU of an NVIDIA Jetson from device tree, L4T release and devfreq, because NVML reports almost nothing."""

import re

from edgeopt.hw import accelerators
from edgeopt.hw.accelerators import Finding, Sheet, blocked, json_of, number
from edgeopt.hw.host import Host
from edgeopt.hw.probes.gpu import nvidia

RELEASE = "/etc/nv_tegra_release"
_CUDA = "/usr/local/cuda/version.json"
_DEVFREQ = "/sys/class/devfreq"
_ZONES = "/sys/class/thermal"

# The chip's name in the device tree, its GPU, and the compute capability that NVIDIA lists for it.
_CHIPS = {
    "nvidia,tegra264": ("Jetson Thor GPU (Blackwell)", "11.0"),
    "nvidia,tegra234": ("Jetson Orin GPU (Ampere)", "8.7"),
    "nvidia,tegra194": ("Jetson Xavier GPU (Volta)", "7.2"),
    "nvidia,tegra186": ("Jetson TX2 GPU (Pascal)", "6.2"),
    "nvidia,tegra210": ("Jetson Nano or TX1 GPU (Maxwell)", "5.3"),
}

# JetPack's release by that of L4T, its Linux; the first row that fits holds.
_JETPACKS = (
    ("38.", "7"),
    ("36.4.4", "6.2.1"),
    ("36.4.3", "6.2"),
    ("36.4", "6.1"),
    ("36.3", "6.0"),
    ("36.", "6"),
    ("35.", "5"),
    ("32.", "4"),
)


def find(host: Host) -> Finding:
    chip = next((name for name in accelerators.compatible(host) if name in _CHIPS), None)
    if not chip:
        return Finding()
    name, capability = _CHIPS[chip]
    sheet = Sheet("gpu")
    sheet.put("name", name, accelerators.COMPATIBLE)
    sheet.put("vendor", "NVIDIA", accelerators.COMPATIBLE)
    sheet.put("compute_capability", capability, f"{accelerators.COMPATIBLE}: {chip}")
    sheet.put("memory_shared", True, f"{accelerators.COMPATIBLE}: {chip}")
    _versions(host, sheet)
    _clock(host, sheet)
    _temperature(host, sheet)
    sheet.driven_by(host, nvidia.APIS, nvidia.RUNTIMES)
    # JetPack 6 has /dev/nvgpu as a folder, older ones /dev/nvhost-gpu; a container sees the one that it was given.
    nodes = host.list("/dev")
    gpu_nodes = [node for node in nodes if node in {"nvhost-gpu", "nvhost-ctrl-gpu", "nvgpu", "nvmap"}]
    if nodes and not gpu_nodes:
        sheet.notes.append("The GPU has no device node in /dev: start the container with --runtime nvidia.")
    elif "nvmap" in gpu_nodes and (why := blocked(host, "/dev/nvmap", "the GPU")):
        sheet.notes.append(why)
    return Finding((sheet,), {}, (accelerators.COMPATIBLE,))


def _versions(host: Host, sheet: Sheet) -> None:
    release = re.search(r"R(\d{2,3}) \(release\), REVISION: ([\d.]+\d)", host.read(RELEASE) or "")
    l4t = f"{release[1]}.{release[2]}" if release else None
    jetpack = next((pack for start, pack in _JETPACKS if l4t and l4t.startswith(start)), None)
    text = f"L4T {l4t}{f' (JetPack {jetpack})' if jetpack else ''}" if l4t else None
    sheet.put("driver", text, RELEASE, f"no {RELEASE}, where JetPack writes its release")
    toolkit = json_of(host.read(_CUDA))
    cuda = toolkit.get("cuda") if isinstance(toolkit, dict) else None
    version = cuda.get("version") if isinstance(cuda, dict) else None
    short = re.match(r"\d+\.\d+", version) if isinstance(version, str) else None
    sheet.put("cuda_version", short and short[0], _CUDA, f"no CUDA of JetPack is installed ({_CUDA} is missing)")


def _clock(host: Host, sheet: Sheet) -> None:
    # 17000000.gpu, .ga10b, .gv11b, .gp10b, 57000000.gpu; Thor has one entry for each of its clocks.
    names = [n for n in host.list(_DEVFREQ) if re.search(r"\.(gpu|ga10b|gv11b|gp10b)$|^gpu-gpc-0$", n)]
    if not names:
        sheet.absent["clock_max_hz"] = f"no GPU in {_DEVFREQ}"
        return
    folder = f"{_DEVFREQ}/{names[0]}"
    sheet.put("clock_max_hz", number(host.read(f"{folder}/max_freq")), f"{folder}/max_freq", "the file is empty")
    sheet.put("clock_hz", number(host.read(f"{folder}/cur_freq")), f"{folder}/cur_freq", "the file is empty")
    load = f"{folder}/device/load"  # in thousandths
    sheet.put("utilization_percent", number(host.read(load), 0.1), load, f"no {load}")


def _temperature(host: Host, sheet: Sheet) -> None:
    for zone in host.list(_ZONES):
        if (host.read(f"{_ZONES}/{zone}/type") or "").strip().lower() in {"gpu-therm", "gpu-thermal"}:
            file = f"{_ZONES}/{zone}/temp"
            sheet.put("temperature_c", number(host.read(file), 0.001), file, "the sensor is switched off")
            return
    sheet.absent["temperature_c"] = "no thermal zone of the GPU"
