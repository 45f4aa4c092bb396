"""Data for the finders of opportunities: the model, the device, and where the time of a run goes."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path

from edgeopt.bundle.write import free_place
from edgeopt.commands.analyze.messages import Node, Rewritten
from edgeopt.graph.analysis import Analysis, NodeRow, TensorFacts
from edgeopt.graph.analysis.categories import HEAVY
from edgeopt.graph.analysis.sums import HOLDERS
from edgeopt.hw.device import Device
from edgeopt.platform.command_line import quote_word
from edgeopt.profiles.schema import Data

# What a runtime takes to begin a node, whatever the node does. Assumed, not measured; it matters in models of many
# small nodes only.
NODE_MS = 0.0005
# Where no peaks are measured, only the ratio of both rates matters. Assumed too.
_OPERATIONS_PER_BYTE = 8.0
_ASSUMED_BYTES_PER_MS = 1e7
_CACHED_BYTES = 1 << 20
_CACHE_SPEED = 5.0
_SIZES = {"float64": 8, "int64": 8, "uint64": 8, "complex64": 8, "complex128": 16, "float16": 2, "bfloat16": 2}
_SIZES |= {"int16": 2, "uint16": 2, "int8": 1, "uint8": 1, "bool": 1}


@dataclass(frozen=True)
class View:
    analysis: Analysis
    device: Device | None = None
    threads: int | None = None
    rewritten: Rewritten | None = None
    """Changes that the passes would make; None if the passes were not asked."""
    data: Path | None = None
    pictures: Data | None = None

    @cached_property
    def rows(self) -> tuple[NodeRow, ...]:
        """The nodes that run, those of subgraphs too; what holds them costs nothing of its own."""
        return tuple(row for row in self.analysis.nodes if row.runs and row.operator not in HOLDERS)

    @cached_property
    def basis(self) -> str:
        if self._measured:
            times = self.analysis.op_times[0]
            return f"measured node by node on {times.backend}"
        if self._by_peaks:
            return "the lower bounds by this device's measured peaks"
        if any(row.cost.operations is not None for row in self.rows):
            return (
                f"operations and bytes at {_OPERATIONS_PER_BYTE:g} operations a byte, as this device's peaks are "
                "not measured (edgeopt probe --deep)"
            )
        return "unknown: the cost of the nodes is unknown"

    def time_ms(self, row: NodeRow) -> float | None:
        """Returns a node's time in one run of the model; without measured peaks, only its share is meaningful."""
        if row.operator in HOLDERS:
            return NODE_MS * row.runs
        if self._measured:
            return self._measured.get(row.name or (row.outputs[0].name if row.outputs else ""), 0.0)
        if self._by_peaks:
            return None if row.least_ms is None else (row.least_ms + NODE_MS) * row.runs
        cost = row.cost
        if cost.operations is None or cost.read_bytes is None or cost.written_bytes is None:
            return None
        moved = _moved(row) / (_CACHE_SPEED if _moved(row) <= _CACHED_BYTES else 1)
        units = max(moved, cost.operations / _OPERATIONS_PER_BYTE)
        return (units / _ASSUMED_BYTES_PER_MS + NODE_MS) * row.runs

    @cached_property
    def total_ms(self) -> float:
        return sum(time for row in self.rows if (time := self.time_ms(row)) is not None)

    def share(self, time_ms: float) -> float | None:
        """Returns a time as a share of one run, at most 0.95; None if the time of a run is unknown."""
        return min(max(time_ms / self.total_ms, 0.0), 0.95) if self.total_ms > 0 else None

    def share_of(self, rows: Iterable[NodeRow]) -> float | None:
        return self.share(sum(time for row in rows if (time := self.time_ms(row)) is not None))

    def bytes_ms(self, moved_bytes: int) -> float:
        """Returns the time to move this number of bytes, at the rate of this model's memory-bound nodes."""
        rows = [row for row in self.rows if not self.is_compute_bound(row) and _moved(row)]
        moved = sum(_moved(row) * row.runs for row in rows)
        time = sum(self.time_ms(row) or 0.0 for row in rows)
        return moved_bytes * time / moved if moved else 0.0

    def is_compute_bound(self, row: NodeRow) -> bool:
        if row.bound:
            return row.bound == "compute"
        moved = _moved(row) / (_CACHE_SPEED if _moved(row) <= _CACHED_BYTES else 1)
        return (row.cost.operations or 0) > _OPERATIONS_PER_BYTE * moved

    @cached_property
    def removed(self) -> frozenset[str]:
        """The outputs of nodes that rewrites would remove."""
        rewrites = self.rewritten.rewrites if self.rewritten else ()
        return frozenset(name for each in rewrites for node in each.gone for name in node.outputs)

    @cached_property
    def by_output(self) -> Mapping[str, NodeRow]:
        return {tensor.name: row for row in self.analysis.nodes for tensor in row.outputs if tensor.name}

    @cached_property
    def readers(self) -> Mapping[str, list[NodeRow]]:
        """Nodes that read each tensor, including nodes in subgraphs."""
        found = defaultdict(list)
        for row in self.analysis.nodes:
            for name in {tensor.name for tensor in row.inputs if tensor.name}:
                found[name].append(row)
        return found

    def size_bytes(self, tensor: TensorFacts) -> int | None:
        """Returns a tensor's size for the analyzed dimensions; None if a dimension is unknown."""
        maker = self.by_output.get(tensor.name)
        if maker is not None and len(maker.outputs) == 1 and maker.cost.written_bytes:
            return maker.cost.written_bytes
        if tensor.shape is None:
            return None
        sizes = [d if isinstance(d, int) else self._dimensions.get(d or "") for d in tensor.shape]
        known = [size for size in sizes if size is not None]
        return prod(known) * _SIZES.get(tensor.dtype or "", 4) if len(known) == len(sizes) else None

    def saved_ms(self, gone: Iterable[Node], new: Iterable[Node]) -> float:
        """Estimates the time a rewrite saves: light nodes disappear; heavy ones mostly return in another form."""
        gone, new = tuple(gone), tuple(new)
        left = [row for node in gone if (row := self._row(node)) is not None]
        heavy = sum(row.category in HEAVY for row in left)
        back = any(node.operator in self._heavy_operators for node in new) or self._is_fused_heavy(new)
        saved = 0.0
        for row in left:
            time = self.time_ms(row) or 0.0
            counts = row.category not in HEAVY or (heavy and not back)
            saved += time if counts else NODE_MS * row.runs
        light = [node for node in new if node.operator not in self._heavy_operators]
        return max(saved - sum(self._new_ms(node) for node in light), 0.0)

    def file(self) -> str:
        """Returns the model's path as it is written in a command."""
        return quote_word(self.analysis.path)

    def output(self, ending: str) -> str:
        return quote_word(str(Path(Path(self.analysis.path).name).with_suffix(ending)))

    @cached_property
    def simplify(self) -> str:
        return f"edgeopt simplify {self.file()} -o {self.output('.simplified.onnx')}"

    @cached_property
    def optimize(self) -> str:
        data = quote_word(str(self.data)) if self.data is not None else "DATA.npz"
        model = Path(self.analysis.path)
        out = free_place(model.stem, model)  # the model may be that of a bundle
        return f"edgeopt optimize {self.file()} --data {data} -o {quote_word(str(out))}"

    @cached_property
    def _measured(self) -> dict[str, float]:
        """Milliseconds by node, from kernels that share theirs among their members."""
        times = next((each for each in self.analysis.op_times if each.rows), None)
        if times is None:
            return {}
        minimum = {row.name or (row.outputs[0].name if row.outputs else ""): row.least_ms for row in self.rows}
        found: dict[str, float] = defaultdict(float)
        for kernel in times.rows:
            weights = [minimum.get(name) or NODE_MS for name in kernel.members]
            for name, weight in zip(kernel.members, weights, strict=True):
                found[name] += kernel.time_ms * weight / sum(weights)
        return dict(found)

    @cached_property
    def _by_peaks(self) -> bool:
        return any(row.least_ms is not None for row in self.rows)

    @cached_property
    def _dimensions(self) -> dict[str, int]:
        return {each.name: each.size for each in self.analysis.dimensions if each.size is not None}

    @cached_property
    def _tensors(self) -> dict[str, TensorFacts]:
        tensors = (*self.analysis.inputs, *(t for row in self.rows for t in (*row.inputs, *row.outputs)))
        return {tensor.name: tensor for tensor in tensors if tensor.name}

    @cached_property
    def _heavy_operators(self) -> set[str]:
        return {row.operator for row in self.rows if row.category in HEAVY}

    def _is_fused_heavy(self, new: tuple[Node, ...]) -> bool:
        return any("Attention" in node.operator or "Fused" in node.operator for node in new)

    def _row(self, node: Node) -> NodeRow | None:
        return next((row for name in node.outputs if (row := self.by_output.get(name)) is not None), None)

    def _new_ms(self, node: Node) -> float:
        sizes = [
            size
            for name in (*node.inputs, *node.outputs)
            if name in self._tensors and (size := self.size_bytes(self._tensors[name])) is not None
        ]
        return self.bytes_ms(sum(sizes)) + NODE_MS


def _moved(row: NodeRow) -> int:
    return (row.cost.read_bytes or 0) + (row.cost.written_bytes or 0)
