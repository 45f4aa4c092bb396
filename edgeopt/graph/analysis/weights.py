"""Content of the weights: zeros, ranges, non-finite and denormal values, unused and duplicate weights.

Weights are read in blocks, external ones directly from their file, so that at most one block is in memory.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import gcd
from typing import TYPE_CHECKING

from edgeopt import units
from edgeopt.graph.analysis.records import WeightsSummary

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir as ir
    from numpy.typing import NDArray

LOOKED_INTO_BYTES = 1_000_000_000
MAX_COUNTED = 1 << 16
"""Maximum number of values in a histogram; larger weights are sampled."""
BINS = 32
# A block stays in a cache while it is read several times.
_BLOCK_BYTES = 1 << 18
_MAX_NAMED = 20
_UNSIGNED = {2: "<u2", 4: "<u4", 8: "<u8"}
_EXPONENTS = {"FLOAT16": 0x7C00, "BFLOAT16": 0x7F80, "FLOAT": 0x7F800000, "DOUBLE": 0x7FF0000000000000}


@dataclass(frozen=True, slots=True)
class Content:
    """Statistics of one weight; None or empty if its type has no order or its content cannot be read."""

    zeros_share: float | None = None
    minimum: float | None = None
    maximum: float | None = None
    has_denormals: bool = False
    is_finite: bool = True
    histogram: tuple[int, ...] = ()
    """Counts of values in equal steps from the minimum to the maximum; empty if all are equal."""


@dataclass(slots=True)
class _Counts:
    count: int = 0
    zeros: int = 0
    minimum: float = float("inf")
    maximum: float = float("-inf")
    denormals: int = 0
    finite: bool = True
    sample: "list[NDArray[np.float64]]" = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Looked:
    summary: WeightsSummary
    contents: "dict[int, Content]" = field(default_factory=dict)
    """Statistics by the id of the tensor."""


def look(weights: "list[tuple[ir.Value, ir.TensorProtocol]]", everything: bool) -> Looked:
    """Computes statistics of a model's weights; more than 1 GB in total is read only if everything is
    requested."""
    size = sum(int(tensor.nbytes) for _, tensor in weights if _numeric(tensor))
    unused = tuple(str(value.name) for value, _ in weights if not value.uses() and not value.is_graph_output())
    note, contents = "", {}
    if size > LOOKED_INTO_BYTES and not everything:
        note = f"values not analyzed: {units.size(size)} of weights; use --weights"
    else:
        contents = {id(tensor): content(tensor) for _, tensor in weights}
    named = [(str(value.name), tensor, contents.get(id(tensor), Content())) for value, tensor in weights]
    groups = twins([tensor for _, tensor in weights])
    names = {id(tensor): name for name, tensor, _ in named}
    elements = sum(tensor.size for _, tensor, each in named if each.zeros_share is not None)
    zeros = sum(tensor.size * (each.zeros_share or 0.0) for _, tensor, each in named)
    return Looked(
        WeightsSummary(
            zeros_share=zeros / elements if elements else None,
            not_finite=tuple(name for name, _, each in named if not each.is_finite)[:_MAX_NAMED],
            denormal=tuple(name for name, _, each in named if each.has_denormals)[:_MAX_NAMED],
            unused=unused[:_MAX_NAMED],
            twins=tuple(tuple(names[id(tensor)] for tensor in group) for group in groups),
            twins_bytes=sum((len(group) - 1) * int(group[0].nbytes) for group in groups),
            note=note,
        ),
        contents,
    )


def content(tensor: "ir.TensorProtocol") -> Content:
    import numpy as np

    if not _numeric(tensor) or not tensor.size:
        return Content()
    counts, step = _Counts(), _sample_step(tensor.size)
    for array in _arrays(tensor):
        # Continues the sampling step of the previous block.
        counts.sample.append(array[-counts.count % step :: step].astype(np.float64))
        _count(counts, array, _EXPONENTS.get(tensor.dtype.name))
    known = counts.minimum <= counts.maximum
    return Content(
        counts.zeros / counts.count,
        counts.minimum if known else None,
        counts.maximum if known else None,
        counts.denormals > 0,
        counts.finite,
        _histogram(np.concatenate(counts.sample), counts.minimum, counts.maximum) if known else (),
    )


def _sample_step(size: int) -> int:
    """Returns the sampling step of a histogram, without the factors 2, 3, 5 and 7 that row lengths often have."""
    step = -(-size // MAX_COUNTED)
    while step > 1 and gcd(step, 2 * 3 * 5 * 7) > 1:
        step += 1
    return step


def _histogram(values: "NDArray[np.float64]", low: float, high: float) -> tuple[int, ...]:
    import numpy as np

    # Divides first, because the difference of the largest numbers would overflow.
    scale = max(abs(low), abs(high))
    span = high / scale - low / scale if scale else 0.0
    if not span:
        return ()
    places = (values[np.isfinite(values)] / scale - low / scale) / span * BINS
    counted = np.bincount(places.astype(np.intp).clip(0, BINS - 1), minlength=BINS)
    return tuple(counted.tolist())


def _numeric(tensor: "ir.TensorProtocol") -> bool:
    return tensor.dtype.name not in {"STRING", "UNDEFINED", "COMPLEX64", "COMPLEX128"}


def _arrays(tensor: "ir.TensorProtocol") -> "Iterator[NDArray[np.generic]]":
    """Yields the elements in blocks; unusual types (four bits, eight-bit floats) as one float32 array."""
    import numpy as np

    kind = tensor.dtype.numpy()
    if (kind.kind not in "fiub" or tensor.dtype.bitwidth < 8) and tensor.dtype.name != "BFLOAT16":
        yield np.asarray(tensor.numpy()).reshape(-1).astype(np.float32)
        return
    for block in blocks(tensor, _BLOCK_BYTES):
        yield np.frombuffer(block, dtype=kind.newbyteorder("<") if kind.kind in "fiu" else kind)


def _count(counts: _Counts, array: "NDArray[np.generic]", exponent: int | None) -> None:
    import numpy as np

    counts.count += array.size
    zeros = array.size - int(np.count_nonzero(array))
    counts.zeros += zeros
    if array.dtype.name == "bfloat16":
        wide = array.astype(np.float32)
        low, high = float(wide.min()), float(wide.max())
    else:
        low, high = float(array.min()), float(array.max())
    if not (np.isfinite(low) and np.isfinite(high)):
        counts.finite = False
        wide = array.astype(np.float64)
        finite = wide[np.isfinite(wide)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (float("inf"), float("-inf"))
    counts.minimum, counts.maximum = min(counts.minimum, low), max(counts.maximum, high)
    if exponent is not None:
        bits = array.view(_UNSIGNED[array.dtype.itemsize])
        small = array.size - int(np.count_nonzero(bits & bits.dtype.type(exponent)))
        counts.denormals += small - zeros


# Smaller weights (shapes, axes) are often equal and never matter.
_SMALLEST_BYTES = 1024
_DIGEST_BLOCK_BYTES = 1 << 20
_PROBE_BYTES = 4096


def twins(weights: "Iterable[ir.TensorProtocol]") -> "tuple[tuple[ir.TensorProtocol, ...], ...]":
    """Returns groups of two or more equal weights."""
    import onnx_ir as ir

    # Two weights of one size are rarely equal, and most differ in their first bytes.
    alike: dict[tuple[str, int], list[ir.TensorProtocol]] = defaultdict(list)
    for tensor in weights:
        if tensor.dtype is not ir.DataType.STRING and tensor.nbytes >= _SMALLEST_BYTES:
            alike[f"{tensor.dtype.name} {tuple(tensor.shape)}", tensor.nbytes].append(tensor)
    found: list[tuple[ir.TensorProtocol, ...]] = []
    for group in alike.values():
        for probed in _split(group, lambda tensor: bytes(next(blocks(tensor, _PROBE_BYTES)))):
            found += [tuple(same) for same in _split(probed, _digest)]
    return tuple(found)


def _split(
    tensors: "list[ir.TensorProtocol]", key: "Callable[[ir.TensorProtocol], bytes]"
) -> "list[list[ir.TensorProtocol]]":
    """Groups tensors by a key and drops groups of one; the key of a single tensor is not computed."""
    if len(tensors) < 2:
        return []
    groups: dict[bytes, list[ir.TensorProtocol]] = defaultdict(list)
    for tensor in tensors:
        groups[key(tensor)].append(tensor)
    return [group for group in groups.values() if len(group) > 1]


def _digest(tensor: "ir.TensorProtocol") -> bytes:
    digest = hashlib.sha256()
    for block in blocks(tensor, _DIGEST_BLOCK_BYTES):
        digest.update(block)
    return digest.digest()


def blocks(tensor: "ir.TensorProtocol", size: int) -> "Iterator[bytes | memoryview]":
    """Yields a tensor's bytes in blocks; external data is read directly from its file, without mapping it."""
    import onnx_ir as ir

    if not isinstance(tensor, ir.ExternalTensor):
        data = memoryview(tensor.tobytes())
        for start in range(0, max(len(data), 1), size):
            yield data[start : start + size]
        return
    left = tensor.nbytes
    with open(tensor.path, "rb") as file:  # noqa: PTH123 - onnx_ir gives the path as text
        file.seek(tensor.offset or 0)
        while left > 0 and (block := file.read(min(left, size))):
            left -= len(block)
            yield block
