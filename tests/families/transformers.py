"""Small transformers of every kind, with seeded random weights, in the words of PyTorch's exporter.

Each differs from the others in what exporters do differently: how heads are split, where the scale stands,
how masks and positions are made, where the normalization stands, which activation is used.
"""

import numpy as np
import onnx

from tests.families.exporter import INT64, Exporter

IDS = (INT64, ["batch", "sequence"])
VOCABULARY = 99


def _heads(g: Exporter, x: str, heads: int, width: int, order: tuple[int, ...] = (0, 2, 1, 3)) -> str:
    """(batch, sequence, hidden) to (batch, heads, sequence, width), with the shape asked at run time."""
    split = g.reshape(x, g.size(x, 0), g.size(x, 1), heads, width)
    return str(g.op("Transpose", split, perm=order))


def _merge(g: Exporter, x: str, hidden: int) -> str:
    together = g.op("Transpose", x, perm=[0, 2, 1, 3])
    return g.reshape(together, g.size(together, 0), g.size(together, 1), hidden)


def _attention(
    g: Exporter, query: str, key: str, value: str, width: int, mask: str | None, scaled: str = "scores"
) -> str:
    """Scaled dot products; the scale stands at the scores, the query, or by its root at query and key."""
    scale = float(1 / np.sqrt(width))
    if scaled == "query":
        query = g.op("Div", query, float(np.sqrt(width)))
    elif scaled == "both":
        query, key = (g.op("Mul", side, float(np.sqrt(scale))) for side in (query, key))
    scores = g.op("MatMul", query, key)
    if scaled == "scores":
        scores = g.op("Div", scores, float(np.sqrt(width)))
    if mask is not None:
        scores = g.op("Add", scores, mask)
    return str(g.op("MatMul", g.op("Softmax", scores, axis=-1), value))


def _self_attention(
    g: Exporter, x: str, hidden: int, heads: int, mask: str | None, scaled: str = "scores", bias: bool = True
) -> str:
    """Three products, split into heads, attended to, merged and projected."""
    width = hidden // heads
    query = _heads(g, g.linear(x, hidden, hidden, bias), heads, width)
    key = _heads(g, g.linear(x, hidden, hidden, bias), heads, width, (0, 2, 3, 1))
    value = _heads(g, g.linear(x, hidden, hidden, bias), heads, width)
    context = _merge(g, _attention(g, query, key, value, width, mask, scaled), hidden)
    return g.linear(context, hidden, hidden, bias)


def _padding_mask(g: Exporter, mask: str) -> str:
    """1 and 0 by token become 0 and -10000 by score."""
    wide = g.axes_op("Unsqueeze", g.axes_op("Unsqueeze", mask, [1]), [2])
    return str(g.op("Mul", g.op("Sub", 1.0, g.op("Cast", wide, to=1)), -10000.0))


def _causal(g: Exporter, length: str) -> str:
    """0 where a token may look and a large negative number after it, for scores of (length, length)."""
    places = g.op("Range", np.array(0, np.int64), length, np.array(1, np.int64))
    later = g.op("Less", g.axes_op("Unsqueeze", places, [1]), g.axes_op("Unsqueeze", places, [0]))
    return str(g.op("Where", later, -3.4e38, 0.0))


def _post_norm(g: Exporter, x: str, hidden: int, heads: int, mask: str | None, scaled: str = "scores") -> str:
    """A layer as in BERT: each half is added to what came in and normalized then."""
    attended = _self_attention(g, x, hidden, heads, mask, scaled)
    x = g.layer_norm(g.op("Add", attended, x), hidden)
    fed = g.linear(g.gelu(g.linear(x, hidden, 4 * hidden)), 4 * hidden, hidden)
    return g.layer_norm(g.op("Add", fed, x), hidden)


