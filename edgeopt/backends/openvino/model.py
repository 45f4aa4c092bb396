"""OpenVINO's models: reading and compiling them, placement of their nodes, and availability of OpenVINO."""

import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgeopt.backends.base import Available, Placement, TensorInfo, installed
from edgeopt.backends.openvino.options import Aim
from edgeopt.backends.protobuf import GRAPH, NODES, numbered_parts, opened, parts, text
from edgeopt.errors import MissingExtraError, ModelError, UsageError, error_text
from edgeopt.hw.device import Unavailable

if TYPE_CHECKING:
    from openvino import CompiledModel, Core, Model, Node, Output


_DTYPES = {
    "boolean": "bool",
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}

Shapes = dict[str, tuple[int, ...]]


@cache
def core() -> "Core":
    """Returns the `openvino.Core` that sessions share, because loading its plugins takes a while."""
    try:
        import openvino
    except ImportError as error:
        raise MissingExtraError("openvino", "Running models with OpenVINO") from error
    return openvino.Core()


def core_with(custom_ops: tuple[str, ...]) -> "Core":
    """Returns the process's core, or with custom operators a new one, because extensions stay in a core."""
    if not custom_ops:
        return core()
    core()  # says so where the package is missing
    import openvino

    own = openvino.Core()
    for library in custom_ops:
        if not Path(library).is_file():
            raise UsageError(f"There is no library of custom operators {library}.", "Check the path.")
        try:
            # The system's folders would be searched for a name without a folder.
            own.add_extension(str(Path(library).resolve()))
        except RuntimeError as error:
            raise UsageError(
                f"OpenVINO cannot take custom operators from '{Path(library).name}': {error_text(error)}",
                "Give a library that exports OpenVINO's 'create_extensions', built for this version of it.",
            ) from error
    return own


def read_model(path: Path, runtime: "Core | None" = None, config: Mapping[str, Any] | None = None) -> "Model":
    runtime = runtime or core()
    if not path.is_file():
        raise ModelError(f"There is no model file {path}.", "Check the path.")
    try:
        model = runtime.read_model(path, config=dict(config or {}))
    except RuntimeError as error:
        odd = odd_port(path) if path.suffix == ".onnx" else None
        if odd is not None:
            raise ModelError(
                f"OpenVINO cannot read '{path.name}': {odd}, and only tensors can go in and out.",
                "Leave the step that makes it out of the model, such as ZipMap, or give out its parts as tensors.",
            ) from error
        message = error_text(error)
        hint = "Try another backend, or check that the file is complete: edgeopt simplify MODEL -o OUT"
        if "No conversion rule" in message:
            hint = "Try another backend, or give the library of your own operators: --custom-ops LIB"
        raise ModelError(f"OpenVINO cannot read '{path.name}': {message}", hint) from error
    if path.suffix == ".onnx":
        _restore_input_names(model, path)
    return model


def _restore_input_names(model: "Model", path: Path) -> None:
    """Restores names of inputs: behind a Dropout, OpenVINO 2026.4 keeps only the name of the Dropout's output."""
    names = inputs_behind(path, [port_name(port) for port in model.inputs])
    for name, port in zip(names, model.inputs, strict=True):
        if name not in port.get_names():
            port.add_names({name})
            port.get_node().set_friendly_name(name)


def write_model(model: "Model", place: Path) -> None:
    """Writes the .xml and the .bin with unchanged weights; each input and output has a single name."""
    import openvino

    for port in (*model.inputs, *model.outputs):
        port.get_tensor().set_names({port_name(port)})
    openvino.save_model(model, place, compress_to_fp16=False)


def compile_model(runtime: "Core", model: "Model", device: str, config: dict[str, Any]) -> "CompiledModel":
    try:
        return runtime.compile_model(model, device, config)
    except RuntimeError as error:
        raise ModelError(
            f"OpenVINO cannot compile the model for {device}: {error_text(error)}",
            "Try another backend or other options.",
        ) from error


