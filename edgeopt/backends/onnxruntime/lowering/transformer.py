"""ONNX Runtime's own transformer fusions, with the number of heads and their width found in the model.

ONNX Runtime's tool has a set of patterns for every family of models, and finds nothing with the wrong family.
Every family that fits is tried, and the result with the fewest nodes is used. Normalizations are not joined with
the addition before them: see `apply_skip_normalization`.
"""

import logging
import sys
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from io import StringIO
from threading import Lock
from typing import TYPE_CHECKING, Any

from edgeopt.graph.passes.base import (
    Notes,
    Pass,
    PassContext,
    PassResult,
    constant,
    declared,
    forget_claims,
    is_op,
    label,
    node_count,
    nodes_of,
    plural,
    quiet,
)
from edgeopt.graph.passes.fusion.activations import find_gelu
from edgeopt.graph.passes.fusion.attention import Attention, find_attention, mask_of, refusal
from edgeopt.graph.passes.knowledge.heads import (
    SPLIT,
    SPLIT_TURNED,
    extent,
    permutation,
    same_extent,
    target_shape,
)
from edgeopt.graph.passes.knowledge.matching import (
    PatternMatch,
    downstream,
    fuse,
    homes,
    operands,
    polynomial,
    producer,
    rank,
    upstream,
)

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

DOMAIN = "com.microsoft"


def _gelu(node: "ir.Node") -> PatternMatch | None:
    found = find_gelu(node)
    if found is None:
        return None
    exact = found.attributes["approximate"] == "none"
    found = replace(found, attributes={}, domain=DOMAIN, opset=0, operator="Gelu" if exact else "FastGelu")
    x: ir.Value = found.inputs[0]
    add = producer(x, "Add")
    inside = {*found.nodes, *found.others}
    if add is None or x.is_graph_output() or any(use.node not in inside for use in x.uses()):
        return found
    for one, bias in operands(add):
        array = constant(bias)
        # The kernels only add a bias to the last dimension.
        if array is not None and array.ndim == 1 and array.shape[0] > 1:
            operator = "BiasGelu" if exact else "FastGelu"
            return replace(found, operator=operator, inputs=(one, bias), nodes=(*found.nodes, add))
    return found


def _gate(node: "ir.Node") -> PatternMatch | None:
    """Returns the match of a product of a Sigmoid and its input."""
    if not is_op(node, "Sigmoid") or node.inputs[0] is None:
        return None
    gate = node.outputs[0]
    for x in upstream(node.inputs[0], 1):
        inner = polynomial(node.inputs[0], (x,))
        alpha = inner.terms.get((1,)) if inner is not None else None
        if inner is None or alpha is None or not inner.equals({(1,): alpha}, x):
            continue
        for root in downstream(gate, 1):
            whole = polynomial(root.outputs[0], (x, gate), 1)
            if whole is not None and whole.equals({(1, 1): 1.0}, x):
                nodes = (node, *whole.nodes, *inner.nodes)
                return PatternMatch(root, nodes, "QuickGelu", (x,), {"alpha": alpha}, domain=DOMAIN)
    return None


def apply_gelu(model: "ir.Model", context: PassContext) -> PassResult:
    """Fuses every GELU, in subgraphs too."""
    return fuse(model, context, _gelu, "GELU")


def apply_gate(model: "ir.Model", context: PassContext) -> PassResult:
    """Fuses every product with the sigmoid of a factor, in subgraphs too."""
    return fuse(model, context, _gate, "sigmoid gate")


GELU = Pass("ort-gelu", "GELUs become Gelu, BiasGelu or FastGelu", apply_gelu, 100.0)
QUICK_GELU = Pass("ort-quick-gelu", "x * sigmoid(alpha x) becomes QuickGelu", apply_gate, 100.0)


def _found(node: "ir.Node") -> PatternMatch | None:
    attention = find_attention(node)
    if attention is None:
        return None
    packed, root = attention.packed_query, attention.packed_root
    if packed is None or root is None:
        reason = attention.reason or "the query is not split from packed heads, or the result is not packed again"
        return PatternMatch(node, attention.nodes, "MultiHeadAttention", (), reason=reason)
    parts = attention.packed
    sides = tuple(part.value for part in parts) if parts else (packed.value, attention.key, attention.value)
    scores = attention.scores
    return PatternMatch(
        root,
        (*attention.nodes, *attention.packed_nodes),
        "MultiHeadAttention",
        (*sides, scores.mask, scores.bias, scores.condition),
        {"num_heads": packed.heads, "scale": scores.scale},
        domain="com.microsoft",
        reason=refusal(attention),
        others=attention.others,
        prepare=lambda: _inputs(attention, sides),
    )