def bert(opset: int = 14, layers: int = 2, hidden: int = 32, heads: int = 4, pool: bool = True) -> onnx.ModelProto:
    g = Exporter(opset)
    tokens = g.op("Gather", g.weight(VOCABULARY, hidden, scale=1.0), "input_ids")
    kinds = g.op("Gather", g.weight(2, hidden, scale=0.1), "token_type_ids")
    length = g.op("Slice", g.array(np.arange(64)[None]), [0], g.shape(g.size("input_ids", 1)), [1])
    places = g.op("Gather", g.weight(64, hidden, scale=0.1), length)
    mask = _padding_mask(g, "attention_mask")
    x = g.layer_norm(g.op("Add", g.op("Add", tokens, kinds), places), hidden)
    for _ in range(layers):
        x = _post_norm(g, x, hidden, heads, mask)
    outputs = {g.named(x, "last_hidden_state"): ["batch", "sequence", hidden]}
    if pool:
        first = g.op("Gather", "last_hidden_state", np.array(0, np.int64), axis=1)
        dense = g.op("Gemm", first, g.weight(hidden, hidden), g.weight(hidden, scale=0.1), transB=1)
        outputs[g.named(g.op("Tanh", dense), "pooler_output")] = ["batch", hidden]
    return g.model(dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), IDS), outputs)


def distilbert(opset: int = 14, layers: int = 2, hidden: int = 32, heads: int = 4) -> onnx.ModelProto:
    """The query is scaled before the product, and masked scores are replaced, not added to."""
    g = Exporter(opset, seed=1)
    width = hidden // heads
    places = g.op("Slice", g.array(np.arange(64)[None]), [0], g.shape(g.size("input_ids", 1)), [1])
    x = g.op("Gather", g.weight(VOCABULARY, hidden, scale=1.0), "input_ids")
    x = g.layer_norm(g.op("Add", x, g.op("Gather", g.weight(64, hidden, scale=0.1), places)), hidden)
    for _ in range(layers):
        query = _heads(g, g.linear(x, hidden, hidden), heads, width)
        key = _heads(g, g.linear(x, hidden, hidden), heads, width)
        value = _heads(g, g.linear(x, hidden, hidden), heads, width)
        query = g.op("Div", query, float(np.sqrt(width)))
        scores = g.op("MatMul", query, g.op("Transpose", key, perm=[0, 1, 3, 2]))
        padding = g.op("Equal", "attention_mask", np.array(0, np.int64))
        padding = g.reshape(padding, g.size(x, 0), 1, 1, g.size(x, 1))
        padding = g.op("Expand", padding, g.op("Shape", scores))
        scores = g.op("Where", padding, -3.4e38, scores)
        context = _merge(g, g.op("MatMul", g.op("Softmax", scores, axis=-1), value), hidden)
        x = g.layer_norm(g.op("Add", g.linear(context, hidden, hidden), x), hidden)
        fed = g.linear(g.gelu(g.linear(x, hidden, 4 * hidden)), 4 * hidden, hidden)
        x = g.layer_norm(g.op("Add", fed, x), hidden)
    outputs = {g.named(x, "last_hidden_state"): ["batch", "sequence", hidden]}
    return g.model(dict.fromkeys(("input_ids", "attention_mask"), IDS), outputs)


def roberta(opset: int = 14, layers: int = 2, hidden: int = 32, heads: int = 4) -> onnx.ModelProto:
    """Positions count the tokens that are no padding."""
    g = Exporter(opset, seed=2)
    real = g.op("Cast", g.op("Not", g.op("Equal", "input_ids", np.array(1, np.int64))), to=6)
    counted = g.op("Mul", g.op("CumSum", real, np.array(1, np.int64)), real)
    places = g.op("Add", g.op("Cast", counted, to=7), np.array(1, np.int64))
    tokens = g.op("Gather", g.weight(VOCABULARY, hidden, scale=1.0), "input_ids")
    x = g.op("Add", tokens, g.op("Gather", g.weight(66, hidden, scale=0.1), places))
    x, mask = g.layer_norm(x, hidden), _padding_mask(g, "attention_mask")
    for _ in range(layers):
        x = _post_norm(g, x, hidden, heads, mask)
    outputs = {g.named(x, "last_hidden_state"): ["batch", "sequence", hidden]}
    return g.model(dict.fromkeys(("input_ids", "attention_mask"), IDS), outputs)


def _conv1d(g: Exporter, x: str, size_in: int, size_out: int) -> str:
    """GPT-2's linear layer: flattened, a Gemm, and brought into shape again."""
    flat = g.reshape(x, -1, size_in)
    product = g.op("Gemm", flat, g.weight(size_in, size_out), g.weight(size_out, scale=0.1))
    return g.reshape(product, g.size(x, 0), g.size(x, 1), size_out)


