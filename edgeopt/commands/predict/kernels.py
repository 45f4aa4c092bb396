"""Which pieces of a model a runtime would run by themselves, and what each has to do.

Runtimes fold what depends on constants alone, and compute activations, sums and normalizations where the product
before them writes its results; what is rounded between two products in eight bits is never seen in floats.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod

from edgeopt.graph.analysis.records import Analysis, NodeRow
from edgeopt.graph.analysis.roofline import precision
from edgeopt.graph.analysis.sums import HOLDERS

ROUNDING = ("QuantizeLinear", "DequantizeLinear")
_PRODUCTS = ("Conv", "ConvTranspose", "MatMul", "Gemm", "MatMulInteger", "ConvInteger", "FusedMatMul", "FusedConv")
# What ONNX Runtime computes within a convolution, and within a matrix product; OpenVINO takes nearly anything.
_BEHIND_CONV = frozenset(
    {
        "BatchNormalization",
        "Relu",
        "Clip",
        "LeakyRelu",
        "Sigmoid",
        "Tanh",
        "HardSigmoid",
        "HardSwish",
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
class Kernel:
    operator: str
    kind: str
    """`Conv 3x3`, `Conv depth-wise`, `MatMul`, or the operator's category."""
    precision: str
    operations: int
    moved_bytes: int
    weights_bytes: int
    runs: int = 1
    rounded: bool = False
    """Written with floats between roundings, and computed in bytes."""

    @property
    def is_product(self) -> bool:
        return self.kind.startswith(("Conv", "MatMul"))


def kernels_of(
    analysis: Analysis, backend: str, grouped: bool = False
) -> tuple[tuple[Kernel, ...], tuple[str, ...]]:
    """The kernels of one run, and the operators whose cost is not known.

    `grouped`: the runtime rounds activations by groups where weights are stored in bytes.
    """
    rows = [row for row in analysis.nodes if row.runs and row.operator not in HOLDERS]
    computed = _computed(rows, {tensor.name for tensor in analysis.inputs})
    rows = [row for row in rows if row.inside or any(tensor.name in computed for tensor in row.inputs)]
    within = _within_products(rows, backend)
    dequantized = {o.name for row in analysis.nodes if row.operator == "DequantizeLinear" for o in row.outputs}
    stored = _stored_in_bytes(analysis.nodes, computed) if grouped else frozenset()
    unknown: dict[str, None] = {}
    found: list[Kernel] = []
    for row in rows:
        if row.category in _FREE or row.operator in _RENAMES or row.position in within:
            continue
        if row.cost.operations is None or row.cost.read_bytes is None or row.cost.written_bytes is None:
            unknown[row.operator] = None
            continue
        in_bytes = row.operator == "MatMulNBits" or any(tensor.name in stored for tensor in row.inputs[1:2])
        found.append(_kernel(row, "int8" if in_bytes else precision(row, dequantized), computed))
    return tuple(found), tuple(unknown)


def _kernel(row: NodeRow, bits: str, computed: set[str]) -> Kernel:
    moved = (row.cost.read_bytes or 0) + (row.cost.written_bytes or 0)
    kind = _kind(row)
    weights = 0
    if kind.startswith(("Conv", "MatMul")) and len(row.inputs) > 1 and row.inputs[1].name not in computed:
        weights = _size(row.inputs[1].shape) * _FLOAT_BYTES
    rounded = bits == "int8" and _reads_floats(row)
    # What is no product gains little by bytes: it looks numbers up, or takes them to floats and back.
    if rounded and kind.startswith(("Conv", "MatMul")):
        moved, weights = moved // _FLOAT_BYTES, weights // _FLOAT_BYTES
    return Kernel(row.operator, kind, bits, row.cost.operations or 0, moved, weights, row.runs, rounded)


def _kind(row: NodeRow) -> str:
    operator = row.operator
    if operator in {"ConvInteger", "MatMulNBits"}:
        return operator
    if operator in {"MatMul", "Gemm", "MatMulInteger", "FusedMatMul"}:
        return "MatMul"
    if operator not in _PRODUCTS:
        return row.category
    given = row.inputs[0].shape if row.inputs else None
    weight = row.inputs[1].shape if len(row.inputs) > 1 else None
    if not given or not weight or len(weight) < 3:
        return "Conv 3x3"
    if weight[1] == 1 and given[1] not in {1, None} and operator != "ConvTranspose":
        return "Conv depth-wise"
    return "Conv 1x1" if all(size == 1 for size in weight[2:]) else "Conv 3x3"


def _computed(rows: Iterable[NodeRow], inputs: set[str]) -> set[str]:
    """Every tensor that depends on an input of the model; the rest is folded when the model is loaded."""
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
    """The places of the nodes that cost next to nothing where they stand."""
    readers = Counter(tensor.name for row in rows for tensor in row.inputs)
    gates = {tensor.name: row for row in rows if row.operator in _GATES for tensor in row.outputs}
    product: dict[str, str] = {}
    """By tensor, the operator of the product that writes it, with what is computed within it."""
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
    """What a product of a number with its own gate begins with; empty for any other node."""
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


def _reads_floats(row: NodeRow) -> bool:
    return any(tensor.dtype == "float32" for tensor in row.inputs[:1])


def _size(shape: tuple[int | str | None, ...] | None) -> int:
    sizes = list(_whole(shape or ()))
    return prod(sizes) if shape and len(sizes) == len(shape) else 0


def _whole(shape: Iterable[int | str | None]) -> Iterator[int]:
    return (size for size in shape if isinstance(size, int))
