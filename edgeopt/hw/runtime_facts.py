"""What only a runtime itself can tell; called in a child process (`hw/child.py`): importing one is slow."""


def onnxruntime_providers() -> list[str]:
    """The execution providers that this build of ONNX Runtime has."""
    import onnxruntime

    return list(onnxruntime.get_available_providers())


def openvino_devices() -> list[str]:
    """`CPU: <full name>` for each device that OpenVINO sees."""
    import openvino

    core = openvino.Core()
    return [f"{device}: {core.get_property(device, 'FULL_DEVICE_NAME')}" for device in core.available_devices]
