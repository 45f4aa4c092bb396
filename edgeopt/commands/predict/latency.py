"""The predicted time of one run on another device: the work of each kernel against the device's peaks.

No kernel reaches the peak. The share that kernels of a kind reach comes from the device's own operator table,
if there is one; otherwise from such kernels on the machine where edgeopt was developed.
"""

from collections import defaultdict
from dataclasses import dataclass
from math import log, sqrt

import msgspec

from edgeopt.commands.ops.case import CaseRow, Report
from edgeopt.commands.predict.kernels import Kernel, kernels_of
from edgeopt.graph.analysis.records import Analysis
from edgeopt.graph.analysis.roofline import HINT, Least, least
from edgeopt.hw.device import Device

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
RUNTIME_OF = {"onnxruntime-cpu": "onnxruntime", "openvino-cpu": "openvino"}


class Latency(msgspec.Struct, frozen=True):
    """Predicted, not measured."""

    predicted_ms: float
    low_ms: float
    high_ms: float
    """Between these it was nearly always where it was measured afterwards; for other models it may not be."""
    products_share: float
    """Of that time, in convolutions and matrix products."""
    basis: str
    """The basis: the peaks alone, or the operator table too; and what it leaves out."""


@dataclass(frozen=True, slots=True)
class Predictor:
    """Of one device; `table` is its operator table, where that is known."""

    device: Device
    table: Report | None = None

    def why_not(self, backend: str) -> str:
        """Why no latency can be predicted there, as the end of a sentence; empty where one can."""
        peaks = self.device.peaks
        if peaks is None:
            return HINT
        if backend not in RUNTIME_OF:
            return "the peaks in the record are those of the processor, and it runs elsewhere"
        return "" if peaks.compute and peaks.memory else "the record's peaks are not complete"

    def latency(
        self, analysis: Analysis, backend: str, threads: int | None = None, grouped: bool = False
    ) -> Latency | str:
        """Or why it cannot be told, as the end of a sentence; `grouped`: activations are rounded by groups."""
        reason = self.why_not(backend)
        if reason:
            return reason
        cores = threads or self.device.limits.usable_cores
        kernels, unknown = kernels_of(analysis, backend, grouped)
        shares = _Shares(self, backend)
        weights = analysis.weights_bytes > self._last_cache_bytes()
        spent: dict[bool, float] = defaultdict(float)
        for kernel in kernels:
            found = self._least_s(kernel, backend, cores, from_memory=weights)
            if isinstance(found, str):
                return found
            spent[kernel.is_product] += kernel.runs * (found / shares.of(kernel, cores) + self._kernel_s(backend))
        total = (spent[True] + spent[False] + self.overhead_s(backend)) * 1e3
        return Latency(
            total,
            total * LOW_FACTOR,
            total * HIGH_FACTOR,
            spent[True] * 1e3 / total if total else 0.0,
            _basis(self.table is not None and shares.used, unknown),
        )

    def _least_s(self, kernel: Kernel, backend: str, threads: int, from_memory: bool) -> float | str:
        found = least(self.device, kernel.precision, threads, kernel.operations, kernel.moved_bytes)
        if isinstance(found, str):
            # Whole numbers and double precision have no peak of their own; they are moved at least.
            found = least(self.device, kernel.precision, threads, 0, kernel.moved_bytes)
        if isinstance(found, str):
            return found
        rate = self._rate(kernel, backend, threads) if kernel.is_product else None
        computing = kernel.operations / rate if rate else 0.0
        waiting = kernel.weights_bytes / self._memory_bytes_per_s(threads) if from_memory else 0.0
        return max(computing or (found.time_s if isinstance(found, Least) else 0.0), found.time_s, waiting)

    def _rate(self, kernel: Kernel, backend: str, threads: int) -> float | None:
        """Operations a second of this runtime's kernels of the kind, if they were measured."""
        peaks = () if self.device.peaks is None else self.device.peaks.compute
        mine = [
            peak
            for peak in peaks
            if (peak.runtime, peak.precision, peak.threads) == (RUNTIME_OF[backend], kernel.precision, threads)
        ]
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
        return next((o.overhead_us * 1e-6 for o in overheads if o.runtime == RUNTIME_OF[backend]), 0.0)

    def _kernel_s(self, backend: str) -> float:
        return _KERNEL_OF_OVERHEAD * self.overhead_s(backend)


class _Shares:
    """The share of the roofline that kernels reach, from the nearest case in the table or their kind."""

    def __init__(self, predictor: Predictor, backend: str) -> None:
        self._predictor = predictor
        self._backend = backend
        self._cases: dict[tuple[str, str], list[tuple[CaseRow, float]]] = {}
        self.used = False

    def of(self, kernel: Kernel, threads: int) -> float:
        """1 where it would be as fast as the device allows."""
        table = self._predictor.table
        cases = self._of_operator(kernel, table) if table is not None and table.threads == threads else []
        usual = _SHARES.get(kernel.kind, _ANY_SHARE) * (_ROUNDED if kernel.rounded else 1.0)
        if not cases:
            return usual
        self.used = True
        near = min(cases, key=lambda each: _distance(each[0], self._backend, kernel))[1]
        # One case is one measurement of a similar kernel, so the kind's usual share has half the weight.
        return sqrt(near * usual)

    def _of_operator(self, kernel: Kernel, table: Report) -> list[tuple[CaseRow, float]]:
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
        found = least(self._predictor.device, row.precision, threads, case.operations, case.moved_bytes)
        overhead_us = self._predictor.overhead_s(self._backend) * 1e6
        # What takes hardly longer than an empty run says more of the run than of the kernel.
        if isinstance(found, str) or time_us < _CLEARLY * overhead_us:
            return None
        own_us = time_us - overhead_us
        return min(_HIGHEST, max(_LOWEST, found.time_s * 1e6 / own_us))


def _distance(row: CaseRow, backend: str, kernel: Kernel) -> float:
    """How unlike the work of a case is: in bytes, and in operations for each of them."""
    case = row.results[backend].measured
    size = abs(log((case.moved_bytes + 1) / (kernel.moved_bytes + 1)))
    return size + abs(log((case.operations + 1) / (kernel.operations + 1)))


def _basis(by_table: bool, unknown: tuple[str, ...]) -> str:
    said = "the device's measured peaks and its operator table" if by_table else "the device's measured peaks"
    if not unknown:
        return said
    names = ", ".join(unknown[:3]) + (" and others" if len(unknown) > 3 else "")
    return f"{said}, without {names}, whose cost is not known"
