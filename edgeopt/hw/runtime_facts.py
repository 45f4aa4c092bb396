"""Facts that only a runtime itself reports; called in a child process (`hw/child.py`): importing one is slow."""


def onnxruntime_providers() -> dict[str, object]:
    """The execution providers that this build of ONNX Runtime has."""
    import onnxruntime

    return {"providers": list(onnxruntime.get_available_providers())}


def openvino_devices() -> dict[str, object]:
    """The devices that OpenVINO sees, their full names, and what each can compute with."""
    import sys

    # Its model converter, without which it does: half of the time that importing it takes.
    sys.modules.setdefault("openvino.tools.ovc", None)  # type: ignore[arg-type]
    import openvino

    core = openvino.Core()
    names = {device: str(core.get_property(device, "FULL_DEVICE_NAME")) for device in core.available_devices}
    return {
        "providers": [f"{device}: {name}" for device, name in names.items()],
        "devices": names,
        "capabilities": {
            device: sorted(core.get_property(device, "OPTIMIZATION_CAPABILITIES")) for device in names
        },
    }
