"""Where OpenVINO runs the nodes of a model."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from edgeopt.backends.base import Available, Placement, installed
from edgeopt.backends.openvino.model import core
from edgeopt.backends.openvino.options import Aim
from edgeopt.errors import said_by
from edgeopt.hw.device import Unavailable

if TYPE_CHECKING:
    from openvino import CompiledModel, Core, Model, Node

DEV = Path("/dev")

# What a program opens to reach the device on Linux; `dxg` is Windows' own device inside its Linux.
NODES = {"GPU": ("dri/renderD*", "dxg"), "NPU": ("accel/accel*",)}
DRIVERS = {"GPU": "Intel's compute runtime (OpenCL driver)", "NPU": "Intel's NPU driver"}


def package_available() -> Available | Unavailable:
    return installed("openvino", ("openvino", "openvino-nightly"), "openvino")


def device_available(kind: str) -> Available | Unavailable:
    """Asking OpenVINO takes a third of a second, so only where it is installed and there is something to see."""
    package = package_available()
    if isinstance(package, Unavailable):
        return package
    if sys.platform == "linux" and not any(any(DEV.glob(pattern)) for pattern in NODES[kind]):
        return Unavailable(f"this system shows no {kind}: there is no {DEV}/{NODES[kind][0]}")
    try:
        devices = core().available_devices
    except RuntimeError as error:
        return Unavailable(f"OpenVINO cannot list its devices: {said_by(error)}")
    if not any(device_kind(device) == kind for device in devices):
        return Unavailable(f"OpenVINO sees no {kind}; it works with Intel's, and needs {DRIVERS[kind]}")
    return package


def device_kind(device: str) -> str:
    """`GPU` for `GPU.1`; and `CPU` for `(CPU)`, which bridges the time until another device is ready."""
    return device.strip("()").split(".", 1)[0]


NO_WORK = ("Constant", "Parameter", "Result")


class Places:
    """What is known of a model's nodes before it is compiled; `placement` asks where they run now."""

    def __init__(self, aim: Aim, nodes: tuple[str, ...], device_of: dict[str, str], boundaries: int) -> None:
        self._aim = aim
        self._nodes = nodes
        self.device_of = device_of
        """Node names with their devices, where the model is divided; empty where it is not."""
        self._boundaries = boundaries

    def placement(self, compiled: "CompiledModel") -> Placement:
        wanted = self._aim.wanted
        if self.device_of:
            devices = [self.device_of.get(label.split(": ", 1)[1], "unknown") for label in self._nodes]
            fallen = tuple(
                label for label, device in zip(self._nodes, devices, strict=True) if not _is(device, wanted)
            )
            counts = {device: devices.count(device) for device in dict.fromkeys(devices)}
            return Placement(wanted, counts, fallen, self._boundaries)
        # AUTO moves the whole model, perhaps while it runs: so it is asked each time.
        now = [str(device) for device in compiled.get_property("EXECUTION_DEVICES")]
        here = wanted == "AUTO" or any(_is(device, wanted) for device in now)
        return Placement(wanted, dict.fromkeys(now, len(self._nodes)), () if here else self._nodes)


def places(runtime: "Core", model: "Model", aim: Aim) -> Places:
    divided = aim.device.startswith("HETERO:")
    device_of = dict(runtime.query_model(model, aim.device)) if divided else {}
    return Places(aim, node_labels(model), device_of, boundaries(model, device_of))


def node_labels(model: "Model") -> tuple[str, ...]:
    """`<operator type>: <node name>` of all that compute something."""
    return tuple(
        f"{op.get_type_name()}: {_name(op)}" for op in model.get_ops() if op.get_type_name() not in NO_WORK
    )


def boundaries(model: "Model", device_of: dict[str, str]) -> int:
    """Tensors that go from one device to another; each is copied once, however many nodes there read it."""
    crossing = set()
    for op in model.get_ops():
        to = device_of.get(_name(op))
        for value in op.input_values():
            source = value.get_node()
            came = device_of.get(_name(source))
            if (
                came
                and to
                and came != to
                and source.get_type_name() not in NO_WORK
                and op.get_type_name() != "Result"
            ):
                crossing.add((_name(source), value.get_index(), to))
    return len(crossing)


def _is(device: str, wanted: str) -> bool:
    """`GPU` and `GPU.0` serve each other, `GPU.1` is another one, and `(GPU)` is there for the time being only."""
    if device.startswith("(") or device_kind(device) != device_kind(wanted):
        return False
    return device == wanted or "." not in device or "." not in wanted


def _name(op: "Node") -> str:
    return str(op.get_friendly_name())
