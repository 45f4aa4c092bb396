"""Records of a model's structure and cost, which the other modules of this package fill."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from edgeopt.graph.import_proof import ImportProof
from edgeopt.hw.device import Device
from edgeopt.notebook import NotebookRecord

SCHEMA = 1
# The number of largest weights that are listed one by one.
LARGEST = 2000


class TensorFacts(msgspec.Struct, frozen=True):
    """An input or output of the model or of a node; a dimension is a size, a name, or None if it is open."""

    name: str
    dtype: str | None = None
    shape: tuple[int | str | None, ...] | None = None
    """Sizes of the dimensions; None if even their number is unknown."""


class Cost(msgspec.Struct, frozen=True):
    """Minimum cost of one run of a node; an unknown figure is None, with the reason in `unknown`."""

    macs: int | None = None
    """Multiply-accumulate operations."""
    operations: int | None = None
    """Operations: a multiplication and an addition are two, any other function of a number is one."""
    read_bytes: int | None = None
    written_bytes: int | None = None
    unknown: str = ""
    unknown_kind: str = ""
    """Reason without the tensor's name, equal for all tensors, by which nodes are grouped in reports."""
    unknown_within: bool = False
    """Whether the unknown cost is that of a node inside this one."""


class NodeRow(msgspec.Struct, frozen=True):
    position: int
    name: str
    operator: str
    domain: str
    """Domain of the operator; empty for ONNX's."""
    inputs: tuple[TensorFacts, ...]
    outputs: tuple[TensorFacts, ...]
    weights_bytes: int
    """Size of the weights that the node reads; a shared weight counts at each of its readers."""
    parameters: int
    inside: str = ""
    """Node and attribute that contain this node, if it is in a subgraph: `loop_3/body`."""
    category: str = ""
    """Category, a value of `categories.OperatorType`."""
    cost: Cost = Cost()
    """Cost of one run of the node; a node that contains others (a branch, a loop) has their total cost."""
    runs: int = 1
    """Number of runs in one run of the model: 0 in a branch that is not counted, more than 1 in a loop."""
    least_ms: float | None = None
    """Minimum time of one run in ms by the device's measured peaks; None if the cost or the peaks are unknown, and
    for nodes that contain others, which are listed themselves."""
    bound: Literal["", "memory", "compute"] = ""
    """Resource that limits `least_ms`; empty if unknown."""
    attributes: dict[str, str] = {}
    """Attributes as text; a tensor is shown by its type and shape."""
    counted_weights_bytes: int = 0
    """Part of `weights_bytes` that sums include here: a weight with several readers counts at one of them."""


class OperatorRow(msgspec.Struct, frozen=True):
    operator: str
    domain: str
    count: int
    weights_bytes: int = 0
    """Size of the weights in bytes; each weight of the model counts in one row."""
    category: str = ""
    operations: int = 0
    moved_bytes: int = 0
    unknown: int = 0
    """Number of nodes with unknown cost, which no sum includes."""
    least_ms: float | None = None


class CategoryRow(msgspec.Struct, frozen=True):
    category: str
    count: int
    operations: int = 0
    moved_bytes: int = 0
    unknown: int = 0
    least_ms: float | None = None


class OperatorWork(msgspec.Struct, frozen=True):
    """Arithmetic, memory traffic and minimum time of one run of the whole model."""

    macs: int
    operations: int
    moved_bytes: int
    unknown: int
    """Number of nodes with unknown cost, which no sum includes; a loop of unknown length is one of them, and its
    body counts once."""
    unknown_reasons: tuple[str, ...] = ()
    peak_activation_bytes: int | None = None
    """Peak memory of inputs and intermediate tensors in the node order of the file; a lower bound if `unsized` is
    not 0."""
    peak_node: str = ""
    unsized: int = 0
    """Number of intermediate tensors whose size is unknown."""
    least_ms: float | None = None
    least_reason: str = ""
    """Reason why `least_ms` is None; empty if it is known."""
    shapes: tuple[str, ...] = ()
    """Sizes assumed for the open dimensions of the model: `batch = 1 (assumed)`."""


