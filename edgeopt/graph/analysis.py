"""What a model is made of, as records; `onnx_analysis` and `openvino_ir` fill them in."""

from collections import Counter
from collections.abc import Iterable
from typing import Literal

import msgspec

SCHEMA = 1
# So many of the largest weights are listed one by one.
LARGEST = 50


class Tensor(msgspec.Struct, frozen=True):
    """An input or output of the model or of a node; a dimension is a size, a name, or None where it is open."""

    name: str
    dtype: str | None = None
    shape: tuple[int | str | None, ...] | None = None
    """None where not even the number of dimensions is known."""


class NodeRow(msgspec.Struct, frozen=True):
    position: int
    name: str
    operator: str
    domain: str
    """Empty for ONNX's own operators."""
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    weights_bytes: int
    """Of the weights that it reads; one that several nodes read counts at each of them."""
    parameters: int
    inside: str = ""
    """For a node of a subgraph, the node and the attribute that hold it: `loop_3/body`."""


class OperatorRow(msgspec.Struct, frozen=True):
    operator: str
    domain: str
    count: int
    weights_bytes: int = 0


class WeightRow(msgspec.Struct, frozen=True):
    name: str
    dtype: str
    shape: tuple[int, ...]
    size_bytes: int
    parameters: int
    file: str = ""
    """The file of external data that it lies in."""


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


class Analysis(msgspec.Struct, frozen=True):
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
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
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
    schema: int = SCHEMA


def operator_rows(nodes: Iterable[NodeRow]) -> tuple[OperatorRow, ...]:
    """The operators with how often they are there, most frequent first."""
    counts: Counter[tuple[str, str]] = Counter()
    weights: Counter[tuple[str, str]] = Counter()
    for node in nodes:
        counts[node.operator, node.domain] += 1
        weights[node.operator, node.domain] += node.weights_bytes
    rows = [OperatorRow(key[0], key[1], count, weights[key]) for key, count in counts.items()]
    return tuple(sorted(rows, key=lambda row: (-row.count, row.domain, row.operator)))


def largest(weights: Iterable[WeightRow]) -> tuple[WeightRow, ...]:
    """The few largest weights, largest first."""
    return tuple(sorted(weights, key=lambda weight: (-weight.size_bytes, weight.name))[:LARGEST])


def unknown_shapes(nodes: Iterable[NodeRow]) -> str | None:
    """A warning where shapes stay unknown, or None."""
    outputs = [output for node in nodes for output in node.outputs]
    unknown = sum(output.shape is None for output in outputs)
    if not unknown:
        return None
    return (
        f"The shapes of {unknown:,} of {len(outputs):,} intermediate tensors are not known before the model runs."
    )