def with_shapes(model: "Model", inputs: tuple[TensorInfo, ...], shapes: Shapes) -> "Model":
    """Returns a copy of the model with some inputs fixed to static shapes; the weights are shared."""
    names = [info.name for info in inputs]
    unknown = [name for name in shapes if name not in names]
    if unknown:
        raise UsageError(
            f"The option 'shapes' names the input '{unknown[0]}', which the model does not have.",
            f"Its inputs are: {', '.join(names)}.",
        )
    for info in inputs:
        if info.name in shapes and not _allows(info, shapes[info.name]):
            # OpenVINO would replace even a fixed dimension, and compute other results.
            raise UsageError(
                f"The option 'shapes' gives the input '{info.name}' the shape {list(shapes[info.name])}, "
                f"which does not fit {list(info.shape)}.",
                "Give a shape of the same rank that keeps the fixed dimensions.",
            )
    fixed = model.clone()
    try:
        fixed.reshape({fixed.inputs[names.index(name)]: list(shape) for name, shape in shapes.items()})
    except RuntimeError as error:
        raise UsageError(
            f"The model does not take the shapes {shapes}: {error_text(error)}",
            "Set 'shapes' that fit the model's inputs; `edgeopt analyze MODEL` lists them.",
        ) from error
    return fixed


def _allows(info: TensorInfo, shape: tuple[int, ...]) -> bool:
    if not info.rank_known:
        return True
    same_rank = len(info.shape) == len(shape)
    return same_rank and all(want in (None, got) for want, got in zip(info.shape, shape, strict=True))


def tensor_info(port: "Output") -> TensorInfo:
    name = port_name(port)
    kind = port.get_element_type().get_type_name()
    if kind not in _DTYPES:
        # OpenVINO supports strings too, but releasing such a request corrupts the heap (2026.4, any model).
        raise ModelError(
            f"'{name}' is a tensor of {kind}, which edgeopt does not pass through OpenVINO.",
            "Use the backend onnxruntime-cpu for this model.",
        )
    partial = port.get_partial_shape()
    if partial.rank.is_dynamic:
        return TensorInfo(name, _DTYPES[kind], (), rank_known=False)
    return TensorInfo(name, _DTYPES[kind], tuple(d.get_length() if d.is_static else None for d in partial))


def port_name(port: "Output") -> str:
    """Returns the name in the ONNX file; if a tensor has several names, the one of its node."""
    names = port.get_names()
    name = str(port.get_node().get_friendly_name()).removesuffix("/sink_port_0")
    return name if name in names or not names else str(min(names))


_INPUT, _OUTPUT = 11, 12  # in GraphProto
_NAME, _TYPE = 1, 2  # in ValueInfoProto
_OPERAND, _RESULT = 1, 2  # in NodeProto
_KINDS = {4: "a list", 5: "a table", 8: "a sparse tensor", 9: "an optional value"}  # in TypeProto


def odd_port(path: Path) -> str | None:
    """Returns the first input or output that is not a tensor ("'scores' is a list"), or None."""
    try:
        with opened(path) as data:
            for graph in parts(data, (0, len(data)), (GRAPH,)):
                for port in parts(data, graph, (_INPUT, _OUTPUT)):
                    name = text(data, next(parts(data, port, (_NAME,)), (0, 0)))
                    for kind in parts(data, port, (_TYPE,)):
                        for number, _, _ in numbered_parts(data, kind, tuple(_KINDS)):
                            return f"'{name}' is {_KINDS[number]}"
    except (IndexError, KeyError, ValueError, OSError):
        # The file is damaged: OpenVINO's own message is better.
        return None
    return None


def inputs_behind(path: Path, names: Sequence[str]) -> list[str]:
    """Returns the inputs of the file from which these values come by first operands; itself if none."""
    inputs, made_of = set[str](), dict[str, str]()
    try:
        with opened(path) as data:
            for graph in parts(data, (0, len(data)), (GRAPH,)):
                for port in parts(data, graph, (_INPUT,)):
                    inputs.add(text(data, next(parts(data, port, (_NAME,)))))
                if inputs.issuperset(names):
                    return [*names]
                for node in parts(data, graph, (NODES,)):
                    operand = text(data, next(parts(data, node, (_OPERAND,)), (0, 0)))
                    made_of.update((text(data, one), operand) for one in parts(data, node, (_RESULT,)))
    except (IndexError, KeyError, ValueError, OSError, StopIteration):
        return [*names]
    return [_first(name, inputs, made_of) for name in names]


