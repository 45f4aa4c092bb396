"""A stand-in for pynvml (nvidia-ml-py) with two GPUs and NVLink; FAKE_NVML names what goes wrong with it."""

import os
from types import SimpleNamespace

FAULT = os.environ.get("FAKE_NVML", "")

NVML_ERROR_INVALID_ARGUMENT = 2
NVML_ERROR_NOT_SUPPORTED = 3
NVML_ERROR_NO_PERMISSION = 4
NVML_ERROR_DRIVER_NOT_LOADED = 9
NVML_ERROR_LIBRARY_NOT_FOUND = 12
NVML_ERROR_GPU_IS_LOST = 15
NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18
NVML_CLOCK_SM = 1
NVML_TEMPERATURE_GPU = 0
NVML_AFFINITY_SCOPE_NODE = 0

SLOTS = (b"00000000:17:00.0", b"00000000:CA:00.0")
MIB = 2**20


class NVMLError(Exception):
    """Raising it with a code gives the subclass of that code, as in the real one."""

    classes = {}  # noqa: RUF012 - filled below

    def __new__(cls, value):
        error = Exception.__new__(NVMLError.classes.get(value, cls))
        error.value = value
        return error

    def __str__(self):
        return f"NVML Error with code {self.value}"


for _name, _code in list(globals().items()):
    if _name.startswith("NVML_ERROR_"):
        _words = _name.removeprefix("NVML_ERROR_").split("_")
        _class = type("NVMLError_" + "".join(word.capitalize() for word in _words), (NVMLError,), {})
        NVMLError.classes[_code] = globals()[_class.__name__] = _class

_AT_START = {
    "library": NVML_ERROR_LIBRARY_NOT_FOUND,
    "driver": NVML_ERROR_DRIVER_NOT_LOADED,
    "permission": NVML_ERROR_NO_PERMISSION,
    "mismatch": NVML_ERROR_LIB_RM_VERSION_MISMATCH,
}


def nvmlInit():  # noqa: N802 - NVML's own name, as all below
    if FAULT == "crash":
        os.abort()
    if FAULT in _AT_START:
        raise NVMLError(_AT_START[FAULT])


def nvmlShutdown():  # noqa: N802
    pass


def nvmlSystemGetDriverVersion():  # noqa: N802
    return "550.54.15"


def nvmlSystemGetCudaDriverVersion_v2():  # noqa: N802
    return 12040


def nvmlDeviceGetCount():  # noqa: N802
    return 0 if FAULT == "no gpu" else len(SLOTS)


def nvmlDeviceGetHandleByIndex(index):  # noqa: N802
    if FAULT == "lost" and index == 1:
        raise NVMLError(NVML_ERROR_GPU_IS_LOST)
    return SimpleNamespace(index=index)


def nvmlDeviceGetName(handle):  # noqa: N802
    return "NVIDIA A100-SXM4-80GB"


def nvmlDeviceGetPciInfo(handle):  # noqa: N802
    return SimpleNamespace(busId=SLOTS[handle.index])


def nvmlDeviceGetCudaComputeCapability(handle):  # noqa: N802
    return (8, 0)


def nvmlDeviceGetMemoryInfo(handle):  # noqa: N802
    return SimpleNamespace(total=81920 * MIB, free=(80000 - 1000 * handle.index) * MIB, used=1920 * MIB)


def nvmlDeviceGetMaxClockInfo(handle, kind):  # noqa: N802
    return 1410 if kind == NVML_CLOCK_SM else 1593


def nvmlDeviceGetClockInfo(handle, kind):  # noqa: N802
    return 210 if kind == NVML_CLOCK_SM else 1593


def nvmlDeviceGetEnforcedPowerLimit(handle):  # noqa: N802
    return 400000


def nvmlDeviceGetPowerUsage(handle):  # noqa: N802
    if FAULT == "call":
        raise RuntimeError("the sensor went away")
    return 61234


def nvmlDeviceGetTemperature(handle, sensor):  # noqa: N802
    if FAULT == "call" or sensor != NVML_TEMPERATURE_GPU:
        raise NVMLError(NVML_ERROR_NOT_SUPPORTED)
    return 34 + handle.index


def nvmlDeviceGetUtilizationRates(handle):  # noqa: N802
    return SimpleNamespace(gpu=0 if handle.index else 45, memory=12)


def nvmlDeviceGetMemoryAffinity(handle, size, scope):  # noqa: N802
    if scope != NVML_AFFINITY_SCOPE_NODE:
        raise NVMLError(NVML_ERROR_INVALID_ARGUMENT)
    return [1 << handle.index] + [0] * (size - 1)


def nvmlDeviceGetMigMode(handle):  # noqa: N802
    if FAULT == "mig":
        return [1, 1]
    raise NVMLError(NVML_ERROR_NOT_SUPPORTED)


def nvmlDeviceGetNvLinkState(handle, link):  # noqa: N802
    if link >= 12:
        raise NVMLError(NVML_ERROR_INVALID_ARGUMENT)
    return int(link < 4)


def nvmlDeviceGetNvLinkRemotePciInfo(handle, link):  # noqa: N802
    slot = b"00000000:4B:00.0" if FAULT == "switch" else SLOTS[1 - handle.index]
    return SimpleNamespace(busId=slot)


def nvmlDeviceGetNvLinkRemoteDeviceType(handle, link):  # noqa: N802
    return 2 if FAULT == "switch" else 0


def nvmlDeviceGetP2PStatus(one, other, way):  # noqa: N802
    return 5 if FAULT == "switch" else 0


# nvmlDeviceGetComputeMode is left out: bindings older than a function have no such name.
