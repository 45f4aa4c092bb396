"""Holds the accelerators that were found against what the runtimes see."""

import re

import msgspec

from edgeopt.hw.device import Accelerator, Device, Runtime

_UNNAMED = re.compile(r"Intel GPU 0x[0-9a-f]+|Intel GPU|Intel NPU")
_KINDS = (
    ("gpu", "GPU", "Intel's compute runtime (its OpenCL driver, intel-opencl-icd)"),
    ("npu", "NPU", "Intel's user-space driver for the NPU (linux-npu-driver)"),
)

# What a distribution of ONNX Runtime must bring to drive an accelerator.
_PROVIDERS = {
    "onnxruntime-gpu": "CUDAExecutionProvider",
    "onnxruntime-directml": "DmlExecutionProvider",
    "onnxruntime-migraphx": "MIGraphXExecutionProvider",
    "onnxruntime-rocm": "ROCMExecutionProvider",
    "onnxruntime-openvino": "OpenVINOExecutionProvider",
    "onnxruntime-qnn": "QNNExecutionProvider",
}


def agree(device: Device) -> Device:
    """The device with names that only OpenVINO knows, with NPUs that only it sees, and with what does not fit."""
    found = list(device.accelerators)
    sources, unavailable = dict(device.sources), dict(device.unavailable)
    for runtime in device.runtimes:
        if runtime.name == "openvino" and runtime.devices:
            source = sources.get("runtimes.openvino.devices", "OpenVINO's devices")
            found = _with_openvino(found, runtime, sources, unavailable, source)
    checked = tuple(_with_provider(each, device.runtimes) for each in found)
    return msgspec.structs.replace(device, accelerators=checked, sources=sources, unavailable=unavailable)


def _with_openvino(
    found: list[Accelerator], openvino: Runtime, sources: dict[str, str], unavailable: dict[str, str], source: str
) -> list[Accelerator]:
    result = list(found)
    for kind, prefix, driver in _KINDS:
        names = [
            full for name, full in openvino.devices.items() if name == prefix or name.startswith(f"{prefix}.")
        ]
        mine = [i for i, each in enumerate(found) if each.kind == kind and each.vendor == "Intel"]
        if not names:
            note = f"OpenVINO {openvino.version} does not see it: install {driver}."
            for i in mine:
                # What the user may not open, OpenVINO cannot see either: that one reason is enough.
                result[i] = result[i] if result[i].note else _noted(result[i], note)
        elif len(mine) == len(names) == 1 and _UNNAMED.fullmatch(found[mine[0]].name):
            named = msgspec.structs.replace(result[mine[0]], name=names[0])
            result[mine[0]] = named
            sources[f"accelerators.{kind}.{named.index}.name"] = source
        elif not mine:
            first = sum(each.kind == kind for each in found)
            for index, full in enumerate(names, first):
                result.append(_seen(kind, full, index))
                facts = ("name", "vendor", "apis", "runtime", "runtime_installed")
                sources |= {f"accelerators.{kind}.{index}.{fact}": source for fact in facts}
            sources.setdefault(f"accelerators.{kind}", source)
            unavailable.pop(kind, None)
    return result


def _seen(kind: str, name: str, index: int) -> Accelerator:
    return Accelerator(
        "npu" if kind == "npu" else "gpu",
        name,
        vendor="Intel",
        index=index,
        apis=("openvino",),
        runtime="openvino",
        runtime_installed=True,
    )


def _with_provider(accelerator: Accelerator, runtimes: tuple[Runtime, ...]) -> Accelerator:
    """Distributions of ONNX Runtime overwrite each other's files: the one installed last is the one that runs."""
    provider = _PROVIDERS.get(accelerator.runtime or "")
    if accelerator.runtime == "onnxruntime" and "coreml" in accelerator.apis:
        provider = "CoreMLExecutionProvider"
    for runtime in runtimes:
        if (
            provider
            and runtime.name == accelerator.runtime
            and runtime.providers
            and provider not in runtime.providers
        ):
            again = f"pip install --force-reinstall {runtime.name}"
            return _noted(
                accelerator, f"{runtime.name} is installed, but has no {provider}: {again} brings it back."
            )
    return accelerator


def _noted(accelerator: Accelerator, note: str) -> Accelerator:
    return msgspec.structs.replace(accelerator, note=f"{accelerator.note} {note}".strip())