def gpt2(
    opset: int = 14,
    layers: int = 2,
    hidden: int = 32,
    heads: int = 4,
    past: bool = True,
    masked: float = -3.4e38,
) -> onnx.ModelProto:
    """Keys and values of earlier tokens come in by layer as (2, batch, heads, past, width), and go out longer."""
    g = Exporter(opset, seed=3)
    width, inputs, outputs = hidden // heads, {"input_ids": IDS}, {}
    one = np.array(1, np.int64)
    new = g.size("input_ids", 1)
    earlier = g.size("past_0", 3) if past else None
    total = g.op("Add", new, earlier) if earlier else new
    places = g.op("Range", earlier or np.array(0, np.int64), total, one)
    x = g.op("Gather", g.weight(VOCABULARY, hidden, scale=1.0), "input_ids")
    places = g.op("Gather", g.weight(64, hidden, scale=0.1), g.axes_op("Unsqueeze", places, [0]))
    x = g.op("Add", x, places)
    triangle = g.array(np.tril(np.ones((1, 1, 64, 64), np.bool_)))
    for layer in range(layers):
        packed = _conv1d(g, g.layer_norm(x, hidden), hidden, 3 * hidden)
        query, key, value = g.split(packed, [hidden] * 3, axis=2)
        query, value = _heads(g, query, heads, width), _heads(g, value, heads, width)
        key = _heads(g, key, heads, width)
        if past:
            inputs[f"past_{layer}"] = [2, "batch", heads, "past", width]
            kept = [g.op("Gather", f"past_{layer}", np.array(k, np.int64), axis=0) for k in (0, 1)]
            key, value = (g.op("Concat", *pair, axis=-2) for pair in zip(kept, (key, value), strict=True))
            both = [g.axes_op("Unsqueeze", one_side, [0]) for one_side in (key, value)]
            present = g.named(g.op("Concat", *both, axis=0), f"present_{layer}")
            outputs[present] = [2, "batch", heads, "total", width]
        scores = g.op("MatMul", query, g.op("Transpose", key, perm=[0, 1, 3, 2]))
        scores = g.op("Div", scores, float(np.sqrt(width)))
        length, wide = g.size(query, 2), g.size(key, 2)
        rows = g.op("Slice", triangle, g.shape(g.op("Sub", wide, length)), g.shape(wide), [2])
        seen = g.op("Slice", rows, [0], g.shape(wide), [3])
        weights = g.op("Softmax", g.op("Where", seen, scores, masked), axis=-1)
        context = _merge(g, g.op("MatMul", weights, value), hidden)
        x = g.op("Add", _conv1d(g, context, hidden, hidden), x)
        fed = g.gelu_tanh(_conv1d(g, g.layer_norm(x, hidden), hidden, 4 * hidden))
        x = g.op("Add", x, _conv1d(g, fed, 4 * hidden, hidden))
    logits = g.op("MatMul", g.layer_norm(x, hidden), g.weight(hidden, VOCABULARY))
    return g.model(inputs, {g.named(logits, "logits"): ["batch", "sequence", VOCABULARY], **outputs})


def _relative_bias(g: Exporter, length: str, heads: int, both_ways: bool) -> str:
    """T5's learned addition to the scores, by the distance between two tokens in buckets."""
    places = g.op("Range", np.array(0, np.int64), length, np.array(1, np.int64))
    away = g.op("Sub", g.axes_op("Unsqueeze", places, [0]), g.axes_op("Unsqueeze", places, [1]))
    start, buckets = None, 32
    if both_ways:
        buckets = 16
        after = g.op("Cast", g.op("Greater", away, np.array(0, np.int64)), to=7)
        start, away = g.op("Mul", after, np.array(buckets, np.int64)), g.op("Abs", away)
    else:
        away = g.op("Neg", g.minimum(away, 0))
    exact = buckets // 2
    near = g.op("Less", away, np.array(exact, np.int64))
    log = g.op("Log", g.op("Div", g.op("Cast", away, to=1), float(exact)))
    steps = g.op("Mul", g.op("Div", log, float(np.log(128 / exact))), float(buckets - exact))
    far = g.op("Add", g.op("Cast", steps, to=7), np.array(exact, np.int64))
    far = g.minimum(far, buckets - 1)
    bucket = g.op("Where", near, away, far)
    bucket = g.op("Add", start, bucket) if start else bucket
    table = g.op("Gather", g.weight(32, heads, scale=1.0), bucket)
    return g.axes_op("Unsqueeze", g.op("Transpose", table, perm=[2, 0, 1]), [0])


