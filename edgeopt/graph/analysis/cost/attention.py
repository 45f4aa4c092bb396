"""Attention: every query times every key, a softmax over these (five operations each), and then the values.

Masked places count too, because most kernels compute them.
"""

from math import prod

from edgeopt.graph.analysis.cost.call import Arithmetic, Call, Unknown

SOFTMAX = 5


def _of(queries: int, keys: int, query_width: int, value_width: int, heads: int) -> Arithmetic:
    """Of one batch entry; the widths are over all heads."""
    return Arithmetic(queries * keys * (query_width + value_width), SOFTMAX * heads * queries * keys)


def _times(one: Arithmetic, batch: int) -> Arithmetic:
    return Arithmetic(one.macs * batch, one.other * batch)


def standard(call: Call) -> Arithmetic:
    """Of [batch, heads, length, size], or of [batch, length, heads x size]."""
    query, key, value = call.shape(0), call.shape(1), call.shape(2)
    past = call.axis(4, 2) if call.has(4) else 0
    if len(query) == 4:
        batch, heads, queries, size = query
        return _times(_of(queries, key[2] + past, heads * size, heads * value[3], heads), batch)
    if len(query) != 3 or len(value) != 3:
        raise Unknown(f"its query has {len(query)} dimensions; 3 or 4 are supported")
    batch, queries, width = query
    heads, of_values = max(1, call.whole("q_num_heads", 1)), max(1, call.whole("kv_num_heads", 1))
    return _times(_of(queries, key[1] + past, width, value[2] // of_values * heads, heads), batch)


def multi_head(call: Call) -> Arithmetic:
    """ONNX Runtime's; keys may come with heads apart, or all three packed as [batch, length, heads, 3, size]."""
    query = call.shape(0)
    batch, queries = query[:2]
    heads = max(1, call.whole("num_heads", 1))
    past = call.axis(6, 2) if call.has(6) else 0
    if len(query) == 5:
        width = query[2] * query[4]
        return _times(_of(queries, queries + past, width, width, heads), batch)
    key = call.shape(1)
    value_width = call.output().known_shape()[-1]
    keys = (key[2] if len(key) == 4 else key[1]) + past
    return _times(_of(queries, keys, prod(query[2:]), value_width, heads), batch)


def grouped(call: Call) -> Arithmetic:
    """The cache that it writes is as long as all keys; where it has room for more, for as many as it has room."""
    out = call.output().known_shape()
    queries = out[-2]
    present = call.outputs[1] if len(call.outputs) > 1 else None
    if present is not None and present.shape is not None and len(present.shape) == 4:
        keys = present.shape[2]
    else:
        keys = queries + (call.axis(3, 2) if call.has(3) else 0)
    heads = max(1, call.whole("num_heads", 1))
    return _times(_of(queries, keys, out[-1], out[-1], heads), prod(out[:-2]))


def with_projection(call: Call) -> Arithmetic:
    """ONNX Runtime's first form: the products that make queries, keys and values are part of it."""
    batch, queries, width = call.shape(0)
    columns, value_width = call.axis(1, -1), call.output().known_shape()[-1]
    place = 8 if call.operator == "QAttention" else 4
    past = call.axis(place, -2) if call.has(place) else 0
    own = _of(
        queries,
        queries + past,
        max(0, columns - value_width) // 2,
        value_width,
        max(1, call.whole("num_heads", 1)),
    )
    return _times(Arithmetic(own.macs + queries * width * columns, own.other), batch)


def linear(call: Call) -> Arithmetic:
    """Each step puts an outer product of key and value into a state and reads it with the query."""
    batch, steps, width = call.shape(0)
    value_size = call.axis(2, -1) // max(1, call.whole("kv_num_heads", 1))
    written = call.axis(1, -1) * value_size
    read = width * value_size
    rule = call.text("update_rule", "linear")
    # The delta rule first reads what the state already says of the key.
    corrected = written if "delta" in rule else 0
    decayed = written if call.has(4) else 0
    return Arithmetic(batch * steps * (written + read + corrected), batch * steps * decayed)


def rotary(call: Call) -> Arithmetic:
    """Two products and a sum for each element."""
    return Arithmetic(0, 3 * call.given())


RULES = {
    **dict.fromkeys(("Attention", "FlexAttention"), standard),
    "MultiHeadAttention": multi_head,
    "GroupQueryAttention": grouped,
    "QAttention": with_projection,
    "LinearAttention": linear,
    "RotaryEmbedding": rotary,
}
OF_MICROSOFT = {"Attention": with_projection}
"""Where an operator of ONNX's name is another one there."""
