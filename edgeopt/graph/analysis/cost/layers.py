"""Layers whose cost is products: matrix products, convolutions, attention and recurrent layers.

A bias is the start of a sum of products, so it costs nothing. Scaling a quantized number is one operation. The
weights of a convolution have the channels of one group; products with padding count as well. Attention is the
product of every query with every key, a softmax (five operations each), and the product with the values; masked
positions count, because most kernels compute them. A recurrent layer uses all its weights at every step.
"""

from math import prod

from edgeopt.graph.analysis.cost.call import Arithmetic, Call, Rule, Unknown, rules


def _inner(call: Call) -> int:
    if not call.whole("transA"):
        return call.axis(0, -1)
    return call.axis(0, 0 if call.whole("transBatchA") else -2)


def matrix_product(call: Call) -> Arithmetic:
    return Arithmetic(call.out() * _inner(call))


def activated_product(call: Call) -> Arithmetic:
    return Arithmetic(call.out() * _inner(call), call.out())


def quantizing(call: Call) -> Arithmetic:
    """Counts the quantization of the first factor (two operations for its range, one for each number) as well."""
    return Arithmetic(call.out() * _inner(call), call.out() + 3 * call.input_size())


def packed(call: Call) -> Arithmetic:
    """Counts the dequantization of packed low-bit weights once per weight."""
    inner = call.axis(0, -1)
    return Arithmetic(call.out() * inner, inner * call.whole("N", call.output().known_shape()[-1]))