def _t5_attention(g: Exporter, x: str, source: str, size: tuple[int, int], bias: str | None) -> str:
    """Products without bias, scores without scale."""
    hidden, heads = size
    width = hidden // heads

    def split(of: str, perm: list[int]) -> str:
        product = g.linear(of, hidden, hidden, bias=False)
        return str(g.op("Transpose", g.reshape(product, g.size(of, 0), -1, heads, width), perm=perm))

    query, key, value = split(x, [0, 2, 1, 3]), split(source, [0, 2, 3, 1]), split(source, [0, 2, 1, 3])
    scores = g.op("MatMul", query, key)
    scores = g.op("Add", scores, bias) if bias else scores
    context = g.op("Transpose", g.op("MatMul", g.op("Softmax", scores, axis=-1), value), perm=[0, 2, 1, 3])
    merged = g.reshape(context, g.size(x, 0), -1, hidden)
    return g.linear(merged, hidden, hidden, bias=False)


def t5(opset: int = 14, layers: int = 2, hidden: int = 32, heads: int = 4) -> onnx.ModelProto:
    """Encoder with ReLU, decoder with gated GELU (as T5 1.1 has it), relative positions, RMS normalization."""
    g = Exporter(opset, seed=4)
    table, size = g.weight(VOCABULARY, hidden, scale=1.0), (hidden, heads)
    padding = _padding_mask(g, "attention_mask")

    x = g.op("Gather", table, "input_ids")
    bias = g.op("Add", _relative_bias(g, g.size("input_ids", 1), heads, both_ways=True), padding)
    for _ in range(layers):
        normal = g.rms_norm(x, hidden)
        x = g.op("Add", x, _t5_attention(g, normal, normal, size, bias))
        inner = g.op("Relu", g.linear(g.rms_norm(x, hidden), hidden, 2 * hidden, bias=False))
        x = g.op("Add", x, g.linear(inner, 2 * hidden, hidden, bias=False))
    encoded = g.rms_norm(x, hidden)

    x, length = g.op("Gather", table, "decoder_input_ids"), g.size("decoder_input_ids", 1)
    bias = g.op("Add", _relative_bias(g, length, heads, both_ways=False), _causal(g, length))
    for _ in range(layers):
        normal = g.rms_norm(x, hidden)
        x = g.op("Add", x, _t5_attention(g, normal, normal, size, bias))
        x = g.op("Add", x, _t5_attention(g, g.rms_norm(x, hidden), encoded, size, padding))
        normal = g.rms_norm(x, hidden)
        gate = g.gelu_tanh(g.linear(normal, hidden, 2 * hidden, bias=False))
        inner = g.op("Mul", gate, g.linear(normal, hidden, 2 * hidden, bias=False))
        x = g.op("Add", x, g.linear(inner, 2 * hidden, hidden, bias=False))
    logits = g.op("MatMul", g.rms_norm(x, hidden), g.weight(hidden, VOCABULARY))
    inputs = dict.fromkeys(("input_ids", "attention_mask"), IDS) | {"decoder_input_ids": (7, ["batch", "written"])}
    return g.model(inputs, {g.named(logits, "logits"): ["batch", "written", VOCABULARY]})


def _bart_attention(g: Exporter, x: str, source: str, size: tuple[int, int], mask: str | None) -> str:
    """Batch and heads in one dimension, products of three dimensions, the query scaled by a product."""
    hidden, heads = size
    width = hidden // heads
    batch = g.size(x, 0)
    rows = g.op("Mul", batch, np.array(heads, np.int64))
    parts = []
    for of in (x, source, source):
        part = g.linear(of, hidden, hidden)
        part = g.op("Mul", part, float(width**-0.5)) if not parts else part
        part = g.op("Transpose", g.reshape(part, batch, -1, heads, width), perm=[0, 2, 1, 3])
        parts.append(g.reshape(part, rows, -1, width))
    query, key, value = parts
    scores = g.op("MatMul", query, g.op("Transpose", key, perm=[0, 2, 1]))
    if mask is not None:
        length, wide = g.size(scores, 1), g.size(scores, 2)
        scores = g.op("Add", g.reshape(scores, batch, heads, length, wide), mask)
        scores = g.reshape(scores, rows, length, wide)
    context = g.op("MatMul", g.op("Softmax", scores, axis=-1), value)
    context = g.reshape(context, batch, heads, g.size(x, 1), width)
    merged = g.reshape(g.op("Transpose", context, perm=[0, 2, 1, 3]), batch, g.size(x, 1), hidden)
    return g.linear(merged, hidden, hidden)