def _inputs(attention: Attention, sides: "tuple[ir.Value, ...]") -> "tuple[list[ir.Node], tuple[Any, ...]]":
    import onnx_ir as ir

    nodes, mask = mask_of(attention, sides[0], 1)
    query, key, value = sides
    if attention.packed is None and attention.key_order:
        turn = ir.node("Transpose", [key], {"perm": attention.key_order})
        nodes, key = [*nodes, turn], turn.outputs[0]
    # Biases and the padding of keys are not fused.
    return nodes, (query, key, value, *((None, None, mask) if mask is not None else ()))


def apply_attention(model: "ir.Model", context: PassContext) -> PassResult:
    """Fuses scaled dot products into MultiHeadAttention, which takes packed heads.

    On request: on processors its kernel was measured to be as fast as the parts (0.99 to 1.06 times, version
    1.31).
    """
    return fuse(model, context, _found, "attention")


MULTI_HEAD_ATTENTION = Pass(
    "ort-attention", "scaled dot products become MultiHeadAttention", apply_attention, 100.0, on_request=True
)

OPERATORS = {
    "LayerNormalization": "SkipLayerNormalization",
    "RMSNormalization": "SkipSimplifiedLayerNormalization",
    "SimplifiedLayerNormalization": "SkipSimplifiedLayerNormalization",
}


def apply_skip_normalization(model: "ir.Model", context: PassContext) -> PassResult:  # noqa: ARG001 - every pass has this signature
    """Fuses an addition and the layer or RMS normalization behind it into one operator of ONNX Runtime.

    On request: on processors its kernels were measured to be slower than the two operators (whole models 0.83 to
    0.98 times as fast, by version 1.31); they are for graphics processors.
    """
    model, notes, done = model.clone(), Notes(), []
    for part, _ in homes(model):
        for node in list(part):
            add = producer(node.inputs[0], "Add") if is_op(node, *OPERATORS) else None
            if add is None:
                continue
            if reason := _refusal(node, add):
                notes.refuse(reason, label(node))
                continue
            _fuse(model, part, node, add)
            done.append(label(node))
    if done:
        notes.did(f"fused {plural(len(done), 'normalization')} with the addition before", *done)
    return notes.result(model)


def _refusal(node: "ir.Node", add: "ir.Node") -> str | None:
    one, other = add.inputs
    if one is None or other is None or add.graph is not node.graph:
        return f"{label(add)} is outside the subgraph that holds the normalization"
    if any(use.node.graph is not add.graph for use in add.outputs[0].uses()):
        return "a subgraph reads the sum too"
    axis = node.attributes["axis"].as_int() if "axis" in node.attributes else -1
    if axis not in {-1, (rank(one) or 0) - 1}:
        return "it goes over more than the last dimension"
    if any(rank(value) != 3 for value in (one, other)):
        return "the added tensor may not have three dimensions"
    if not all(same_extent(one, at, other, at) for at in range(3)):
        return "the shapes of the added tensors may differ"
    if any(output.name and output.uses() for output in node.outputs[1:]):
        return "its mean or deviation is used too"
    return None


def _fuse(model: "ir.Model", part: "ir.Graph | ir.Function", node: "ir.Node", add: "ir.Node") -> None:
    import onnx_ir as ir

    total, old = add.outputs[0], node.outputs[0]
    others = [use for use in total.uses() if use.node is not node]
    keeps_total = bool(others) or total.is_graph_output()
    epsilon = node.attributes["epsilon"].as_float() if "epsilon" in node.attributes else 1e-5
    fused = ir.node(
        OPERATORS[node.op_type],
        [*add.inputs, *node.inputs[1:]],
        {"epsilon": epsilon},
        domain="com.microsoft",
        num_outputs=4 if keeps_total else 1,
        name=node.name,
    )
    model.opset_imports.setdefault("com.microsoft", 1)
    part.opset_imports.setdefault("com.microsoft", 1)
    # The position is behind the addition and before all its readers; scale and shift are weights or computed
    # earlier.
    readers = {node, *(use.node for use in others)}
    part.insert_before(next(each for each in part if each in readers), fused)
    taken = [(old, fused.outputs[0]), *([(total, fused.outputs[3])] if keeps_total else [])]
    for unnamed in fused.outputs[1:3]:
        unnamed.name = ""
    for before, after in taken:
        name = before.name
        after.shape, after.type = before.shape, before.type
        before.replace_all_uses_with(after, replace_graph_outputs=True)
        before.name, after.name = f"{name}__replaced", name
    for gone in (node, add):
        part.remove(gone, safe=True)


