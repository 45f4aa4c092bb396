"""Weights that are there more than once, found without holding more than one of them in memory."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir as ir

# Smaller ones (shapes, axes) are often alike and never matter.
_SMALLEST_BYTES = 1024
_BLOCK_BYTES = 1 << 20
_PROBE_BYTES = 4096


def twins(weights: "Iterable[ir.TensorProtocol]") -> "tuple[tuple[ir.TensorProtocol, ...], ...]":
    """Groups of equal weights, of two and more."""
    import onnx_ir as ir

    # Rarely are two weights of one size alike, and their first bytes tell most of those apart.
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
    """Those that agree in a key, of two and more; one alone is not looked into."""
    if len(tensors) < 2:
        return []
    groups: dict[bytes, list[ir.TensorProtocol]] = defaultdict(list)
    for tensor in tensors:
        groups[key(tensor)].append(tensor)
    return [group for group in groups.values() if len(group) > 1]


def _digest(tensor: "ir.TensorProtocol") -> bytes:
    digest = hashlib.sha256()
    for block in blocks(tensor, _BLOCK_BYTES):
        digest.update(block)
    return digest.digest()


def blocks(tensor: "ir.TensorProtocol", size: int) -> "Iterator[bytes | memoryview]":
    """The tensor's bytes piece by piece; external ones straight from their file, which is not mapped."""
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
