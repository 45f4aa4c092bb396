"""NVIDIA GPUs through NVML, else the driver's files and nvidia-smi; Jetson boards, which NVML hardly knows."""

import csv
import re

from edgeopt.errors import pip_install
from edgeopt.hw import kernel_text
from edgeopt.hw.accelerators import (
    COMPATIBLE,
    Finding,
    Sheet,
    blocked,
    compatible,
    devfreq,
    json_of,
    number,
    rows,
    scaled,
)
from edgeopt.hw.device import Unavailable
from edgeopt.hw.host import Host
from edgeopt.hw.nvml import normal_slot

DRIVER_FOLDER = "/proc/driver/nvidia"
APIS = ("cuda", "tensorrt")
RUNTIMES = ("onnxruntime-gpu", "tensorrt")
BINDINGS = ("nvidia-ml-py", "pynvml", "nvidia-ml-py3")
EXTRA = f"install it with: {pip_install('cuda')}"
_MODULE_VERSION = "/sys/module/nvidia/version"
_WSL_FOLDER = "/usr/lib/wsl/lib"
_NVML_TIMEOUT_S = 10.0

# The record's field, NVML's answer, the call's name for its reason, what one unit is, and the call.
_FIELDS: tuple[tuple[str, str, str, float, str], ...] = (
    ("name", "name", "name", 1, "nvmlDeviceGetName"),
    ("compute_capability", "compute_capability", "compute_capability", 1, "nvmlDeviceGetCudaComputeCapability"),
    ("memory_total_bytes", "memory_total_bytes", "memory", 1, "nvmlDeviceGetMemoryInfo"),
    ("memory_free_bytes", "memory_free_bytes", "memory", 1, "nvmlDeviceGetMemoryInfo"),
    ("clock_max_hz", "clock_max_mhz", "clock_max", 1e6, "nvmlDeviceGetMaxClockInfo"),
    ("clock_hz", "clock_mhz", "clock", 1e6, "nvmlDeviceGetClockInfo"),
    ("power_limit_w", "power_limit_mw", "power_limit", 1e-3, "nvmlDeviceGetEnforcedPowerLimit"),
    ("power_w", "power_mw", "power", 1e-3, "nvmlDeviceGetPowerUsage"),
    ("temperature_c", "temperature_c", "temperature", 1, "nvmlDeviceGetTemperature"),
    ("utilization_percent", "utilization_percent", "utilization", 1, "nvmlDeviceGetUtilizationRates"),
    ("numa_node", "numa_node", "numa_node", 1, "nvmlDeviceGetMemoryAffinity"),
)


def find(host: Host) -> Finding:
    """On Linux and in WSL; `from_nvml` is the part that Windows shares."""
    names = host.list("/dev")
    driver, source = _driver(host)
    wsl = "dxg" in names and "libnvidia-ml.so.1" in host.list(_WSL_FOLDER)
    if driver is None and not wsl and "nvidiactl" not in names:
        return _nothing(f"no NVIDIA driver ({DRIVER_FOLDER} is missing)")
    minors = frozenset(int(name[6:]) for name in names if re.fullmatch(r"nvidia\d{1,4}", name))
    listed = _cards(host)
    if not minors and not wsl:
        if host.list(f"{DRIVER_FOLDER}/gpus"):
            return _nothing("an NVIDIA driver but no /dev/nvidia0 (start the container with --gpus all)")
        return _nothing("the NVIDIA driver is loaded, but found no GPU and no /dev/nvidia0 (dmesg says why not)")
    cards = _assigned(listed, minors)
    finding = from_nvml(host, cards)
    for sheet in finding.sheets:
        sheet.put("driver", driver, source)
        _complete(host, sheet, names, wsl)
    return Finding(finding.sheets, finding.unavailable, (DRIVER_FOLDER if driver else "/dev", *finding.places))


