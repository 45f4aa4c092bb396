"""Keeps one copy of weights that are equal to the last bit; subgraphs use the main graph's copy."""

import hashlib
from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import Notes, Pass, PassContext, PassResult, plural

if TYPE_CHECKING:
    import onnx_ir as ir

Key = tuple[object, tuple[int, ...], bytes]


def apply(model: "ir.Model", context: PassContext) -> PassResult:  # noqa: ARG001 - every pass has this signature
    """Merges equal weights of the main graph, then those of each subgraph, with the main graph's too."""
    model, notes = model.clone(), Notes()
    main: dict[Key, ir.Value] = {}
    merged: list[str] = []
    saved_bytes = 0
    for graph in model.graphs():
        known = main if graph is model.graph else dict(main)
        for name, weight in list(graph.initializers.items()):
            if weight.const_value is None or weight.const_value.dtype.is_string():
                continue
            if weight.is_graph_input() or weight.is_graph_output():
                continue
            kept = known.setdefault(_key(weight.const_value), weight)
            if kept is not weight:
                weight.replace_all_uses_with(kept)
                del graph.initializers[name]
                merged.append(str(name))
                saved_bytes += weight.const_value.nbytes
    if merged:
        notes.did(f"merged {plural(len(merged), 'equal weight')} ({saved_bytes:,} bytes)", *merged)
    return notes.result(model)


def _key(tensor: "ir.TensorProtocol") -> Key:
    return tensor.dtype, tuple(int(dim) for dim in tensor.shape), hashlib.sha256(tensor.tobytes()).digest()


PASS = Pass("deduplicate-weights", "equal weights are kept once", apply)
