"""Configurations (backends with options that change their results), and the layers behind each kernel."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from edgeopt.backends import BACKENDS, backend_named
from edgeopt.backends.base import Available, TensorInfo
from edgeopt.backends.options import Value, read_options, side_of
from edgeopt.data.samples import Samples
from edgeopt.errors import MissingError, UsageError, pip_install
from edgeopt.graph.analysis import NodeRow, OpTimeRow
from edgeopt.hw.device import Device
from edgeopt.profiles import TargetProfile
from edgeopt.quant.records import Layer

OPENVINO = "openvino-cpu"
GROUPS = "dynamic_quantization_group_size"
GROUP_SIZES = (128, 64, 32)
"""Group sizes, the fastest first; each is more exact than the one before."""
# OpenVINO computes floats in bf16 by default if the processor supports it, so the precision is always set.
_PRECISION = "precision"
_BF16 = frozenset({"avx512-bf16", "amx-bf16"})


OptionValue = Value | dict[str, list[int]]


class ExecutionConfig(msgspec.Struct, frozen=True):
    """A backend with options that runs the planned models."""

    backend: str
    options: dict[str, OptionValue] = {}

    @property
    def name(self) -> str:
        options = [f"{name}={value}" for name, value in self.options.items() if not isinstance(value, dict)]
        return f"{self.backend} ({', '.join(options)})" if options else self.backend

    @property
    def side(self) -> str:
        """The configuration in the notation of `edgeopt bench`, after the @ of a side."""
        return side_of(self.backend, self.options)

    def having(self, **options: OptionValue) -> "ExecutionConfig":
        return ExecutionConfig(self.backend, {**self.options, **options})


def backends_for(requested: str, profile: TargetProfile) -> tuple[str, ...]:
    """Returns the named backend, or the available ones of the profile; raises a MissingError if there is none."""
    if requested:
        if requested not in {backend.name for backend in BACKENDS}:
            from edgeopt.nearest import nearest

            raise UsageError(
                f"There is no backend '{requested}'.",
                nearest(requested, tuple(backend.name for backend in BACKENDS)),
            )
        backend = backend_named(requested)
        state = backend.available()
        if not isinstance(state, Available):
            raise MissingError(
                f"The backend {requested} is not available: {state.reason}.",
                "List available ones: edgeopt backends",
            )
        if ".onnx" not in backend.formats:
            raise UsageError(
                f"The backend {requested} runs no ONNX files.", "Choose another one: edgeopt backends"
            )
        return (requested,)
    here = [name for name in profile.backends.order if isinstance(backend_named(name).available(), Available)]
    found = tuple(dict.fromkeys(name for name in here if ".onnx" in backend_named(name).formats))
    if not found:
        raise MissingError("No installed runtime runs quantized models.", pip_install("cpu"))
    return found


def configs_for(
    backends: Sequence[str], options: Mapping[str, Value], device: Device
) -> tuple[ExecutionConfig, ...]:
    """Returns each backend with the given options, and with each value of options that change its results."""
    found: list[ExecutionConfig] = []
    for name in backends:
        known = backend_named(name).options
        mine: dict[str, OptionValue] = {
            key: value for key, value in options.items() if key in known.__struct_fields__
        }
        if len(backends) == 1:
            mine = dict(options)
            read_options(known, mine, name)  # complains of what it does not have
        if name != OPENVINO or _PRECISION in mine:
            found.append(ExecutionConfig(name, mine))
            continue
        found.append(ExecutionConfig(name, {_PRECISION: "f32", **mine}))
        if _BF16 & set(device.cpu.simd):
            found.append(ExecutionConfig(name, {_PRECISION: "bf16", **mine}))
    return tuple(found)


def is_inexact(config: ExecutionConfig) -> bool:
    """Whether the configuration may round the float model too."""
    # The runtime's own choice may be any precision.
    return config.options.get(_PRECISION, "f32") != "f32"


def exact(config: ExecutionConfig) -> ExecutionConfig:
    """Returns the configuration with floats in full precision, the baseline of a plan."""
    kept = {name: value for name, value in config.options.items() if name != GROUPS}
    return ExecutionConfig(config.backend, {**kept, _PRECISION: "f32"} if is_inexact(config) else kept)


def with_shapes(config: ExecutionConfig, inputs: Sequence[TensorInfo], samples: Samples) -> ExecutionConfig:
    """Returns the configuration with the shapes of the data fixed, if the model leaves them open and the runtime
    is faster with fixed ones.

    Feeds of other shapes still run.
    """
    is_open = any(not isinstance(size, int) for info in inputs for size in info.shape)
    known = "shapes" in backend_named(config.backend).options.__struct_fields__
    if not is_open or not known or "shapes" in config.options or not config.backend.startswith("openvino"):
        return config
    return config.having(shapes=samples.shapes())


CONVERSIONS = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"})
Shares = Mapping[str, float]
"""Shares of a kernel's time, by layer; empty if no layer owns the kernel."""