def from_nvml(host: Host, cards: tuple[Sheet, ...] = ()) -> Finding:
    """The sheets that NVML fills, or else `cards`, with the reason why NVML does not answer."""
    binding = next((name for name in BINDINGS if host.version(name)), None)
    if not binding:
        smi = smi_sheets(host)
        reason = f"NVML's Python binding, nvidia-ml-py, is not installed; {EXTRA}"
        place = ("nvidia-smi",) if smi else ()
        return Finding(_merged(smi, cards) if smi else cards, {"gpu.nvidia": reason}, place)
    answer = host.call_in_child("edgeopt.hw.nvml", "query", _NVML_TIMEOUT_S)
    if isinstance(answer, Unavailable) or not isinstance(answer, dict):
        reason = answer.reason if isinstance(answer, Unavailable) else "NVML's answer cannot be read"
        return _failed(cards, reason)
    if isinstance(answer.get("error"), str):
        return _failed(cards, answer["error"], hinders=not answer.get("no_binding"))
    errors = _table(answer.get("errors"))
    gpus = rows(answer.get("gpus"))
    if not gpus:
        return _failed(cards, str(errors.get("count") or "NVML lists no GPU"))
    sheets = tuple(_sheet(gpu, answer, errors) for gpu in gpus)
    return Finding(_merged(sheets, cards), {}, ("NVML",))


def _sheet(gpu: dict[str, object], machine: dict[str, object], machine_errors: dict[str, object]) -> Sheet:
    sheet = Sheet("gpu")
    errors = _table(gpu.get("errors"))
    failed = gpu.get("error")
    if isinstance(failed, str):
        sheet.notes.append(_as_sentence(failed))
    for field, key, attribute, unit, call in _FIELDS:
        value = gpu.get(key)
        shown = value if isinstance(value, str) else scaled(value, unit)
        sheet.put(field, shown, f"NVML {call}", str(errors.get(attribute) or failed or "NVML does not report it"))
    sheet.put("driver", machine.get("driver"), "NVML nvmlSystemGetDriverVersion")
    cuda = machine.get("cuda")
    version = f"{cuda // 1000}.{cuda % 1000 // 10}" if isinstance(cuda, int) and cuda >= 1000 else None
    reason = str(machine_errors.get("cuda") or "NVML does not report it")
    sheet.put("cuda_version", version, "NVML nvmlSystemGetCudaDriverVersion_v2", reason)
    links = gpu.get("links")
    if isinstance(links, list) and links:
        sheet.put(
            "links",
            tuple(link for link in links if isinstance(link, str) and link.isprintable()),
            "NVML nvmlDeviceGetNvLinkState, nvmlDeviceGetP2PStatus",
        )
    if gpu.get("mig"):
        sheet.notes.append("MIG is on: CUDA sees the slices of this GPU, not the whole GPU.")
    if gpu.get("prohibited"):
        sheet.notes.append("Its compute mode is `prohibited`: nvidia-smi --compute-mode=0 allows CUDA again.")
    place = gpu.get("slot")
    sheet.slot = place if isinstance(place, str) else None
    return sheet


def _complete(host: Host, sheet: Sheet, names: tuple[str, ...], wsl: bool) -> None:
    """Adds the facts that every NVIDIA GPU has, from whichever source."""
    sheet.put("name", "NVIDIA GPU", DRIVER_FOLDER)
    sheet.put("vendor", "NVIDIA", DRIVER_FOLDER if not wsl else _WSL_FOLDER)
    if sheet.slot:
        place = f"/sys/bus/pci/devices/{sheet.slot}/numa_node"
        node = kernel_text.whole(host.read(place))
        sheet.put("numa_node", node if node is None or node >= 0 else None, place)
    cuda_of_branch(sheet)
    sheet.driven_by(host, APIS, RUNTIMES)
    hidden = host.call("os", "getenv", "CUDA_VISIBLE_DEVICES")
    if isinstance(hidden, str) and hidden.strip() in {"", "-1"}:
        sheet.notes.append("CUDA_VISIBLE_DEVICES hides every GPU from CUDA: unset it.")
    # The driver makes nvidia-uvm when CUDA is first used, so its absence says nothing.
    for name in ("nvidiactl", "nvidia-uvm"):
        if name in names and (why := blocked(host, f"/dev/{name}", "the GPU")):
            sheet.notes.append(why)


