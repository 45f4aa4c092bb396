"""NVIDIA GPUs: through NVML, and where that is not to be had from the driver's files and `nvidia-smi`."""

import re

from edgeopt.errors import pip_install
from edgeopt.hw import kernel_text
from edgeopt.hw.accelerators import Finding, Sheet, blocked, rows, scaled
from edgeopt.hw.device import Unavailable
from edgeopt.hw.host import Host
from edgeopt.hw.probes.gpu import nvidia_smi

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
    cards = _given(listed, minors)
    finding = from_nvml(host, cards)
    for sheet in finding.sheets:
        sheet.put("driver", driver, source)
        _complete(host, sheet, names, wsl)
    return Finding(finding.sheets, finding.unavailable, (DRIVER_FOLDER if driver else "/dev", *finding.places))


def from_nvml(host: Host, cards: tuple[Sheet, ...] = ()) -> Finding:
    """The sheets that NVML fills, or else `cards`, with the reason why NVML does not answer."""
    binding = next((name for name in BINDINGS if host.version(name)), None)
    if not binding:
        told = nvidia_smi.sheets(host)
        reason = f"NVML's Python binding, nvidia-ml-py, is not installed; {EXTRA}"
        place = ("nvidia-smi",) if told else ()
        return Finding(_merged(told, cards) if told else cards, {"gpu.nvidia": reason}, place)
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
    for field, key, asked, unit, call in _FIELDS:
        value = gpu.get(key)
        told = value if isinstance(value, str) else scaled(value, unit)
        sheet.put(field, told, f"NVML {call}", str(errors.get(asked) or failed or "NVML does not report it"))
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
    """What every NVIDIA GPU has, however it was found."""
    sheet.put("name", "NVIDIA GPU", DRIVER_FOLDER)
    sheet.put("vendor", "NVIDIA", DRIVER_FOLDER if not wsl else _WSL_FOLDER)
    if sheet.slot:
        place = f"/sys/bus/pci/devices/{sheet.slot}/numa_node"
        node = kernel_text.whole(host.read(place))
        sheet.put("numa_node", node if node is None or node >= 0 else None, place)
    nvidia_smi.cuda_of_branch(sheet)
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


def _given(cards: tuple[tuple[Sheet, int | None], ...], minors: frozenset[int]) -> tuple[Sheet, ...]:
    """A container sees every GPU of the machine in /proc, but only its own in /dev."""
    if not cards:
        return tuple(Sheet("gpu") for _ in minors)
    if all(minor is not None for _, minor in cards):
        return tuple(sheet for sheet, minor in cards if minor in minors)
    return tuple(sheet for sheet, _ in cards[: len(minors)])


def _merged(sheets: tuple[Sheet, ...], cards: tuple[Sheet, ...]) -> tuple[Sheet, ...]:
    """What NVML leaves out, from the driver's own list."""
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