class OpenDimension(msgspec.Struct, frozen=True):
    """An open dimension of the model."""

    name: str
    """Name in the model, or `INPUT[AXIS]` if it has none."""
    size: int | None
    """Size that the figures assume; None if unknown."""
    set_by: tuple[str, ...]
    """Origin of the dimension: `input 'ids', axis 1`, or the node that produces it at run time."""
    tensors: int = 0
    """Number of intermediate tensors and outputs with this dimension."""


class WeightsSummary(msgspec.Struct, frozen=True):
    """Findings from the content of all weights, not only of the largest."""

    zeros_share: float | None = None
    not_finite: tuple[str, ...] = ()
    """Names of the weights that contain NaN or infinity."""
    denormal: tuple[str, ...] = ()
    """Names of the weights that contain denormal numbers, which slow some CPUs down."""
    unused: tuple[str, ...] = ()
    twins: tuple[tuple[str, ...], ...] = ()
    """Groups of equal weights."""
    twins_bytes: int = 0
    note: str = ""
    """Reason why the weights were not read; empty if they were."""


class Opportunity(msgspec.Struct, frozen=True):
    """A possible optimization of a model on this device."""

    kind: str
    title: str
    reason: str
    nodes: tuple[str, ...] = ()
    gain_share: float | None = None
    """Estimated share of one run's time that it saves (0 to 1); None if there is no estimate."""
    basis: str = ""
    """The basis of the estimate: the roofline, measured times, or none."""
    command: str = ""
    """Command that applies the optimization; empty if none does."""
    exact: bool = True
    """Whether results stay the same except for rounding."""


class CoverageRow(msgspec.Struct, frozen=True):
    """Nodes that one installed backend runs natively."""

    backend: str
    title: str
    version: str = ""
    supported: int | None = None
    total: int | None = None
    """Number of nodes; counted after the runtime's own conversion if only those are reported."""
    unsupported: tuple[str, ...] = ()
    boundaries: int | None = None
    """Number of places where data moves from one provider or device to another."""
    reason: str = ""
    """Reason why the backend cannot run the model, or why its coverage is unknown."""


class OpTimeRow(msgspec.Struct, frozen=True):
    """Time of one kernel as the runtime ran it; a fused kernel covers several nodes of the model."""

    kernel: str
    operator: str
    """Operator type in the runtime's own naming."""
    time_ms: float
    share: float
    members: tuple[str, ...] = ()
    """Nodes of the model that the kernel covers; empty if unknown (unattributed)."""
    categories: tuple[str, ...] = ()
    operations: int | None = None
    moved_bytes: int | None = None
    least_ms: float | None = None
    bound: Literal["", "memory", "compute"] = ""
    added: bool = False
    """Whether the runtime added the kernel, as for a layout conversion; `members` are the nodes that need it."""
    range_ms: tuple[float, float] | None = None
    """Interquartile range of the run times in ms; None if unknown."""


class OpTimes(msgspec.Struct, frozen=True):
    """Time of one run by kernel, measured by the runtime's profiler."""

    backend: str
    version: str
    threads: int | None
    runs: int
    run_ms: float
    """Median time of whole runs with profiling."""
    kernels_ms: float
    """Part of `run_ms` spent inside kernels."""
    attributed_share: float
    """Share of `kernels_ms` that is attributed to nodes of the model."""
    rows: tuple[OpTimeRow, ...]
    reason: str = ""
    """Reason why there are no times; empty if there are."""
    plain_ms: float | None = None
    """Median time of whole runs without profiling, interleaved with the others, to show the profiling overhead."""


class WeightRow(msgspec.Struct, frozen=True):
    name: str
    dtype: str
    shape: tuple[int, ...]
    size_bytes: int
    parameters: int
    file: str = ""
    """External data file that contains the weight; empty if it is in the model file."""
    zeros_share: float | None = None
    """Share of zeros (0 to 1); None if the content was not read."""
    minimum: float | None = None
    maximum: float | None = None
    histogram: tuple[int, ...] = ()
    """Counts of values in equal steps from the minimum to the maximum; large weights are sampled evenly."""


