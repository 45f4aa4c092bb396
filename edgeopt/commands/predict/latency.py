"""The predicted time of one run on another device: the work of each kernel against the device's peaks.

Runtimes fold what depends on constants alone, and compute activations, sums and normalizations where the product
before them writes its results; what is rounded between two products in eight bits is never seen in floats.
No kernel reaches the peak. The share that kernels of a kind reach comes from the device's own operator table,
if there is one; otherwise from such kernels on the machine where edgeopt was developed.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import log, prod, sqrt

import msgspec

from edgeopt.backends import PROCESSOR, backend_named
from edgeopt.commands.ops.case import CaseRow, Report
from edgeopt.graph.analysis.records import Analysis, NodeRow
from edgeopt.graph.analysis.roofline import HINT, LowerBound, minimum, precision
from edgeopt.graph.analysis.sums import HOLDERS
from edgeopt.hw.device import Device

ROUNDING = ("QuantizeLinear", "DequantizeLinear")
_PRODUCTS = ("Conv", "ConvTranspose", "MatMul", "Gemm", "MatMulInteger", "ConvInteger", "FusedMatMul", "FusedConv")
# What ONNX Runtime computes within a convolution, and within a matrix product; OpenVINO takes nearly anything.
_BEHIND_CONV = frozenset(
    {
        *("BatchNormalization", "Relu", "Clip", "LeakyRelu", "Sigmoid", "Tanh", "HardSigmoid", "HardSwish"),
        "Add",
        "Mul",
    }
)
_BEHIND_MATMUL = frozenset({"Add", "Relu", "Gelu", "FastGelu", "BiasGelu"})
_FUSED_BY_OPENVINO = frozenset({"activation", "element-wise", "normalization"})
_FREE = frozenset({"constant", "shape"})
# They give another name, or another shape, to the same bytes.
_RENAMES = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout"})
_GATES = ("Sigmoid", "HardSigmoid")
_FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True)
class KernelCost:
    operator: str
    kind: str
    """`Conv 3x3`, `Conv depth-wise`, `MatMul`, or the operator's category."""
    precision: str
    operations: int
    moved_bytes: int
    weights_bytes: int
    runs: int = 1
    rounded: bool = False
    """Whether the kernel is written with floats between roundings, and computed in bytes."""

    @property
    def is_product(self) -> bool:
        return self.kind.startswith(("Conv", "MatMul"))


def kernels_of(
    analysis: Analysis, backend: str, grouped: bool = False
) -> tuple[tuple[KernelCost, ...], tuple[str, ...]]:
    """Returns the kernels of one run, and the operators whose cost is not known.

    `grouped`: the runtime rounds activations by groups where weights are stored in bytes.
    """
    rows = [row for row in analysis.nodes if row.runs and row.operator not in HOLDERS]
    computed = _computed(rows, {tensor.name for tensor in analysis.inputs})
    rows = [row for row in rows if row.inside or any(tensor.name in computed for tensor in row.inputs)]
    within = _within_products(rows, backend)
    dequantized = {o.name for row in analysis.nodes if row.operator == "DequantizeLinear" for o in row.outputs}
    stored = _stored_in_bytes(analysis.nodes, computed) if grouped else frozenset()
    unknown: dict[str, None] = {}
    found: list[KernelCost] = []
    for row in rows:
        if row.category in _FREE or row.operator in _RENAMES or row.position in within:
            continue
        if row.cost.operations is None or row.cost.read_bytes is None or row.cost.written_bytes is None:
            unknown[row.operator] = None
            continue
        in_bytes = row.operator == "MatMulNBits" or any(tensor.name in stored for tensor in row.inputs[1:2])
        found.append(_kernel(row, "int8" if in_bytes else precision(row, dequantized), computed))
    return tuple(found), tuple(unknown)


def _kernel(row: NodeRow, bits: str, computed: set[str]) -> KernelCost:
    moved = (row.cost.read_bytes or 0) + (row.cost.written_bytes or 0)
    kind = _kind(row)
    weights = 0
    if kind.startswith(("Conv", "MatMul")) and len(row.inputs) > 1 and row.inputs[1].name not in computed:
        weights = _size(row.inputs[1].shape) * _FLOAT_BYTES
    rounded = bits == "int8" and any(tensor.dtype == "float32" for tensor in row.inputs[:1])
    # What is no product gains little by bytes: it looks numbers up, or takes them to floats and back.
    if rounded and kind.startswith(("Conv", "MatMul")):
        moved, weights = moved // _FLOAT_BYTES, weights // _FLOAT_BYTES
    return KernelCost(row.operator, kind, bits, row.cost.operations or 0, moved, weights, row.runs, rounded)