SKIP_NORMALIZATION = Pass(
    "ort-skip-normalization",
    "normalizations take in the addition before them",
    apply_skip_normalization,
    100.0,
    on_request=True,
)

FAMILIES = ("bert", "gpt2", "bart")
ATTENTION = ("Attention", "MultiHeadAttention", "GroupQueryAttention")
WITHOUT_MEAN = ("t5", "gpt2")
"""Families for models with RMS normalization; ViT and Whisper have the same patterns as bert and bart."""


def heads_of(model: "ir.Model") -> tuple[int, int] | None:
    """Returns the number of attention heads and the width of the model, from how tensors are split into heads."""
    counts: Counter[tuple[int, int]] = Counter()
    for node in nodes_of(model):
        if node.op_type == "MultiHeadAttention" and node.inputs[0] is not None:
            # Another lowering replaced the splits.
            heads, hidden = node.attributes["num_heads"].as_int(), extent(node.inputs[0], 2)
            if hidden is not None:
                counts[heads, hidden // heads] += 1
            continue
        split = producer(node.inputs[0], "Reshape") if permutation(node) in {SPLIT, SPLIT_TURNED} else None
        if split is None:
            continue
        target = target_shape(split) if len(target_shape(split)) == 4 else [None] * 4
        # The target shape may leave one of them open; the inferred shape has both.
        heads, width = (extent(split.outputs[0], axis) or target[axis] for axis in (2, 3))
        if isinstance(heads, int) and isinstance(width, int) and heads > 0 and width > 0:
            counts[heads, width] += 1
    if not counts:
        return None
    # If keys and values have fewer heads than queries, the heads of the queries count.
    heads, width = max(counts, key=lambda split: (split[0] * split[1], counts[split]))
    return heads, heads * width


def apply_transformers(model: "ir.Model", context: PassContext) -> PassResult:
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
    with declared(model):
        proto = ir.to_proto(model)
    best, smallest = None, node_count(model)
    for family in _families(model):
        result = _optimized(proto, family, *found)
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
    made = ir.from_proto(best)
    forget_claims(made)
    return notes.result(made)


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


_REPLACES_STREAMS = Lock()


def _optimized(proto: "onnx.ModelProto", family: str, heads: int, hidden: int) -> "onnx.ModelProto | None":
    """Returns the tool's result for a model, or None if the tool fails, which may be its own fault."""
    from onnxruntime.transformers.fusion_options import FusionOptions
    from onnxruntime.transformers.optimizer import optimize_model

    options = FusionOptions(family)
    # The tool accepts 0.7878 to 0.8078 for the root of 2 / pi; apply_gelu() finds GELUs instead.
    options.enable_gelu = False
    options.enable_skip_layer_norm = options.enable_bias_skip_layer_norm = False
    # The embedding determines the shapes of all later values, which ONNX Runtime needs to join normalizations.
    options.enable_embed_layer_norm = False
    _silence_the_tool()
    try:
        # The tool prints as well. Both streams belong to the process, so one thread at a time may replace them.
        with _REPLACES_STREAMS, quiet(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
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


def _silence_the_tool() -> None:
    """Silences the tool's warnings about shapes that it cannot infer; its loggers are named after its files."""
    import onnxruntime.transformers as tool

    for name, module in tuple(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(tool.__path__[0]):
            logging.getLogger(name).setLevel(logging.CRITICAL)
    logging.getLogger("symbolic_shape_infer").setLevel(logging.CRITICAL)


TRANSFORMERS = Pass(
    "ort-transformers", "ONNX Runtime's transformer fusions, by the family that fits", apply_transformers, 80.0
)
