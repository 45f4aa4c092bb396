"""ONNX Runtime's own transformer fusions, told how many heads there are and how wide they are.

Its tool has a set of patterns for every family of models, and finds nothing where it is given the wrong one. The
families that fit are tried, and what leaves the fewest nodes is taken. Normalizations are not joined with the
addition before them: see skip_normalization.py.
"""

import logging
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import TYPE_CHECKING

from edgeopt.backends.onnxruntime.lowering.activations import apply_gelu
from edgeopt.graph.passes.base import (
    Notes,
    Pass,
    PassContext,
    PassResult,
    is_op,
    label,
    node_count,
    nodes_of,
    quiet,
)
from edgeopt.graph.passes.knowledge.heads import SPLIT, SPLIT_TURNED, extent, permutation, target_shape
from edgeopt.graph.passes.knowledge.matching import producer

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

FAMILIES = ("bert", "gpt2", "bart")
ATTENTION = ("Attention", "MultiHeadAttention", "GroupQueryAttention")
WITHOUT_MEAN = ("t5", "gpt2")
"""For models with RMS normalization. ViT and Whisper go as bert and bart: their patterns are the same."""


def heads_of(model: "ir.Model") -> tuple[int, int] | None:
    """How many heads attention has and how wide the model is, from how tensors are split into heads."""
    counts: Counter[tuple[int, int]] = Counter()
    for node in nodes_of(model):
        if node.op_type == "MultiHeadAttention" and node.inputs[0] is not None:
            # Another lowering put it in the place of the splits.
            heads, hidden = node.attributes["num_heads"].as_int(), extent(node.inputs[0], 2)
            if hidden is not None:
                counts[heads, hidden // heads] += 1
            continue
        split = producer(node.inputs[0], "Reshape") if permutation(node) in {SPLIT, SPLIT_TURNED} else None
        if split is None:
            continue
        target = target_shape(split) if len(target_shape(split)) == 4 else [None] * 4
        # The shape may leave one of them open; what was inferred knows both.
        heads, width = (extent(split.outputs[0], axis) or target[axis] for axis in (2, 3))
        if isinstance(heads, int) and isinstance(width, int) and heads > 0 and width > 0:
            counts[heads, width] += 1
    if not counts:
        return None
    # Where keys and values have fewer heads than queries, those of the queries count.
    heads, width = max(counts, key=lambda split: (split[0] * split[1], counts[split]))
    return heads, heads * width


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    """Runs the tool for every family that fits and takes the result with the fewest nodes."""
    import onnx_ir as ir

    model, notes, found = model.clone(), Notes(), heads_of(model)
    products = [node for node in nodes_of(model) if is_op(node, "Softmax") and _of_scores(node)]
    if not products and not any(node.op_type in ATTENTION for node in nodes_of(model)):
        notes.refuse("the model has no attention: no Softmax between two products")
        return notes.result(model)
    if found is None:
        notes.refuse("no tensor is split into a known number of heads", *(label(node) for node in products))
        return notes.result(model)
    before = _fused(ir.to_proto(model))
    model = apply_gelu(model, context).model
    best, smallest = None, node_count(model)
    for family in _families(model):
        result = _optimized(ir.to_proto(model), family, *found)
        if result is not None and len(result.graph.node) < smallest:
            best, smallest = result, len(result.graph.node)
    if best is None and not products:
        return notes.result(model)
    if best is None:
        notes.refuse("none of ONNX Runtime's patterns fits", *(label(node) for node in products))
        return notes.result(model)
    after = _fused(best)
    for operator, count in sorted((after - before).items()):
        notes.did(f"{count} x {operator}")
    if not after - before:
        notes.did(f"removed {node_count(model) - smallest} nodes")
    kept = {node.input[0] for node in best.graph.node if node.op_type == "Softmax"}
    left = [label(node) for node in products if node.inputs[0] is not None and node.inputs[0].name in kept]
    if left:
        heads, hidden = found
        notes.refuse(f"its patterns for attention ({heads} heads, {hidden} wide) do not fit", *left)
    return notes.result(ir.from_proto(best))


def _of_scores(softmax: "ir.Node") -> bool:
    users = [use.node for use in softmax.outputs[0].uses()]
    # PyTorch sets rows that are masked altogether to zero before the product.
    users += [use.node for node in users if is_op(node, "Where") for use in node.outputs[0].uses()]
    return any(is_op(node, "MatMul") for node in users)


def _families(model: "ir.Model") -> tuple[str, ...]:
    kinds = Counter(node.op_type for node in nodes_of(model))
    centred = kinds["LayerNormalization"] + kinds["Sub"] >= kinds["ReduceMean"] // 2 + kinds["RMSNormalization"]
    return FAMILIES if centred and not kinds["RMSNormalization"] else WITHOUT_MEAN


def _fused(proto: "onnx.ModelProto") -> "Counter[str]":
    named = ("LayerNormalization", "SimplifiedLayerNormalization")
    return Counter(n.op_type for n in proto.graph.node if n.domain == "com.microsoft" or n.op_type in named)


def _optimized(proto: "onnx.ModelProto", family: str, heads: int, hidden: int) -> "onnx.ModelProto | None":
    """The tool's result for a model; None if the tool fails, which does not mean that the model is faulty."""
    from onnxruntime.transformers.fusion_options import FusionOptions
    from onnxruntime.transformers.optimizer import optimize_model

    options = FusionOptions(family)
    # It takes anything from 0.7878 to 0.8078 for the root of 2 / pi; apply_gelu() finds what is a GELU.
    options.enable_gelu = False
    options.enable_skip_layer_norm = options.enable_bias_skip_layer_norm = False
    # It tells the shape of all that follows, with which ONNX Runtime joins normalizations when it loads.
    options.enable_embed_layer_norm = False
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        # It prints, and warns of every shape that it cannot infer.
        with quiet(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            fused = optimize_model(
                proto,
                model_type=family,
                num_heads=heads,
                hidden_size=hidden,
                optimization_options=options,
                opt_level=0,
                use_gpu=False,
            )
            model: onnx.ModelProto = fused.model
            return model
    except Exception:  # noqa: BLE001 - its patterns raise whatever they stumble over; the next family is tried
        return None
    finally:
        logging.disable(level)


PASS = Pass("ort-transformers", "ONNX Runtime's transformer fusions, by the family that fits", apply, 80.0)
