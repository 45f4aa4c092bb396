"""Facts that only a runtime itself reports; called in a child process (`hw/child.py`): importing one is slow."""

from edgeopt.hw.provider_wheels import OPENVINO, QNN, ProviderWheel, devices, register


def onnxruntime_providers() -> dict[str, object]:
    """The execution providers that this build of ONNX Runtime has."""
    import onnxruntime

    return {"providers": list(onnxruntime.get_available_providers())}


def onnxruntime_qnn_devices() -> dict[str, object]:
    """Returns the devices that the wheel onnxruntime-qnn sees."""
    return _wheel_devices(QNN)


def onnxruntime_openvino_devices() -> dict[str, object]:
    """Returns the devices that the wheel onnxruntime-ep-openvino sees."""
    return _wheel_devices(OPENVINO)


def _wheel_devices(wheel: ProviderWheel) -> dict[str, object]:
    register(wheel)
    names = {}
    for kind, device in devices(wheel).items():
        hardware = device.device
        names[kind] = (
            device.ep_metadata.get("FULL_DEVICE_NAME")
            or hardware.metadata.get("Description")
            or f"{hardware.vendor} {hardware.type.name}".strip()
        )
    return {"providers": [wheel.provider], "devices": names}


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
