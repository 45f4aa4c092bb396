"""What a model is made of and what it costs, as records; the other files of this folder fill them in."""

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
    """An input or output of the model or of a node; a dimension is a size, a name, or None where it is open."""

    name: str
    dtype: str | None = None
    shape: tuple[int | str | None, ...] | None = None
    """None where not even the number of dimensions is known."""


class Cost(msgspec.Struct, frozen=True):
    """What one run of a node takes at least; None where that is not known, and `unknown` says why."""

    macs: int | None = None
    """Products that are added up."""
    operations: int | None = None
    """A multiplication and an addition are two, any other function of a number is one."""
    read_bytes: int | None = None
    written_bytes: int | None = None
    unknown: str = ""
    unknown_kind: str = ""
    """The same for all tensors, where `unknown` names one: nodes with the same reason are reported together."""
    unknown_within: bool = False
    """Whether it is the cost of a node that this one holds which is not known."""


class NodeRow(msgspec.Struct, frozen=True):
    position: int
    name: str
    operator: str
    domain: str
    """Empty for ONNX's own operators."""
    inputs: tuple[TensorFacts, ...]
    outputs: tuple[TensorFacts, ...]
    weights_bytes: int
    """Of the weights that it reads; one that several nodes read counts at each of them."""
    parameters: int
    inside: str = ""
    """For a node of a subgraph, the node and the attribute that hold it: `loop_3/body`."""
    category: str = ""
    """Of `categories.OperatorType`."""
    cost: Cost = Cost()
    """Of one run of the node; a node that holds others (a branch, a loop) has what they cost together."""
    runs: int = 1
    """How often it runs in one run of the model: 0 in the branch that is not counted, more in a loop."""
    least_ms: float | None = None
    """The time that the device's measured peaks allow for one run; None where the cost or the peaks are not known,
    and for nodes that contain others, whose times are listed."""
    bound: Literal["", "memory", "compute"] = ""
    """What that time is spent on."""
    attributes: dict[str, str] = {}
    """As text; of a tensor its type and shape."""
    counted_weights_bytes: int = 0
    """Of these weights, those that sums count here: a weight with several readers counts at one of them."""


class OperatorRow(msgspec.Struct, frozen=True):
    operator: str
    domain: str
    count: int
    weights_bytes: int = 0
    """Each weight of the model counts in one row."""
    category: str = ""
    operations: int = 0
    moved_bytes: int = 0
    unknown: int = 0
    """Nodes whose cost is not known; they are in none of the sums."""
    least_ms: float | None = None


class CategoryRow(msgspec.Struct, frozen=True):
    category: str
    count: int
    operations: int = 0
    moved_bytes: int = 0
    unknown: int = 0
    least_ms: float | None = None


class OperatorWork(msgspec.Struct, frozen=True):
    """One run of the whole model."""

    macs: int
    operations: int
    moved_bytes: int
    unknown: int
    """Nodes whose cost is not known; they are in none of the sums. A loop whose length is not known is one of
    them, and what is in it counts once."""
    unknown_reasons: tuple[str, ...] = ()
    peak_activation_bytes: int | None = None
    """The most that inputs and intermediate tensors take together when nodes run in the order of the file;
    a lower bound where `unsized` is not 0."""
    peak_node: str = ""
    unsized: int = 0
    """Intermediate tensors whose size is not known."""
    least_ms: float | None = None
    least_reason: str = ""
    """Why that time is not known, where it is not."""
    shapes: tuple[str, ...] = ()
    """What the figures are for, where the model leaves dimensions open: `batch = 1 (assumed)`."""


class OpenDimension(msgspec.Struct, frozen=True):
    """A dimension that the model leaves open."""

    name: str
    """As the model calls it, or `INPUT[AXIS]` where it does not."""
    size: int | None
    """What the figures are for."""
    set_by: tuple[str, ...]
    """Where it comes from: `input 'ids', axis 1`, or the node that makes it while the model runs."""
    tensors: int = 0
    """How many intermediate tensors and outputs have it."""


class WeightsSummary(msgspec.Struct, frozen=True):
    """What looking into all weights told, not only into the largest."""

    zeros_share: float | None = None
    not_finite: tuple[str, ...] = ()
    """Names of those that hold NaN or infinity."""
    denormal: tuple[str, ...] = ()
    """Names of those that hold denormal numbers, which slow some CPUs down."""
    unused: tuple[str, ...] = ()
    twins: tuple[tuple[str, ...], ...] = ()
    """Groups of weights that are equal."""
    twins_bytes: int = 0
    note: str = ""
    """Why nobody looked into them, where that is so."""


class Opportunity(msgspec.Struct, frozen=True):
    """What could be done about a model on this device."""

    kind: str
    title: str
    reason: str
    nodes: tuple[str, ...] = ()
    gain_share: float | None = None
    """Of the time of one run, as far as that can be estimated; None where it cannot."""
    basis: str = ""
    """The basis of the estimate: the roofline, measured times, or none."""
    command: str = ""
    """What would use it."""
    exact: bool = True
    """Results stay what they are, but for rounding."""


class CoverageRow(msgspec.Struct, frozen=True):
    """Which nodes one installed backend runs itself."""

    backend: str
    title: str
    version: str = ""
    supported: int | None = None
    total: int | None = None
    """Counted after the runtime's own conversion where it tells only that."""
    unsupported: tuple[str, ...] = ()
    boundaries: int | None = None
    """Places where data goes from one provider or device to another."""
    reason: str = ""
    """Why it cannot run the model, or why nothing is known."""


