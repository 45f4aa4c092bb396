"""ONNX Runtime's own transformer fusions: attention, layer normalization, GELU as single operators."""

from collections import Counter
from pathlib import Path

from edgeopt.errors import ModelError


def fuse(model: Path, out: Path) -> dict[str, int]:
    """Writes the fused model; returns how many of each fused operator it holds now."""
    import onnx
    from onnxruntime.transformers.optimizer import optimize_model

    # Heads and hidden size 0: found in the graph itself.
    fused = optimize_model(str(model), model_type="bert", num_heads=0, hidden_size=0, opt_level=0, use_gpu=False)
    counts = Counter(n.op_type for n in fused.model.graph.node if n.domain == "com.microsoft")
    if not counts:
        raise ModelError("ONNX Runtime's transformer fusions found nothing to fuse.")
    onnx.save(fused.model, out)
    return dict(counts)