def _kind(row: NodeRow) -> str:
    operator = row.operator
    if operator in {"ConvInteger", "MatMulNBits"}:
        return operator
    if operator in {"MatMul", "Gemm", "MatMulInteger", "FusedMatMul"}:
        return "MatMul"
    if operator not in _PRODUCTS:
        return row.category
    image = row.inputs[0].shape if row.inputs else None
    weight = row.inputs[1].shape if len(row.inputs) > 1 else None
    if not image or not weight or len(weight) < 3:
        return "Conv 3x3"
    if weight[1] == 1 and image[1] not in {1, None} and operator != "ConvTranspose":
        return "Conv depth-wise"
    return "Conv 1x1" if all(size == 1 for size in weight[2:]) else "Conv 3x3"


def _computed(rows: Iterable[NodeRow], inputs: set[str]) -> set[str]:
    """Returns every tensor that depends on an input of the model; the rest is folded when the model is loaded."""
    found = set(inputs)
    for row in rows:
        if row.inside or any(tensor.name in found for tensor in row.inputs):
            found |= {tensor.name for tensor in row.outputs}
    return found


def _stored_in_bytes(rows: Iterable[NodeRow], computed: set[str]) -> frozenset[str]:
    """Constants that are made of integers, whatever turns them into floats of the right shape."""
    found: set[str] = set()
    for row in rows:
        made = row.operator == "DequantizeLinear" or any(tensor.name in found for tensor in row.inputs)
        found |= {tensor.name for tensor in row.outputs if made and tensor.name not in computed}
    return frozenset(found)


def _within_products(rows: list[NodeRow], backend: str) -> set[int]:
    """Returns the positions of the nodes that cost next to nothing where they are."""
    readers = Counter(tensor.name for row in rows for tensor in row.inputs)
    gates = {tensor.name: row for row in rows if row.operator in _GATES for tensor in row.outputs}
    product: dict[str, str] = {}
    """Operator of the product that computes a tensor, itself or with fused nodes, by tensor."""
    found: set[int] = set()
    for row in rows:
        if row.operator in _PRODUCTS:
            product |= {tensor.name: row.operator for tensor in row.outputs}
            continue
        behind = next((product[t.name] for t in row.inputs if t.name in product and readers[t.name] == 1), "")
        if row.operator in ROUNDING:
            # Between roundings a runtime computes with bytes; only floats that come from elsewhere are rounded.
            if behind or row.operator == "DequantizeLinear":
                found.add(row.position)
            product |= {tensor.name: behind for tensor in row.outputs if behind}
        elif gated := _gated(row, gates):
            # x * sigmoid(x) is one kernel, and OpenVINO computes it within the product that gives x.
            found.add(row.position)
            if backend.startswith("openvino") and gated in product and readers[gated] == 2:
                found |= {gates[t.name].position for t in row.inputs if t.name in gates}
                product |= {tensor.name: product[gated] for tensor in row.outputs}
        elif behind and _fuses(row, behind, backend):
            found.add(row.position)
            product |= {tensor.name: behind for tensor in row.outputs}
    return found


def _gated(row: NodeRow, gates: Mapping[str, NodeRow]) -> str:
    """Returns the name of the value that a node multiplies by the value's own gate; empty for any other node."""
    if row.operator != "Mul" or len(row.inputs) != 2:
        return ""
    names = [tensor.name for tensor in row.inputs]
    for gate, value in (names, names[::-1]):
        if gate in gates and gates[gate].inputs[0].name == value:
            return value
    return ""


def _fuses(row: NodeRow, product: str, backend: str) -> bool:
    if backend.startswith("openvino"):
        return row.category in _FUSED_BY_OPENVINO and row.operator != "LayerNormalization"
    return row.operator in (_BEHIND_CONV if "Conv" in product else _BEHIND_MATMUL)


def _size(shape: tuple[int | str | None, ...] | None) -> int:
    sizes = [size for size in shape or () if isinstance(size, int)]
    return prod(sizes) if shape and len(sizes) == len(shape) else 0