def _first(name: str, inputs: set[str], made_of: dict[str, str]) -> str:
    found, passed = name, set[str]()
    while found not in inputs:
        if found not in made_of or found in passed:
            return name
        passed.add(found)
        found = made_of[found]
    return found


DEV = Path("/dev")

# Device files on Linux; `dxg` is the device of the Windows Subsystem for Linux.
DEVICE_NODES = {"GPU": ("dri/renderD*", "dxg"), "NPU": ("accel/accel*",)}
DRIVERS = {"GPU": "Intel's compute runtime (OpenCL driver)", "NPU": "Intel's NPU driver"}


def package_available() -> Available | Unavailable:
    return installed("openvino", ("openvino", "openvino-nightly"), "openvino")


def device_available(kind: str) -> Available | Unavailable:
    """Returns whether a device is available; asks OpenVINO (a third of a second) only if a device file exists."""
    package = package_available()
    if isinstance(package, Unavailable):
        return package
    if sys.platform == "linux" and not any(any(DEV.glob(pattern)) for pattern in DEVICE_NODES[kind]):
        return Unavailable(f"this system shows no {kind}: there is no {DEV}/{DEVICE_NODES[kind][0]}")
    try:
        devices = core().available_devices
    except RuntimeError as error:
        return Unavailable(f"OpenVINO cannot list its devices: {error_text(error)}")
    if not any(device_kind(device) == kind for device in devices):
        return Unavailable(f"OpenVINO sees no {kind}; it works with Intel's, and needs {DRIVERS[kind]}")
    return package


def device_kind(device: str) -> str:
    """Returns the kind of a device: `GPU` for `GPU.1`, and `CPU` for `(CPU)`, which only runs for a time."""
    return device.strip("()").split(".", 1)[0]


NO_WORK = ("Constant", "Parameter", "Result")


class PortPlaces:
    """Placement of a model's nodes as known before it is compiled; `placement` queries the compiled model."""

    def __init__(self, aim: Aim, nodes: tuple[str, ...], device_of: dict[str, str], boundaries: int) -> None:
        self._aim = aim
        self._nodes = nodes
        self.device_of = device_of
        """Device of each node by name if the model is divided among devices, otherwise empty."""
        self._boundaries = boundaries

    def placement(self, compiled: "CompiledModel") -> Placement:
        required = self._aim.required
        if self.device_of:
            devices = [self.device_of.get(label.split(": ", 1)[1], "unknown") for label in self._nodes]
            fallen = tuple(
                label for label, device in zip(self._nodes, devices, strict=True) if not _is(device, required)
            )
            counts = {device: devices.count(device) for device in dict.fromkeys(devices)}
            return Placement(required, counts, fallen, self._boundaries)
        # AUTO moves the whole model, perhaps during a run, so it is queried each time.
        now = [str(device) for device in compiled.get_property("EXECUTION_DEVICES")]
        here = required == "AUTO" or any(_is(device, required) for device in now)
        return Placement(required, dict.fromkeys(now, len(self._nodes)), () if here else self._nodes)


def places(runtime: "Core", model: "Model", aim: Aim) -> PortPlaces:
    divided = aim.device.startswith("HETERO:")
    device_of = dict(runtime.query_model(model, aim.device)) if divided else {}
    return PortPlaces(aim, node_labels(model), device_of, boundaries(model, device_of))


def node_labels(model: "Model") -> tuple[str, ...]:
    """Returns `<operator type>: <node name>` of all nodes that compute something."""
    return tuple(
        f"{op.get_type_name()}: {_name(op)}" for op in model.get_ops() if op.get_type_name() not in NO_WORK
    )


def boundaries(model: "Model", device_of: dict[str, str]) -> int:
    """Counts the tensors that go from one device to another; each is copied once for all readers on a device."""
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


def _is(device: str, required: str) -> bool:
    """Whether a device is the wanted one: `GPU` matches any GPU, and `(GPU)`, which runs only for a time, none."""
    if device.startswith("(") or device_kind(device) != device_kind(required):
        return False
    return device == required or "." not in device or "." not in required


def _name(op: "Node") -> str:
    return str(op.get_friendly_name())