def _driver(host: Host) -> tuple[str | None, str]:
    text = host.read(f"{DRIVER_FOLDER}/version")
    version = re.search(r"\s(\d+\.\d+(?:\.\d+)?)\s", text or "")
    if version:
        return version[1], f"{DRIVER_FOLDER}/version"
    if text is not None:
        return "", f"{DRIVER_FOLDER}/version"
    module = (host.read(_MODULE_VERSION) or "").strip()
    return (module, _MODULE_VERSION) if re.fullmatch(r"\d+\.\d+(\.\d+)?", module) else (None, "")


def _cards(host: Host) -> tuple[tuple[Sheet, int | None], ...]:
    """The GPUs that the driver lists, each with the number of its device node where the driver tells it."""
    found = []
    for slot in host.list(f"{DRIVER_FOLDER}/gpus"):
        file = f"{DRIVER_FOLDER}/gpus/{slot}/information"
        lines = kernel_text.blocks(host.read(file) or "")
        sheet = Sheet("gpu", slot=slot)
        sheet.put("name", next(iter(kernel_text.values(lines, "Model")), None), file)
        found.append((sheet, kernel_text.whole(next(iter(kernel_text.values(lines, "Device Minor")), None))))
    return tuple(found)


def _assigned(cards: tuple[tuple[Sheet, int | None], ...], minors: frozenset[int]) -> tuple[Sheet, ...]:
    """A container sees every GPU of the machine in /proc, but only its own in /dev."""
    if not cards:
        return tuple(Sheet("gpu") for _ in minors)
    if all(minor is not None for _, minor in cards):
        return tuple(sheet for sheet, minor in cards if minor in minors)
    return tuple(sheet for sheet, _ in cards[: len(minors)])


def _merged(sheets: tuple[Sheet, ...], cards: tuple[Sheet, ...]) -> tuple[Sheet, ...]:
    """Adds the names that NVML omits, from the driver's own list."""
    for sheet in sheets:
        for card in cards:
            if sheet.slot and sheet.slot == card.slot:
                sheet.put("name", card.values.get("name"), card.sources.get("name", DRIVER_FOLDER))
    return sheets


def _failed(cards: tuple[Sheet, ...], reason: str, hinders: bool = True) -> Finding:
    for card in cards:
        if hinders:
            card.notes.append(_as_sentence(reason))
    return Finding(cards, {"gpu.nvidia": reason})


def _nothing(reason: str) -> Finding:
    return Finding(unavailable={"gpu.nvidia": reason})


def _as_sentence(reason: str) -> str:
    return f"{reason[:1].upper()}{reason[1:].rstrip('.')}."