# Shares of the roofline that kernels of a kind reached, the middle over both runtimes (x86-64 with AVX-512).
_SHARES = {
    "Conv 3x3": 0.75,
    "Conv 1x1": 0.75,
    "Conv depth-wise": 0.2,
    "ConvInteger": 0.03,
    "MatMul": 0.75,
    "MatMulNBits": 0.45,
    "recurrent": 0.2,
    "attention": 0.4,
    "activation": 0.17,
    "normalization": 0.12,
    "pooling": 0.1,
    "reduction": 0.2,
    "element-wise": 0.5,
    "data movement": 0.3,
    "image": 0.1,
}
_ANY_SHARE = 0.2
# Products of bytes come less near to their own, higher roofline.
_ROUNDED = 0.6
# Of what a whole run costs that computes nothing: what one more kernel in it costs.
_KERNEL_OF_OVERHEAD = 0.1
# A share taken from a case beyond these says more of the clock than of the kernel.
_LOWEST, _HIGHEST = 0.005, 1.2
_CLEARLY = 2.5
# What the predictions were off by where both were known: see docs/predicting.md.
LOW_FACTOR, HIGH_FACTOR = 0.5, 2.0
_OF_INTEGERS = {"Conv": "QLinearConv", "MatMul": "QLinearMatMul", "Gemm": "QLinearMatMul"}


class Latency(msgspec.Struct, frozen=True):
    """Latency that is predicted, not measured."""

    predicted_ms: float
    low_ms: float
    high_ms: float
    """Upper end of the range that held nearly all times measured afterwards; other models may differ."""
    products_share: float
    """Share of the predicted time in convolutions and matrix products."""
    basis: str
    """The basis: the peaks alone, or the operator table too; and what it leaves out."""


@dataclass(frozen=True, slots=True)
class Predictor:
    """Latency predictor for one device; `table` is the device's operator table, if known."""

    device: Device
    table: Report | None = None

    def why_not(self, backend: str) -> str:
        """Returns why no latency can be predicted for a backend, as the end of a sentence; empty if one can."""
        peaks = self.device.peaks
        if peaks is None:
            return HINT
        if backend not in PROCESSOR:
            return "the peaks in the record are those of the processor, and it runs elsewhere"
        return "" if peaks.compute and peaks.memory else "the record's peaks are not complete"

    def latency(
        self, analysis: Analysis, backend: str, threads: int | None = None, grouped: bool = False
    ) -> Latency | str:
        """Predicts the latency, or returns why it cannot; `grouped`: activations are rounded by groups."""
        reason = self.why_not(backend)
        if reason:
            return reason
        cores = threads or self.device.limits.usable_cores
        kernels, unknown = kernels_of(analysis, backend, grouped)
        shares, of_kernel_s = _Shares(self, backend), _KERNEL_OF_OVERHEAD * self.overhead_s(backend)
        weights = analysis.weights_bytes > self._last_cache_bytes()
        spent: dict[bool, float] = defaultdict(float)
        for kernel in kernels:
            found = self._min_s(kernel, backend, cores, from_memory=weights)
            if isinstance(found, str):
                return found
            spent[kernel.is_product] += kernel.runs * (found / shares.of(kernel, cores) + of_kernel_s)
        total = (spent[True] + spent[False] + self.overhead_s(backend)) * 1e3
        return Latency(
            total,
            total * LOW_FACTOR,
            total * HIGH_FACTOR,
            spent[True] * 1e3 / total if total else 0.0,
            _basis(self.table is not None and shares.used, unknown),
        )

    def _min_s(self, kernel: KernelCost, backend: str, threads: int, from_memory: bool) -> float | str:
        found = minimum(self.device, kernel.precision, threads, kernel.operations, kernel.moved_bytes)
        if isinstance(found, str):
            # Whole numbers and double precision have no peak of their own; they are moved at least.
            found = minimum(self.device, kernel.precision, threads, 0, kernel.moved_bytes)
        if isinstance(found, str):
            return found
        rate = self._rate(kernel, backend, threads) if kernel.is_product else None
        computing = kernel.operations / rate if rate else 0.0
        waiting = kernel.weights_bytes / self._memory_bytes_per_s(threads) if from_memory else 0.0
        return max(computing or (found.time_s if isinstance(found, LowerBound) else 0.0), found.time_s, waiting)

    def _rate(self, kernel: KernelCost, backend: str, threads: int) -> float | None:
        """Operations a second of this runtime's kernels of the kind, if they were measured."""
        peaks = () if self.device.peaks is None else self.device.peaks.compute
        key = backend_named(backend).package, kernel.precision, threads
        mine = [peak for peak in peaks if (peak.runtime, peak.precision, peak.threads) == key]
        return next((peak.operators.get(kernel.kind, peak.operations_per_s) for peak in mine), None)

    def _memory_bytes_per_s(self, threads: int) -> float:
        peaks = () if self.device.peaks is None else self.device.peaks.memory
        rates = [peak.read_bytes_per_s for peak in peaks if (peak.level, peak.threads) == ("memory", threads)]
        return next((rate for rate in rates if rate), float("inf"))

    def _last_cache_bytes(self) -> int:
        caches = [cache for cache in self.device.caches if cache.kind != "instruction"]
        last = max((cache.level for cache in caches), default=0)
        return sum(cache.size_bytes * cache.instances for cache in caches if cache.level == last)

    def overhead_s(self, backend: str) -> float:
        overheads = () if self.device.peaks is None else self.device.peaks.overheads
        return next((o.overhead_us * 1e-6 for o in overheads if o.runtime == backend_named(backend).package), 0.0)