def determinant(call: Call) -> Arithmetic:
    """Counts Gaussian elimination: n³ / 3 MACs for each matrix of n rows."""
    size = call.axis(0, -1)
    return Arithmetic(call.input_size() * size // 3)


def inverse(call: Call) -> Arithmetic:
    return Arithmetic(call.input_size() * call.axis(0, -1))


def distances(call: Call) -> Arithmetic:
    """Counts a difference and a squared sum for each element of each pair of rows."""
    products = call.out() * call.axis(0, -1)
    return Arithmetic(products, products)


def einsum(call: Call) -> Arithmetic:
    """Counts the products from left to right, each step over the indices that are still needed."""
    equation = call.text("equation").replace(" ", "")
    terms = equation.partition("->")[0].split(",")
    if len(terms) != len(call.inputs):
        raise Unknown(f"its equation '{equation}' does not fit its inputs")
    indices = [_indices(term, call.shape(place)) for place, term in enumerate(terms)]
    sizes: dict[str, int] = {}
    for term in indices:
        for name, size in term.items():
            sizes[name] = max(size, sizes.get(name, 1))
    result = _result(equation, indices)
    held, macs = set(indices[0]), 0
    for place in range(1, len(indices)):
        step = held | set(indices[place])
        macs += prod(sizes[name] for name in step)
        needed = result.union(*indices[place + 1 :])
        held = step & needed
    if len(indices) == 1:
        every = prod(sizes.values())
        return Arithmetic(0, every if set(sizes) - result else 0)
    return Arithmetic(macs)


def _indices(term: str, shape: tuple[int, ...]) -> dict[str, int]:
    """Returns the size of each index; the indices behind `...` are numbered from the right."""
    before, dots, after = term.partition("...")
    if not dots:
        before, after = term, ""
    rest = len(shape) - len(before) - len(after)
    names = [*before, *(f".{place}" for place in range(rest, 0, -1)), *after]
    if rest < 0 or len(names) != len(shape):
        raise Unknown(f"its equation has '{term}' for an input with {len(shape)} dimensions")
    return dict(zip(names, shape, strict=True))


def _result(equation: str, indices: list[dict[str, int]]) -> set[str]:
    left, arrow, right = equation.partition("->")
    if not arrow:
        letters = left.replace(",", "").replace(".", "")
        right = "..." + "".join(letter for letter in letters if letters.count(letter) == 1)
    dots = {name for term in indices for name in term if name[0] == "."} if "..." in right else set()
    return {*right.replace(".", ""), *dots}


def experts(call: Call) -> Arithmetic:
    """Counts the matrices of `k` experts for each token."""
    tokens = prod(call.shape(0)[:-1])
    weights = sum(prod(call.shape(place)[1:]) for place in (2, 4, 6) if call.has(place))
    return Arithmetic(tokens * max(1, call.whole("k", 1)) * weights)


def convolution(call: Call) -> Arithmetic:
    return Arithmetic(call.out() * prod(call.shape(1)[1:]))


def activated_convolution(call: Call) -> Arithmetic:
    return Arithmetic(call.out() * prod(call.shape(1)[1:]), call.out())


def transposed(call: Call) -> Arithmetic:
    """Counts the product of each input element with all weights of its channel."""
    return Arithmetic(call.input_size() * prod(call.shape(1)[1:]))


def quantized(call: Call) -> Arithmetic:
    """Counts the convolution and one operation per output element to rescale the sums."""
    return Arithmetic(call.out() * prod(call.shape(3)[1:]), call.out())


def quantized_transposed(call: Call) -> Arithmetic:
    return Arithmetic(call.input_size() * prod(call.shape(3)[1:]), call.out())


def deformed(call: Call) -> Arithmetic:
    """Counts the interpolation of each sample (from four neighbours in 2D) and the mask, if any, as well."""
    out, weights = call.output().known_shape(), call.shape(1)
    seen = out[0] * call.axis(0, 1) * prod(weights[2:]) * prod(out[2:])
    mixed = 2 ** len(weights[2:]) * seen
    return Arithmetic(prod(out) * prod(weights[1:]) + mixed, seen if call.has(4) else 0)


def causal(call: Call) -> Arithmetic:
    return Arithmetic(
        call.out() * prod(call.shape(1)[1:]), call.out() if call.text("activation", "none") != "none" else 0
    )


SOFTMAX = 5


def _attention(queries: int, keys: int, query_width: int, value_width: int, heads: int) -> Arithmetic:
    """Counts the attention of one batch entry; the widths are sums over all heads."""
    return Arithmetic(queries * keys * (query_width + value_width), SOFTMAX * heads * queries * keys)


def _times(one: Arithmetic, batch: int) -> Arithmetic:
    return Arithmetic(one.macs * batch, one.other * batch)


def standard_attention(call: Call) -> Arithmetic:
    """Counts attention over [batch, heads, length, size] or [batch, length, heads x size]."""
    query, key, value = call.shape(0), call.shape(1), call.shape(2)
    past = call.axis(4, 2) if call.has(4) else 0
    if len(query) == 4:
        batch, heads, queries, size = query
        return _times(_attention(queries, key[2] + past, heads * size, heads * value[3], heads), batch)
    if len(query) != 3 or len(value) != 3:
        raise Unknown(f"its query has {len(query)} dimensions; 3 or 4 are supported")
    batch, queries, width = query
    heads, of_values = max(1, call.whole("q_num_heads", 1)), max(1, call.whole("kv_num_heads", 1))
    return _times(_attention(queries, key[1] + past, width, value[2] // of_values * heads, heads), batch)


def multi_head(call: Call) -> Arithmetic:
    """Counts ONNX Runtime's MultiHeadAttention; keys may have a dimension of heads, or share one packed tensor
    with queries and values: [batch, length, heads, 3, size]."""
    query = call.shape(0)
    batch, queries = query[:2]
    heads = max(1, call.whole("num_heads", 1))
    past = call.axis(6, 2) if call.has(6) else 0
    if len(query) == 5:
        width = query[2] * query[4]
        return _times(_attention(queries, queries + past, width, width, heads), batch)
    key = call.shape(1)
    value_width = call.output().known_shape()[-1]
    keys = (key[2] if len(key) == 4 else key[1]) + past
    return _times(_attention(queries, keys, prod(query[2:]), value_width, heads), batch)


def grouped_attention(call: Call) -> Arithmetic:
    """Counts attention over the whole cache that the node writes, including unused capacity."""
    out = call.output().known_shape()
    queries = out[-2]
    present = call.outputs[1] if len(call.outputs) > 1 else None
    if present is not None and present.shape is not None and len(present.shape) == 4:
        keys = present.shape[2]
    else:
        keys = queries + (call.axis(3, 2) if call.has(3) else 0)
    heads = max(1, call.whole("num_heads", 1))
    return _times(_attention(queries, keys, out[-1], out[-1], heads), prod(out[:-2]))


def with_projection(call: Call) -> Arithmetic:
    """Counts ONNX Runtime's Attention, which includes the projections to queries, keys and values."""
    batch, queries, width = call.shape(0)
    columns, value_width = call.axis(1, -1), call.output().known_shape()[-1]
    place = 8 if call.operator == "QAttention" else 4
    past = call.axis(place, -2) if call.has(place) else 0
    own = _attention(
        queries,
        queries + past,
        max(0, columns - value_width) // 2,
        value_width,
        max(1, call.whole("num_heads", 1)),
    )
    return _times(Arithmetic(own.macs + queries * width * columns, own.other), batch)


def linear_attention(call: Call) -> Arithmetic:
    """Counts, for each step, adding the outer product of key and value to a state and reading it by the query."""
    batch, steps, width = call.shape(0)
    value_size = call.axis(2, -1) // max(1, call.whole("kv_num_heads", 1))
    written = call.axis(1, -1) * value_size
    read = width * value_size
    rule = call.text("update_rule", "linear")
    # The delta rule first reads the state at the key.
    corrected = written if "delta" in rule else 0
    decayed = written if call.has(4) else 0
    return Arithmetic(batch * steps * (written + read + corrected), batch * steps * decayed)


def rotary(call: Call) -> Arithmetic:
    """Counts two products and a sum for each element."""
    return Arithmetic(0, 3 * call.input_size())


def _layer(of_state: int) -> Rule:
    def rule(call: Call) -> Arithmetic:
        steps = prod(call.shape(0)[:2])  # length and batch, in either order
        weights = call.input(1).count() + call.input(2).count()
        # The weights of a dynamically quantized layer are transposed: [directions, state, gates].
        state = min(call.shape(2)[-2:])
        return Arithmetic(steps * weights, steps * call.axis(2, 0) * of_state * state)

    return rule


RULES: dict[str, Rule] = {
    **rules("MatMul Gemm MatMulInteger MatMulInteger16 FusedMatMul TransposeMatMul GemmFloat8", matrix_product),
    # One operation per result for an activation or for rescaling the sums.
    **rules(
        "FusedGemm FusedMatMulActivation GemmFastGelu QLinearMatMul QGemm QOrderedMatMul MatMulIntegerToFloat",
        activated_product,
    ),
    "DynamicQuantizeMatMul": quantizing,
    **rules(
        "MatMulNBits MatMulBnb4 MatMulFpQ4 MatMulBlockQuantizedFp4Weight MatMulBlockQuantizedFp8Weight", packed
    ),
    "Det": determinant,
    "Inverse": inverse,
    "CDist": distances,
    "Einsum": einsum,
    "MoE": experts,
    **rules("Conv ConvInteger NhwcConv", convolution),
    **rules("FusedConv NhwcFusedConv", activated_convolution),
    **rules("ConvTranspose ConvTransposeWithDynamicPads", transposed),
    "QLinearConv": quantized,
    "QLinearConvTranspose": quantized_transposed,
    "DeformConv": deformed,
    "CausalConvWithState": causal,
    **rules("Attention FlexAttention", standard_attention),
    "MultiHeadAttention": multi_head,
    "GroupQueryAttention": grouped_attention,
    "QAttention": with_projection,
    "LinearAttention": linear_attention,
    "RotaryEmbedding": rotary,
    # Four gates; c = f * c + i * g; h = o * tanh(c).
    **rules("LSTM DynamicQuantizeLSTM", _layer(4 + 3 + 2)),
    # Three gates; the reset; h = (1 - z) * n + z * h.
    "GRU": _layer(3 + 1 + 4),
    "RNN": _layer(1),
}
OF_MICROSOFT = {"Attention": with_projection}
"""Rules for operators of Microsoft's domain that share a name with a different ONNX operator."""
