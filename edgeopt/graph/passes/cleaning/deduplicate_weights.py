"""Keeps one copy of weights that are equal to the last bit; subgraphs use the main graph's copy.

Vectors of floats stay as they are: they are small, and OpenVINO joins a bias with the product before it only where
nothing else reads that bias.
"""

import hashlib
from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import Notes, Pass, PassContext, PassResult, plural

if TYPE_CHECKING:
    import onnx_ir as ir

Sketch = tuple[object, tuple[int, ...], bytes]
SKETCH_ELEMENTS = 256
SMALL_BYTES = 1 << 16


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    """Merges equal weights of the main graph, then those of each subgraph, with the main graph's too."""
    model, notes = context.copy(model), Notes()
    main: dict[Sketch, list[ir.Value]] = {}
    digests: dict[ir.Value, bytes] = {}
    merged: list[str] = []
    saved_bytes = 0
    for graph in model.graphs():
        known = main if graph is model.graph else {sketch: list(alike) for sketch, alike in main.items()}
        for name, weight in list(graph.initializers.items()):
            tensor = weight.const_value
            if tensor is None or tensor.dtype.is_string() or weight.is_graph_input() or weight.is_graph_output():
                continue
            if _is_vector(tensor):
                continue
            alike = known.setdefault(_sketch(tensor), [])
            twin = next((other for other in alike if _digest(other, digests) == _digest(weight, digests)), None)
            if twin is None:
                alike.append(weight)
                continue
            weight.replace_all_uses_with(twin)
            del graph.initializers[name]
            merged.append(str(name))
            saved_bytes += tensor.nbytes
    if merged:
        notes.did(f"merged {plural(len(merged), 'equal weight')} ({saved_bytes:,} bytes)", *merged)
    return notes.result(model)


def _is_vector(tensor: "ir.TensorProtocol") -> bool:
    sizes = [int(dim) for dim in tensor.shape if dim != 1]
    return tensor.dtype.is_floating_point() and len(sizes) == 1 and tensor.nbytes <= SMALL_BYTES


def _sketch(tensor: "ir.TensorProtocol") -> Sketch:
    """Type, shape and ends of a tensor: what differs there need not be read as a whole."""
    flat = tensor.numpy().reshape(-1)
    ends = flat[:SKETCH_ELEMENTS].tobytes() + flat[-SKETCH_ELEMENTS:].tobytes()
    return tensor.dtype, tuple(int(dim) for dim in tensor.shape), ends


def _digest(weight: "ir.Value", digests: "dict[ir.Value, bytes]") -> bytes:
    if weight not in digests:
        assert weight.const_value is not None  # noqa: S101 - the caller saw to it
        digests[weight] = hashlib.sha256(weight.const_value.tobytes()).digest()
    return digests[weight]


PASS = Pass("deduplicate-weights", "equal weights are kept once", apply)