def _table(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


_MIB = 2**20
# The tool's field, the record's field, and what one of its units is.
_SMI_FIELDS: tuple[tuple[str, str, float], ...] = (
    ("pci.bus_id", "", 0),
    ("name", "name", 0),
    ("driver_version", "driver", 0),
    ("memory.total", "memory_total_bytes", _MIB),
    ("memory.free", "memory_free_bytes", _MIB),
    ("clocks.max.sm", "clock_max_hz", 1e6),
    ("clocks.sm", "clock_hz", 1e6),
    ("power.limit", "power_limit_w", 0.0),
    ("power.draw", "power_w", 0.0),
    ("temperature.gpu", "temperature_c", 0.0),
    ("utilization.gpu", "utilization_percent", 0.0),
    ("compute_cap", "compute_capability", 0),
)
_TEXTS = frozenset({"name", "driver", "compute_capability"})

# The newest CUDA that a branch of the driver runs, from the table of drivers in CUDA's release notes.
_CUDA_OF_BRANCH = {
    450: "11.0", 455: "11.1", 460: "11.2", 465: "11.3", 470: "11.4", 495: "11.5", 510: "11.6", 515: "11.7",
    520: "11.8", 525: "12.0", 530: "12.1", 535: "12.2", 545: "12.3", 550: "12.4", 555: "12.5", 560: "12.6",
    565: "12.7", 570: "12.8", 575: "12.9", 580: "13.0", 590: "13.1",
}  # fmt: skip


def smi_command(fields: tuple[str, ...]) -> tuple[str, ...]:
    return ("nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits")


def smi_sheets(host: Host) -> tuple[Sheet, ...]:
    """One a GPU; empty where the tool is not there or fails."""
    fields = tuple(field for field, _, _ in _SMI_FIELDS)
    answer = host.run(smi_command(fields))
    if answer is None:  # drivers before 510 lack compute_cap and reject the whole query
        fields = fields[:-1]
        answer = host.run(smi_command(fields))
    lines = list(csv.reader((answer or "").splitlines(), skipinitialspace=True))
    return tuple(_smi_sheet(fields, line) for line in lines if len(line) == len(fields))


def cuda_of_branch(sheet: Sheet) -> None:
    """Adds the newest CUDA version by NVIDIA's table of driver branches, unless it is known from NVML."""
    branch = str(sheet.values.get("driver", "")).partition(".")[0]
    version = _CUDA_OF_BRANCH.get(int(branch)) if branch.isdecimal() else None
    sheet.put(
        "cuda_version", version, "the driver's branch, by CUDA's release notes", "not available without NVML"
    )


def _smi_sheet(fields: tuple[str, ...], line: list[str]) -> Sheet:
    sheet = Sheet("gpu", slot=normal_slot(line[0]))
    for (field, name, unit), text in zip(_SMI_FIELDS, line, strict=False):
        if not name:
            continue
        source = f"nvidia-smi {field}"
        value = _value(text, unit, is_text=name in _TEXTS)
        sheet.put(name, value, source, f"nvidia-smi says {text.strip('[] ') or 'nothing'}")
    if len(fields) < len(_SMI_FIELDS):
        sheet.absent["compute_capability"] = "this driver's nvidia-smi does not report it"
    return sheet


def _value(text: str, unit: float, is_text: bool) -> object:
    if text.startswith("["):  # [N/A], [Not Supported], [Insufficient Permissions]
        return None
    if is_text:
        return text
    try:
        return int(float(text) * unit) if unit else float(text)
    except (ValueError, OverflowError):
        return None


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


def find_jetson(host: Host) -> Finding:
    chip = next((name for name in compatible(host) if name in _CHIPS), None)
    if not chip:
        return Finding()
    name, capability = _CHIPS[chip]
    sheet = Sheet("gpu")
    sheet.put("name", name, COMPATIBLE)
    sheet.put("vendor", "NVIDIA", COMPATIBLE)
    sheet.put("compute_capability", capability, f"{COMPATIBLE}: {chip}")
    sheet.put("memory_shared", True, f"{COMPATIBLE}: {chip}")
    _versions(host, sheet)
    _clock(host, sheet)
    _temperature(host, sheet)
    sheet.driven_by(host, APIS, RUNTIMES)
    # JetPack 6 has /dev/nvgpu as a folder, older ones /dev/nvhost-gpu; a container sees the one that it was given.
    nodes = host.list("/dev")
    gpu_nodes = [node for node in nodes if node in {"nvhost-gpu", "nvhost-ctrl-gpu", "nvgpu", "nvmap"}]
    if nodes and not gpu_nodes:
        sheet.notes.append("The GPU has no device node in /dev: start the container with --runtime nvidia.")
    elif "nvmap" in gpu_nodes and (why := blocked(host, "/dev/nvmap", "the GPU")):
        sheet.notes.append(why)
    return Finding((sheet,), {}, (COMPATIBLE,))


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
    devfreq(host, sheet, folder)
    load = f"{folder}/device/load"  # in thousandths
    sheet.put("utilization_percent", number(host.read(load), 0.1), load, f"no {load}")


def _temperature(host: Host, sheet: Sheet) -> None:
    for zone in host.list(_ZONES):
        if (host.read(f"{_ZONES}/{zone}/type") or "").strip().lower() in {"gpu-therm", "gpu-thermal"}:
            file = f"{_ZONES}/{zone}/temp"
            sheet.put("temperature_c", number(host.read(file), 0.001), file, "the sensor is switched off")
            return
    sheet.absent["temperature_c"] = "no thermal zone of the GPU"