class FileRow(msgspec.Struct, frozen=True):
    name: str
    size_bytes: int


class DeploymentRow(msgspec.Struct, frozen=True):
    """Deployment described by a bundle's metadata."""

    name: str
    created: str
    target: str
    backend: str
    options: dict[str, str | int | float | bool | dict[str, list[int]]]
    source: str
    summary: str
    verdict: str | None = None
    speedup: float | None = None
    speedup_low: float | None = None
    speedup_high: float | None = None
    latency_ms: float | None = None
    accuracy_db: float | None = None
    floor_db: float | None = None
    outputs: "tuple[ProvedOutput, ...]" = ()
    """Accuracy of each output, if the record of the proof contains it."""


class ProvedOutput(msgspec.Struct, frozen=True):
    """Accuracy of one output of a bundle relative to the source model, from its proof."""

    name: str
    snr_db: float | None = None
    agreement: float = 1.0
    """Share of equal values."""
    counted: bool = False
    """Whether `agreement` describes the output better than dB: whole numbers, truth values or texts."""


class Analysis(NotebookRecord, msgspec.Struct, frozen=True):
    name: str
    path: str
    kind: Literal["model", "bundle"]
    format: Literal["ONNX", "OpenVINO IR"]
    digest: str
    """sha256 over the model file and its external data."""
    size_bytes: int
    """Size including external data."""
    weights_bytes: int
    parameters: int
    nodes_count: int
    inputs: tuple[TensorFacts, ...]
    outputs: tuple[TensorFacts, ...]
    operators: tuple[OperatorRow, ...]
    nodes: tuple[NodeRow, ...]
    weights_count: int
    weights: tuple[WeightRow, ...]
    """Largest weights, in descending order of size."""
    ir_version: int | None = None
    opsets: dict[str, int] = {}
    """Opset versions by domain; "" is the domain of ONNX."""
    producer: str = ""
    functions_count: int = 0
    external_files: tuple[FileRow, ...] = ()
    warnings: tuple[str, ...] = ()
    deployment: DeploymentRow | None = None
    imported: ImportProof | None = None
    """Import proof, if `edgeopt import` made the model or the source model of the bundle."""
    categories: tuple[CategoryRow, ...] = ()
    work: OperatorWork | None = None
    dimensions: tuple[OpenDimension, ...] = ()
    weights_summary: WeightsSummary = WeightsSummary()
    opportunities: tuple[Opportunity, ...] = ()
    """Opportunities in descending order of the estimated gain."""
    coverage: tuple[CoverageRow, ...] = ()
    op_times: tuple[OpTimes, ...] = ()
    schema: int = SCHEMA


def name_of(node: NodeRow) -> str:
    """Returns the name of a node, else of its first named output, else its operator."""
    return node.name or next((tensor.name for tensor in node.outputs if tensor.name), node.operator)


def largest(weights: Iterable[WeightRow]) -> tuple[WeightRow, ...]:
    """Returns the largest weights, in descending order of size."""
    return tuple(sorted(weights, key=lambda weight: (-weight.size_bytes, weight.name))[:LARGEST])


def unknown_shapes(nodes: Iterable[NodeRow]) -> str | None:
    """Returns a warning if shapes are unknown, else None."""
    outputs = [output for node in nodes for output in node.outputs]
    unknown = sum(output.shape is None for output in outputs)
    if not unknown:
        return None
    return f"The shapes of {unknown:,} of {len(outputs):,} intermediate tensors are known only at run time."


@dataclass(frozen=True, slots=True)
class AnalysisOptions:
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Input shapes that the user fixes."""
    real: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Shapes of any tensors as observed in a run, which override inferred ones."""
    device: Device | None = None
    threads: int | None = None
    """Number of cores that a run may use; all available ones if None."""
    large_weights: bool = False
    """Whether to read the content of weights of any size."""