class OpTimeRow(msgspec.Struct, frozen=True):
    """One kernel as the runtime ran it; several nodes of the model where it fused them."""

    kernel: str
    operator: str
    """As the runtime calls it."""
    time_ms: float
    share: float
    members: tuple[str, ...] = ()
    """The nodes of the model behind it; empty where that is not known (unattributed)."""
    categories: tuple[str, ...] = ()
    operations: int | None = None
    moved_bytes: int | None = None
    least_ms: float | None = None
    bound: Literal["", "memory", "compute"] = ""
    added: bool = False
    """By itself it stands for no node, as one that turns the layout of a tensor; the members are those that it
    works for."""
    range_ms: tuple[float, float] | None = None
    """The times of the middle half of the runs; None where they are not known."""


class OpTimes(msgspec.Struct, frozen=True):
    """Where one run's time goes, as the runtime's own profiler says."""

    backend: str
    version: str
    threads: int | None
    runs: int
    run_ms: float
    """Median of whole runs while profiling."""
    kernels_ms: float
    """Of that, inside kernels."""
    attributed_share: float
    """Of the time in kernels, what has nodes of the model behind it."""
    rows: tuple[OpTimeRow, ...]
    reason: str = ""
    """Why there are no times, where there are none."""
    plain_ms: float | None = None
    """Median of whole runs without profiling, interleaved with the others, to show the profiling overhead."""


class WeightRow(msgspec.Struct, frozen=True):
    name: str
    dtype: str
    shape: tuple[int, ...]
    size_bytes: int
    parameters: int
    file: str = ""
    """The file of external data that it lies in."""
    zeros_share: float | None = None
    """None where nobody looked inside."""
    minimum: float | None = None
    maximum: float | None = None
    histogram: tuple[int, ...] = ()
    """Values by equal steps from the minimum to the maximum; of a large weight, those of an even sample."""


class FileRow(msgspec.Struct, frozen=True):
    name: str
    size_bytes: int


class DeploymentRow(msgspec.Struct, frozen=True):
    """What a bundle says of itself."""

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
    """Where the record of the proof tells each."""


class ProvedOutput(msgspec.Struct, frozen=True):
    """How near an output of a bundle is to the source model's, by its proof."""

    name: str
    snr_db: float | None = None
    agreement: float = 1.0
    """The share of values that are equal."""
    counted: bool = False
    """Agreement says more of it than decibels: whole numbers, truth values or texts."""


class Analysis(NotebookRecord, msgspec.Struct, frozen=True):
    name: str
    path: str
    kind: Literal["model", "bundle"]
    format: Literal["ONNX", "OpenVINO IR"]
    digest: str
    """sha256 over the model file and its external data."""
    size_bytes: int
    """With external data."""
    weights_bytes: int
    parameters: int
    nodes_count: int
    inputs: tuple[TensorFacts, ...]
    outputs: tuple[TensorFacts, ...]
    operators: tuple[OperatorRow, ...]
    nodes: tuple[NodeRow, ...]
    weights_count: int
    weights: tuple[WeightRow, ...]
    """The largest, largest first."""
    ir_version: int | None = None
    opsets: dict[str, int] = {}
    """By domain; "" is ONNX's own."""
    producer: str = ""
    functions_count: int = 0
    external_files: tuple[FileRow, ...] = ()
    warnings: tuple[str, ...] = ()
    deployment: DeploymentRow | None = None
    imported: ImportProof | None = None
    """Where `edgeopt import` made the model, or that which a bundle was made from."""
    categories: tuple[CategoryRow, ...] = ()
    work: OperatorWork | None = None
    dimensions: tuple[OpenDimension, ...] = ()
    weights_summary: WeightsSummary = WeightsSummary()
    opportunities: tuple[Opportunity, ...] = ()
    """The largest estimated gain first."""
    coverage: tuple[CoverageRow, ...] = ()
    op_times: tuple[OpTimes, ...] = ()
    schema: int = SCHEMA


def name_of(node: NodeRow) -> str:
    """How a node is called: one without a name by its first output that has one."""
    return node.name or next((tensor.name for tensor in node.outputs if tensor.name), node.operator)


def largest(weights: Iterable[WeightRow]) -> tuple[WeightRow, ...]:
    """The few largest weights, largest first."""
    return tuple(sorted(weights, key=lambda weight: (-weight.size_bytes, weight.name))[:LARGEST])


def unknown_shapes(nodes: Iterable[NodeRow]) -> str | None:
    """A warning where shapes stay unknown, or None."""
    outputs = [output for node in nodes for output in node.outputs]
    unknown = sum(output.shape is None for output in outputs)
    if not unknown:
        return None
    return f"The shapes of {unknown:,} of {len(outputs):,} intermediate tensors are known only at run time."


@dataclass(frozen=True, slots=True)
class GivenShapes:
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The shapes of inputs that the user fixes."""
    real: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The shapes of any tensors as they were in a run; they win over what inference says."""
    device: Device | None = None
    threads: int | None = None
    """The cores that a run may use; None: all that the device has for it."""
    large_weights: bool = False
    """Look at the numbers in the weights however large they are."""