def bart(opset: int = 14, layers: int = 2, hidden: int = 32, heads: int = 4) -> onnx.ModelProto:
    """Encoder and decoder, normalized after each half."""
    g = Exporter(opset, seed=5)
    table, size = g.weight(VOCABULARY, hidden, scale=1.0), (hidden, heads)

    def embed(ids: str) -> str:
        places = g.op("Range", np.array(0, np.int64), g.size(ids, 1), np.array(1, np.int64))
        places = g.op("Gather", g.weight(66, hidden, scale=0.1), g.op("Add", places, np.array(2, np.int64)))
        return g.layer_norm(g.op("Add", g.op("Gather", table, ids), places), hidden)

    def feed(x: str) -> str:
        fed = g.linear(g.gelu(g.linear(x, hidden, 4 * hidden)), 4 * hidden, hidden)
        return g.layer_norm(g.op("Add", x, fed), hidden)

    padding = _padding_mask(g, "attention_mask")
    x = embed("input_ids")
    for _ in range(layers):
        x = feed(g.layer_norm(g.op("Add", x, _bart_attention(g, x, x, size, padding)), hidden))
    encoded = x
    x, causal = embed("decoder_input_ids"), _causal(g, g.size("decoder_input_ids", 1))
    for _ in range(layers):
        x = g.layer_norm(g.op("Add", x, _bart_attention(g, x, x, size, causal)), hidden)
        x = g.layer_norm(g.op("Add", x, _bart_attention(g, x, encoded, size, padding)), hidden)
        x = feed(x)
    logits = g.op("MatMul", x, g.weight(hidden, VOCABULARY))
    inputs = dict.fromkeys(("input_ids", "attention_mask"), IDS) | {"decoder_input_ids": (7, ["batch", "written"])}
    return g.model(inputs, {g.named(logits, "logits"): ["batch", "written", VOCABULARY]})


def _pre_norm(g: Exporter, x: str, hidden: int, heads: int, scaled: str) -> str:
    """A layer as in ViT and Whisper: normalized first, added then."""
    x = g.op("Add", _self_attention(g, g.layer_norm(x, hidden), hidden, heads, None, scaled), x)
    inner = g.gelu(g.linear(g.layer_norm(x, hidden), hidden, 4 * hidden))
    return str(g.op("Add", g.linear(inner, 4 * hidden, hidden), x))