class _Shares:
    """The share of the roofline that kernels reach, from the nearest case in the table or their kind."""

    def __init__(self, predictor: Predictor, backend: str) -> None:
        self._predictor = predictor
        self._backend = backend
        self._cases: dict[tuple[str, str], list[tuple[CaseRow, float]]] = {}
        self.used = False

    def of(self, kernel: KernelCost, threads: int) -> float:
        """Returns the speed of a kernel as a share of what the device allows (1.0 = all of it)."""
        table = self._predictor.table
        cases = self._of_operator(kernel, table) if table is not None and table.threads == threads else []
        usual = _SHARES.get(kernel.kind, _ANY_SHARE) * (_ROUNDED if kernel.rounded else 1.0)
        if not cases:
            return usual
        self.used = True
        near = min(cases, key=lambda each: _distance(each[0], self._backend, kernel))[1]
        # One case is one measurement of a similar kernel, so the kind's usual share has half the weight.
        return sqrt(near * usual)

    def _of_operator(self, kernel: KernelCost, table: Report) -> list[tuple[CaseRow, float]]:
        deep = kernel.kind == "Conv depth-wise"
        # Of floats between roundings, a case holds the roundings too; that of the integers themselves does not.
        operator = _OF_INTEGERS.get(kernel.operator, "") if kernel.rounded else kernel.operator
        key = (f"{operator}{' depth-wise' if deep else ''}", kernel.precision)
        if key not in self._cases:
            rows = [row for row in table.cases if (row.operator, row.precision) == (operator, key[1])]
            rows = [row for row in rows if ("depth-wise" in row.variant) == deep]
            shares = [(row, self._share(row, table.threads)) for row in rows]
            self._cases[key] = [(row, share) for row, share in shares if share is not None]
        return self._cases[key]

    def _share(self, row: CaseRow, threads: int) -> float | None:
        figures = row.results.get(self._backend)
        time_us = figures.measured.time_low_us or figures.measured.time_us if figures is not None else None
        if figures is None or not time_us:
            return None
        case = figures.measured
        found = minimum(self._predictor.device, row.precision, threads, case.operations, case.moved_bytes)
        overhead_us = self._predictor.overhead_s(self._backend) * 1e6
        # What takes hardly longer than an empty run says more of the run than of the kernel.
        if isinstance(found, str) or time_us < _CLEARLY * overhead_us:
            return None
        own_us = time_us - overhead_us
        return min(_HIGHEST, max(_LOWEST, found.time_s * 1e6 / own_us))


def _distance(row: CaseRow, backend: str, kernel: KernelCost) -> float:
    """Returns the distance between the work of a case and a kernel, in bytes and operations."""
    case = row.results[backend].measured
    size = abs(log((case.moved_bytes + 1) / (kernel.moved_bytes + 1)))
    return size + abs(log((case.operations + 1) / (kernel.operations + 1)))


def _basis(by_table: bool, unknown: tuple[str, ...]) -> str:
    basis = "the device's measured peaks and its operator table" if by_table else "the device's measured peaks"
    if not unknown:
        return basis
    names = ", ".join(unknown[:3]) + (" and others" if len(unknown) > 3 else "")
    return f"{basis}, without {names}, whose cost is not known"