@dataclass(frozen=True, slots=True)
class Territory:
    """Owners of the nodes of one model, which attribute the time of every kernel to layers.

    A layer's kernel seldom runs alone: the nodes that follow it (an activation, a sum, a pooling) are fused with
    it in one precision and run separately in another. So a layer owns the nodes that follow it up to the next
    layer, and the nodes that a scheme adds around it. `owners` is by the label of the node.
    """

    owners: Mapping[str, Shares]
    layers: Mapping[str, Layer]
    """Layers by the labels of their nodes."""

    def of(self, row: OpTimeRow) -> Shares:
        """Returns the layers that own a kernel's time: those in the kernel, or else the owners of its nodes."""
        inside = {self.layers[label].name: self.layers[label] for label in row.members if label in self.layers}
        if inside:
            return _by_work(inside.values())
        found: dict[str, float] = defaultdict(float)
        owned = [label for label in row.members if label in self.owners]
        for label in owned:
            for layer, share in self.owners[label].items():
                found[layer] += share / len(owned)
        return found


def label_of(row: NodeRow) -> str:
    """Returns the name by which kernels and layers refer to a node."""
    return row.name or next((tensor.name for tensor in row.outputs if tensor.name), row.operator)


def territory_of(nodes: Sequence[NodeRow], layers: Sequence[Layer], known: Territory | None = None) -> Territory:
    """Returns the owners of the nodes; `known` is the float model's territory, whose nodes keep them."""
    by_node = {label: layer for layer in layers for label in layer.nodes}
    place = {layer.name: number for number, layer in enumerate(layers)}
    makers = {tensor.name: row for row in nodes for tensor in row.outputs if tensor.name}
    readers: dict[str, list[NodeRow]] = defaultdict(list)
    for row in nodes:
        for tensor in row.inputs:
            if tensor.name:
                readers[tensor.name].append(row)
    owners: dict[str, Shares] = {}
    for row in nodes:
        label = label_of(row)
        if label in by_node:
            owners[label] = {by_node[label].name: 1.0}
        elif known is not None and label in known.owners:
            owners[label] = known.owners[label]
        elif known is not None and (served := _served(row, readers, by_node, known)):
            owners[label] = _by_work(served)
        else:
            before = [owners.get(label_of(m), {}) for t in row.inputs if (m := makers.get(t.name)) is not None]
            # The latest of these layers: a node that joins two branches waits for it.
            latest = max((max(o, key=lambda name: place[name]) for o in before if o), key=place.get, default=None)  # type: ignore[arg-type]
            owners[label] = {latest: 1.0} if latest is not None else {}
    return Territory(owners, by_node)


def _served(
    row: NodeRow, readers: Mapping[str, list[NodeRow]], by_node: Mapping[str, Layer], known: Territory
) -> list[Layer]:
    """Returns the layers that read the output of a new node, directly or through other new nodes."""
    found: dict[str, Layer] = {}
    waiting, seen = [row], {id(row)}
    while waiting:
        for tensor in waiting.pop().outputs:
            for reader in readers[tensor.name] if tensor.name else ():
                label = label_of(reader)
                if label in by_node:
                    found[by_node[label].name] = by_node[label]
                elif label not in known.owners and id(reader) not in seen:
                    seen.add(id(reader))
                    waiting.append(reader)
    return list(found.values())


def _by_work(layers: Iterable[Layer]) -> Shares:
    """Returns the shares of the layers in one kernel, in proportion to their multiply-adds."""
    several = list(layers)
    total = sum(layer.multiply_adds for layer in several)
    if not total:
        return {layer.name: 1 / len(several) for layer in several}
    return {layer.name: layer.multiply_adds / total for layer in several}
