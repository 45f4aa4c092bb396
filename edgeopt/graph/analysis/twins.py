"""Weights that are there more than once, found without holding more than one of them in memory."""

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgeopt.graph.model import Model

if TYPE_CHECKING:
    import onnx_ir as ir

# Smaller ones (shapes, axes) are often alike and never matter.
_SMALLEST_BYTES = 1024
_BLOCK_BYTES = 1 << 20
_PROBE_BYTES = 4096


def twin_bytes(model: Model) -> int:
    """How many bytes of initializers repeat what another one holds already."""
    import onnx_ir as ir

    # Rarely are two weights of one size alike, and their first bytes tell most of those apart.
    groups: dict[tuple[str, int, bytes], list[ir.TensorProtocol]] = defaultdict(list)
    for graph in model.ir.graphs():
        for value in graph.initializers.values():
            tensor = value.const_value
            if tensor is None or tensor.dtype is ir.DataType.STRING or tensor.nbytes < _SMALLEST_BYTES:
                continue
            key = f"{tensor.dtype.name} {tuple(tensor.shape)}", tensor.nbytes
            groups[(*key, next(_blocks(tensor, _PROBE_BYTES)))].append(tensor)
    repeated = 0
    for tensors in groups.values():
        if len(tensors) > 1:
            different = {_digest(tensor) for tensor in tensors}
            repeated += (len(tensors) - len(different)) * tensors[0].nbytes
    return repeated


def _digest(tensor: "ir.TensorProtocol") -> bytes:
    digest = hashlib.sha256()
    for block in _blocks(tensor, _BLOCK_BYTES):
        digest.update(block)
    return digest.digest()


def _blocks(tensor: "ir.TensorProtocol", size: int) -> Iterator[bytes]:
    """The tensor's bytes piece by piece; external ones straight from their file, which is not mapped."""
    import onnx_ir as ir

    if not isinstance(tensor, ir.ExternalTensor):
        data = tensor.tobytes()
        for start in range(0, max(len(data), 1), size):
            yield data[start : start + size]
        return
    left = tensor.nbytes
    with open(tensor.path, "rb") as file:  # noqa: PTH123 - onnx_ir gives the path as text
        file.seek(tensor.offset or 0)
        while left > 0 and (block := file.read(min(left, size))):
            left -= len(block)
            yield block