def vit(opset: int = 14, layers: int = 2, hidden: int = 32, heads: int = 4, size: int = 32) -> onnx.ModelProto:
    """Patches of 8 x 8 by a convolution, a token for the class before them; scaled at query and key."""
    g = Exporter(opset, seed=6)
    patches = g.op("Conv", "pixels", g.weight(hidden, 3, 8, 8, scale=0.07), g.weight(hidden), strides=[8, 8])
    flat = g.op("Transpose", g.reshape(patches, g.size(patches, 0), hidden, -1), perm=[0, 2, 1])
    token = g.op("Expand", g.weight(1, 1, hidden), g.shape(g.size("pixels", 0), 1, hidden))
    x = g.op("Add", g.op("Concat", token, flat, axis=1), g.weight(1, (size // 8) ** 2 + 1, hidden, scale=0.1))
    for _ in range(layers):
        x = _pre_norm(g, x, hidden, heads, "both")
    first = g.op("Gather", g.layer_norm(x, hidden), np.array(0, np.int64), axis=1)
    logits = g.op("Gemm", first, g.weight(10, hidden), g.weight(10, scale=0.1), transB=1)
    return g.model({"pixels": ["batch", 3, size, size]}, {g.named(logits, "logits"): ["batch", 10]})


def whisper_encoder(
    opset: int = 14, layers: int = 2, hidden: int = 32, heads: int = 4, frames: int = 50
) -> onnx.ModelProto:
    """Two convolutions over time, fixed positions; the query scaled before the product."""
    g = Exporter(opset, seed=7)
    x = g.op("Conv", "features", g.weight(hidden, 16, 3, scale=0.15), g.weight(hidden), pads=[1, 1])
    x = g.op("Conv", g.gelu(x), g.weight(hidden, hidden, 3, scale=0.1), g.weight(hidden), pads=[1, 1], strides=[2])
    x = g.op("Add", g.op("Transpose", g.gelu(x), perm=[0, 2, 1]), g.weight(frames // 2, hidden, scale=0.3))
    for _ in range(layers):
        x = _pre_norm(g, x, hidden, heads, "query")
    x = g.layer_norm(x, hidden)
    return g.model(
        {"features": ["batch", 16, frames]}, {g.named(x, "last_hidden_state"): ["batch", frames // 2, hidden]}
    )


def _rotate(g: Exporter, x: str, cos: str, sin: str, width: int) -> str:
    """Rotary positions: each half turned against the other."""
    left = g.op("Slice", x, [0], [width // 2], [3])
    right = g.op("Slice", x, [width // 2], [2**63 - 1], [3])
    turned = g.op("Concat", g.op("Neg", right), left, axis=-1)
    return str(g.op("Add", g.op("Mul", x, cos), g.op("Mul", turned, sin)))


def llama(opset: int = 14, layers: int = 2, hidden: int = 32, heads: int = 4) -> onnx.ModelProto:
    """Rotary positions, half as many heads for keys and values, a gated SiLU, RMS normalization."""
    g = Exporter(opset, seed=8)
    width, few = hidden // heads, heads // 2
    x, length = g.op("Gather", g.weight(VOCABULARY, hidden, scale=1.0), "input_ids"), g.size("input_ids", 1)
    places = g.op("Cast", g.op("Range", np.array(0, np.int64), length, np.array(1, np.int64)), to=1)
    speeds = g.array(10000.0 ** (-np.arange(0, width, 2) / width)[None])
    angles = g.op("MatMul", g.axes_op("Unsqueeze", places, [1]), speeds)
    angles = g.op("Concat", angles, angles, axis=-1)
    cos, sin = (g.axes_op("Unsqueeze", g.op(kind, angles), [0, 1]) for kind in ("Cos", "Sin"))
    causal = _causal(g, length)

    def repeat(one: str) -> str:
        wide = g.axes_op("Unsqueeze", one, [2])
        wide = g.op("Expand", wide, g.shape(g.size(one, 0), few, heads // few, g.size(one, 2), width))
        return g.reshape(wide, g.size(one, 0), heads, g.size(one, 2), width)

    for _ in range(layers):
        normal = g.rms_norm(x, hidden)
        query = _rotate(g, _heads(g, g.linear(normal, hidden, hidden, bias=False), heads, width), cos, sin, width)
        key = _heads(g, g.linear(normal, hidden, few * width, bias=False), few, width)
        key = repeat(_rotate(g, key, cos, sin, width))
        value = repeat(_heads(g, g.linear(normal, hidden, few * width, bias=False), few, width))
        scores = g.op("MatMul", query, g.op("Transpose", key, perm=[0, 1, 3, 2]))
        scores = g.op("Add", g.op("Mul", scores, float(width**-0.5)), causal)
        context = _merge(g, g.op("MatMul", g.op("Softmax", scores, axis=-1), value), hidden)
        x = g.op("Add", x, g.linear(context, hidden, hidden, bias=False))
        normal = g.rms_norm(x, hidden)
        gate = g.linear(normal, hidden, 2 * hidden, bias=False)
        gate = g.op("Mul", gate, g.op("Sigmoid", gate))
        inner = g.op("Mul", gate, g.linear(normal, hidden, 2 * hidden, bias=False))
        x = g.op("Add", x, g.linear(inner, 2 * hidden, hidden, bias=False))
    logits = g.op("MatMul", g.rms_norm(x, hidden), g.weight(hidden, VOCABULARY))
    return g.model({"input_ids": IDS}, {g.named(logits, "logits"): ["batch", "sequence", VOCABULARY]})


TRANSFORMERS = (bert, distilbert, roberta, gpt2, t5, bart, vit, whisper_encoder, llama)
"""All of them; `feeds_of` makes what each is fed."""
