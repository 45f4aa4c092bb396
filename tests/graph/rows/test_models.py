"""Models that mix rows and models that do not, each run for real: what is decided must be what happens."""

import numpy as np
import onnx.parser
import pytest

import edgeopt
from edgeopt.errors import UsageError
from edgeopt.graph.rows import analysis
from edgeopt.graph.rows.record import RowAnalysis

pytest.importorskip("onnxruntime")

# Each is a graph in onnx's text form; `%w` stands for weights of that shape.
MIXED = {
    "sort by a length": """(float[n, 4] x, int64[n] length) => (float[n, 4] y) <int64[1] one = {1}, int64[1]
        zero = {0}> {
        k = Shape <start = 0, end = 1> (length)
        sorted, order = TopK <axis = 0, largest = 0> (length, k)
        y = Gather <axis = 0> (x, order) }""",
    "top-k over rows": """(float[n, 4] x) => (float[n, 4] y) {
        k = Shape <start = 0, end = 1> (x)
        y, places = TopK <axis = 0> (x, k) }""",
    "batch norm in training": """(float[n, 4] x) => (float[n, 4] y)
        <float[4] s = {1, 1, 1, 1}, float[4] b = {0, 0, 0, 0}> {
        y, mean, var = BatchNormalization <training_mode = 1> (x, s, b, b, s) }""",
    "softmax over rows": "(float[n, 4] x) => (float[n, 4] y) { y = Softmax <axis = 0> (x) }",
    "log-softmax over rows": "(float[n, 4] x) => (float[n, 4] y) { y = LogSoftmax <axis = -2> (x) }",
    "softmax after transpose": """(float[n, 4] x) => (float[n, 4] y) {
        t = Transpose <perm = [1, 0]> (x) s = Softmax <axis = 1> (t) y = Transpose <perm = [1, 0]> (s) }""",
    "cumulative sum": """(float[n, 4] x) => (float[n, 4] y) <int64 zero = {0}> { y = CumSum (x, zero) }""",
    "reshape folds pairs": """(float[n, 4] x) => (float[n, 4] y)
        <int64[2] folded = {1, -1}, int64[2] back = {-1, 4}> {
        f = Reshape (x, folded) s = Softmax <axis = 1> (f) y = Reshape (s, back) }""",
    "reshape interleaves": """(float[n, 4] x) => (float[n, 4] y) <int64[2] wide = {4, -1}, int64[2] back =
        {-1, 4}> {
        f = Reshape (x, wide) t = Transpose <perm = [1, 0]> (f) y = Reshape (t, back) }""",
    "dynamic quantization": """(float[n, 4] x) => (float[n, 4] y) {
        q, s, z = DynamicQuantizeLinear (x) y = DequantizeLinear (q, s, z) }""",
    "dynamic quantization of a product": """(float[n, 4] x) => (float[n, 4] y)
        <int8[4, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}> {
        q, s, z = DynamicQuantizeLinear (x) i = MatMulInteger (q, w, z) f = Cast <to = 1> (i) y = Mul (f, s)
        }""",
    "attention across rows": """(float[n, 4] x) => (float[n, 4] y) {
        t = Transpose <perm = [1, 0]> (x) scores = MatMul (x, t) p = Softmax <axis = -1> (scores)
        y = MatMul (p, x) }""",
    "mean of rows": """(float[n, 4] x) => (float[n, 4] y) {
        m = ReduceMean <axes = [0], keepdims = 1> (x) y = Sub (x, m) }""",
    "max of all": "(float[n, 4] x) => (float[n, 4] y) { m = ReduceMax <keepdims = 0> (x) y = Div (x, m) }",
    "argmax of rows": """(float[n, 4] x) => (float[n, 4] y) {
        m = ArgMax <axis = 0> (x) f = Cast <to = 1> (m) y = Add (x, f) }""",
    "gather by an input": """(float[n, 4] x, int64[n] i) => (float[n, 4] y) <int64 two = {2}> {
        m = Mod (i, two) z = Sub (m, m) y = Gather <axis = 0> (x, z) }""",
    "gather of the first row": """(float[n, 4] x) => (float[n, 4] y) <int64[1] zero = {0}> {
        f = Gather <axis = 0> (x, zero) y = Add (x, f) }""",
    "gather elements over rows": """(float[n, 4] x, int64[n, 4] i) => (float[n, 4] y) {
        z = Sub (i, i) y = GatherElements <axis = 0> (x, z) }""",
    "scatter elements over rows": """(float[n, 4] x, int64[n, 4] i) => (float[n, 4] y) {
        z = Sub (i, i) y = ScatterElements <axis = 0, reduction = "add"> (x, z, x) }""",
    "scatter to the first row": """(float[n, 4] x) => (float[n, 4] y)
        <int64[1, 1] zero = {0}, int64[1] first = {0}, float[1, 4] ones = {1, 1, 1, 1}> {
        y = ScatterND (x, zero, ones) }""",
    "product over the batch": """(float[n, 4] x) => (float[n, 4] y) {
        t = Transpose <perm = [1, 0]> (x) g = MatMul (t, x) y = MatMul (x, g) }""",
    "gemm over the batch": """(float[n, 4] x) => (float[n, 4] y) {
        g = Gemm <transA = 1> (x, x) y = MatMul (x, g) }""",
    "einsum over the batch": """(float[n, 4] x) => (float[n, 4] y) {
        g = Einsum <equation = "ni,nj->ij"> (x, x) y = MatMul (x, g) }""",
    "concatenation of rows": """(float[n, 4] x) => (float[n, 4] y)
        <int64[1] zero = {0}, int64[1] one = {1}, int64[1] end = {9223372036854775807}> {
        a = Slice (x, one, end, zero) b = Slice (x, zero, one, zero) y = Concat <axis = 0> (a, b) }""",
    "reversed rows": """(float[n, 4] x) => (float[n, 4] y)
        <int64[1] zero = {0}, int64[1] last = {-1}, int64[1] first = {-9223372036854775807}> {
        y = Slice (x, last, first, zero, last) }""",
    "diagonal mask": """(float[n, n] x) => (float[n, n] y) { y = EyeLike (x) }""",
    "softmax of the number of rows": """(float[n, 4] x) => (float[n, 4] y) {
        s = Shape (x) f = Cast <to = 1> (s) p = Softmax <axis = -1> (f) m = ReduceMax <keepdims = 0> (p)
        y = Mul (x, m) }""",
    "number of rows expanded": """(float[n, 4] x) => (float[n, 4] y) <int64[1] four = {4}> {
        s = Shape <start = 0, end = 1> (x) f = Cast <to = 1> (s) e = Expand (f, four) y = Mul (x, e) }""",
    "number of rows reshaped": """(float[n, 4] x) => (float[n, 4] y) <int64[2] t = {1, 1}> {
        s = Shape <start = 0, end = 1> (x) f = Cast <to = 1> (s) e = Reshape (f, t) y = Mul (x, e) }""",
    "slice by the number of rows": """(float[n, 4] x) => (float[n] y) <int64[1] z = {0}, int64[1] one = {1}> {
        s = Shape <start = 0, end = 1> (x) c = Slice (x, z, s, one) y = ReduceSum <keepdims = 0> (c, one) }""",
    "places of a max-pool": """(float[n, 1, 4, 4] x) => (float[n, 1, 2, 2] y, int64[n, 1, 2, 2] i) {
        y, i = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x) }""",
    "attention operator over rows": """(float[n, 3, 4] x) => (float[n, 3, 4] y) {
        t = Transpose <perm = [1, 0, 2]> (x) a = Attention <q_num_heads = 2, kv_num_heads = 2> (t, t, t)
        y = Transpose <perm = [1, 0, 2]> (a) }""",
    "multi-head attention over rows": """(float[n, 3, 4] x) => (float[n, 3, 4] y) {
        t = Transpose <perm = [1, 0, 2]> (x) a = com.microsoft.MultiHeadAttention <num_heads = 2> (t, t, t)
        y = Transpose <perm = [1, 0, 2]> (a) }""",
    "position of the row": """(float[n, 4] x) => (float[n, 4] y)
        <int64 none = {0}, int64 step = {1}, int64 at = {0}, int64[1] last = {1}> {
        s = Shape (x) n = Gather (s, at) r = Range (none, n, step) f = Cast <to = 1> (r)
        c = Unsqueeze (f, last) y = Add (x, c) }""",
    "mask by the number of another row": """(float[n, s] x, bool[n, s] mask) => (float[n, s] y)
        <int64 none = {0}, int64 one = {1}, int64[1] at = {1}, int64[1] last = {-1}, float zero = {0}> {
        k = Shape (mask) n = Gather (k, none) s = Gather (k, one) r = Range (none, n, one) c = Range (none, s, one)
        before = Sub (r, one) u = Unsqueeze (before, at) a = Expand (u, k) b = Expand (c, k)
        i = Unsqueeze (a, last) j = Unsqueeze (b, last)
        index = Concat <axis = -1> (i, j) own = GatherND (mask, index) y = Where (own, x, zero) }""",
    "number of rows": """(float[n, 4] x) => (float[n, 4] y) {
        s = Shape <start = 0, end = 1> (x) f = Cast <to = 1> (s) y = Div (x, f) }""",
    "unique rows": """(float[n] x) => (float[n] y) { u, i, inverse, c = Unique <sorted = 1> (x)
        f = Cast <to = 1> (inverse) y = Identity (f) }""",
    "non-zero": """(float[n, 4] x) => (float[n, 4] y) <int64[2] back = {-1, 4}, float none = {0}> {
        z = NonZero (x) f = Cast <to = 1> (z) m = ReduceSum <keepdims = 0> (f) y = Add (x, m) }""",
    "compress": """(float[n, 4] x) => (float[k, 4] y) <float[1] none = {0}, int64[1] one = {1}> {
        m = ReduceSum <keepdims = 0> (x, one) b = Greater (m, none) c = Compress <axis = 0> (x, b)
        y = Concat <axis = 0> (c, x) }""",
    "lstm over rows": """(float[n, 1, 4] x) => (float[n, 1, 1, 2] y)
        <float[1, 8, 4] w = %1.8.4%, float[1, 8, 2] r = %1.8.2%> { y = LSTM <hidden_size = 2> (x, w, r) }""",
    "gru over rows": """(float[n, 4] x) => (float[n, 1, 1, 2] y)
        <float[1, 6, 4] w = %1.6.4%, float[1, 6, 2] r = %1.6.2%, int64[1] one = {1}> {
        s = Unsqueeze (x, one) y = GRU <hidden_size = 2> (s, w, r) }""",
    "layer norm from the first axis": """(float[n, 4] x) => (float[n, 4] y) <float[1] one = {1}> {
        m = ReduceMean <axes = [0, 1], keepdims = 1> (x) d = Sub (x, m) q = Mul (d, d)
        v = ReduceMean <axes = [0, 1], keepdims = 1> (q) s = Sqrt (v) y = Div (d, s) }""",
    "scan carries from row to row": """(float[n, 4] x) => (float[n, 4] y) <float[4] start = {0, 0, 0, 0}> {
        last, y = Scan <num_scan_inputs = 1, body = body (float[4] state, float[4] row)
            => (float[4] next, float[4] out) { next = Add (state, row) out = Identity (next) }> (start, x) }""",
    "loop over rows": """(float[n, 4] x) => (float[n, 4] y) <int64 at = {0}, float[4] start = {0, 0, 0, 0},
        bool go = {1}> {
        s = Shape (x) count = Gather (s, at)
        last, y = Loop <body = body (int64 i, bool c, float[4] state)
            => (bool more, float[4] next, float[4] out) {
            more = Identity (c) row = Gather <axis = 0> (x, i) next = Add (state, row) out = Identity (next) }>
            (count, go, start) }""",
    "branch by all rows": """(float[n, 4] x) => (float[n, 4] y) <float none = {0}> {
        m = ReduceSum <keepdims = 0> (x) b = Greater (m, none)
        y = If (b) <then_branch = a () => (float[n, 4] p) { p = Identity (x) },
                    else_branch = b () => (float[n, 4] q) { q = Neg (x) }> }""",
    "a leak of 2 %": """(float[n, 4] x) => (float[n, 4] y) <float small = {0.02}> {
        m = ReduceSum <keepdims = 0> (x) s = Mul (m, small) y = Add (x, s) }""",
    "boxes of all rows": """(float[n, 4] x) => (float[n, 4] y) <int64[3] boxed = {1, -1, 4}, int64[3] scored
        = {1, 1, -1},
        int64[1] one = {1}, int64[1] most = {10}> {
        b = Reshape (x, boxed) s = ReduceSum <keepdims = 0> (x, one) t = Reshape (s, scored)
        k = NonMaxSuppression (b, t, most) f = Cast <to = 1> (k) m = ReduceMax <keepdims = 0> (f) y = Add (x,
        m) }""",
    "triangle over rows": """(float[n, 4] x) => (float[n, 4] y) { y = Trilu <upper = 0> (x) }""",
}

INDEPENDENT = {
    "mlp": """(float[n, 4] x) => (float[n, 3] y) <float[4, 8] w = %4.8%, float[8] b = %8%, float[8, 3] v =
        %8.3%> {
        h = Gemm (x, w, b) r = Relu (h) y = MatMul (r, v) }""",
    "cnn": """(float[n, 2, 6, 6] x) => (float[n, 5] y)
        <float[3, 2, 3, 3] w = %3.2.3.3%, float[12, 5] v = %12.5%> {
        c = Conv <kernel_shape = [3, 3]> (x, w) p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (c)
        f = Flatten (p) y = MatMul (f, v) }""",
    "cnn with a fixed reshape": """(float[n, 2, 6, 6] x) => (float[n, 12] y)
        <float[3, 2, 3, 3] w = %3.2.3.3%, int64[2] flat = {-1, 12}> {
        c = Conv <kernel_shape = [3, 3]> (x, w) p = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (c)
        y = Reshape (p, flat) }""",
    "lstm with transposes": """(float[n, 3, 4] x) => (float[n, 3, 1, 2] y)
        <float[1, 8, 4] w = %1.8.4%, float[1, 8, 2] r = %1.8.2%> {
        t = Transpose <perm = [1, 0, 2]> (x) h = LSTM <hidden_size = 2> (t, w, r)
        y = Transpose <perm = [2, 0, 1, 3]> (h) }""",
    "gru with a first state": """(float[n, 3, 4] x, float[n, 1, 2] state) => (float[n, 1, 2] y)
        <float[1, 6, 4] w = %1.6.4%, float[1, 6, 2] r = %1.6.2%> {
        t = Transpose <perm = [1, 0, 2]> (x) s = Transpose <perm = [1, 0, 2]> (state)
        h, l = GRU <hidden_size = 2> (t, w, r, , , s) y = Transpose <perm = [1, 0, 2]> (l) }""",
    "rnn whose zeros are made": """(float[n, 3, 4] x) => (float[n, 1, 2] y)
        <float[1, 2, 4] w = %1.2.4%, float[1, 2, 2] r = %1.2.2%, int64[1] one = {1}, int64[1] two = {2}> {
        t = Transpose <perm = [1, 0, 2]> (x) c = Shape <start = 0, end = 1> (x) d = Concat <axis = 0> (one,
        c, two)
        z = ConstantOfShape (d) h, l = RNN <hidden_size = 2> (t, w, r, , , z) y = Transpose <perm = [1, 0,
        2]> (l) }""",
    "layer norm": """(float[n, 3, 4] x) => (float[n, 3, 4] y) <float[4] s = %4%, float[4] b = %4%> {
        y = LayerNormalization <axis = -1> (x, s, b) }""",
    "layer norm from its parts": """(float[n, 3, 4] x) => (float[n, 3, 4] y) {
        m = ReduceMean <axes = [-1]> (x) d = Sub (x, m) q = Mul (d, d) v = ReduceMean <axes = [-1]> (q)
        s = Sqrt (v) y = Div (d, s) }""",
    "attention within a row": """(float[n, s, 4] x) => (float[n, s, 4] y) <float[4, 4] w = %4.4%> {
        q = MatMul (x, w) k = Transpose <perm = [0, 2, 1]> (x) a = MatMul (q, k) p = Softmax <axis = -1> (a)
        y = MatMul (p, x) }""",
    "attention operator": """(float[n, s, 4] x) => (float[n, s, 4] y) {
        y = Attention <q_num_heads = 2, kv_num_heads = 2> (x, x, x) }""",
    "multi-head attention": """(float[n, s, 4] x) => (float[n, s, 4] y) {
        y = com.microsoft.MultiHeadAttention <num_heads = 2> (x, x, x) }""",
    "skip normalization": """(float[n, s, 4] x, float[n, s, 4] z) => (float[n, s, 4] y) <float[4] w = %4%> {
        y = com.microsoft.SkipLayerNormalization (x, z, w) }""",
    "attention with heads": """(float[n, s, 4] x) => (float[n, s, 4] y)
        <int64[4] heads = {0, 0, 2, 2}, int64[3] joined = {0, 0, -1}> {
        h = Reshape (x, heads) q = Transpose <perm = [0, 2, 1, 3]> (h) k = Transpose <perm = [0, 2, 3, 1]> (h)
        a = MatMul (q, k) p = Softmax <axis = -1> (a) o = MatMul (p, q) t = Transpose <perm = [0, 2, 1, 3]> (o)
        y = Reshape (t, joined) }""",
    "softmax on the last axis": "(float[n, 4] x) => (float[n, 4] y) { y = Softmax <axis = -1> (x) }",
    "sum of a row": """(float[n, 4] x) => (float[n] y) <int64[1] one = {1}> {
        y = ReduceSum <keepdims = 0> (x, one) }""",
    "argmax of a row": "(float[n, 4] x) => (int64[n, 1] y) { y = ArgMax <axis = 1> (x) }",
    "reshape with 0": """(float[n, 4] x) => (float[n, 2, 2] y) <int64[3] s = {0, 2, 2}> { y = Reshape (x, s)
        }""",
    "reshape with -1": """(float[n, 4] x) => (float[n, 2, 2] y) <int64[3] s = {-1, 2, 2}> { y = Reshape (x,
        s) }""",
    "fold and back": """(float[n, s, 4] x) => (float[n, s, 4] y) <float[4, 4] w = %4.4%, float[4] b = %4%,
        int64[2] flat = {-1, 4}> {
        k = Shape (x) f = Reshape (x, flat) g = Gemm (f, w, b) y = Reshape (g, k) }""",
    "flatten": "(float[n, 2, 3] x) => (float[n, 6] y) { y = Flatten <axis = 1> (x) }",
    "gather on the second axis": """(float[n, 4] x) => (float[n, 2] y) <int64[2] i = {3, 1}> {
        y = Gather <axis = 1> (x, i) }""",
    "gather elements in a row": """(float[n, 4] x, int64[n, 4] i) => (float[n, 4] y) <int64 four = {4}> {
        m = Mod (i, four) y = GatherElements <axis = 1> (x, m) }""",
    "embedding": """(int64[n, s] i) => (float[n, s, 3] y) <float[5, 3] table = %5.3%, int64 five = {5}> {
        m = Mod (i, five) y = Gather <axis = 0> (table, m) }""",
    "embedding with positions": """(int64[n, s] i) => (float[n, s, 3] y) <float[5, 3] table = %5.3%, float[9,
        3] places = %9.3%,
        int64 none = {0}, int64 one = {1}, int64 five = {5}> {
        k = Shape (i) s = Gather (k, one) r = Range (none, s, one) p = Gather (places, r) m = Mod (i, five)
        e = Gather (table, m) y = Add (e, p) }""",
    "top-k in a row": """(float[n, 4] x) => (float[n, 2] y, int64[n, 2] i) <int64[1] two = {2}> {
        y, i = TopK <axis = -1> (x, two) }""",
    "reshape by the shape": """(float[n, 2, 3] x) => (float[n, 6] y)
        <int64 at = {0}, int64[1] zero = {0}, int64[1] rest = {-1}> {
        k = Shape (x) n = Gather (k, at) u = Unsqueeze (n, zero) s = Concat <axis = 0> (u, rest)
        y = Reshape (x, s) }""",
    "expand by the shape": """(float[n, 4] x) => (float[n, 5] y) <float[1, 1] token = {2}, int64[1] one = {1}> {
        n = Shape <start = 0, end = 1> (x) s = Concat <axis = 0> (n, one) t = Expand (token, s)
        y = Concat <axis = 1> (t, x) }""",
    "expand with a choice": """(float[n, 4] x) => (float[n, 5] y) <float[1, 1] token = {2}, int64[1] one = {1},
        int64[2] ones = {1, 1}, int64[2] minus = {-1, -1}> {
        n = Shape <start = 0, end = 1> (x) s = Concat <axis = 0> (n, one) e = Equal (s, minus) w = Where (e,
        ones, s)
        t = Expand (token, w) y = Concat <axis = 1> (t, x) }""",
    "transposed convolution": """(float[n, 2, 4, 4] x) => (float[n, 3, a, b] y) <float[2, 3, 3, 3] w =
        %2.3.3.3%> {
        y = ConvTranspose <kernel_shape = [3, 3]> (x, w) }""",
    "resize": """(float[n, 2, 4, 4] x) => (float[n, 2, a, b] y) <float[4] s = {1, 1, 2, 2}> {
        y = Resize <mode = "nearest"> (x, , s) }""",
    "instance norm": """(float[n, 2, 4, 4] x) => (float[n, 2, 4, 4] y) <float[2] s = %2%, float[2] b = %2%> {
        y = InstanceNormalization (x, s, b) }""",
    "batch norm in inference": """(float[n, 4] x) => (float[n, 4] y)
        <float[4] s = {1, 2, 3, 4}, float[4] b = {0, 1, 0, 1}> { y = BatchNormalization (x, s, b, b, s) }""",
    "group norm by reshapes": """(float[n, 4, 3] x) => (float[n, 4, 3] y)
        <int64[3] g = {0, 2, -1}, float[2] s = {1, 1}, float[2] b = {0, 0}> {
        k = Shape (x) f = Reshape (x, g) m = InstanceNormalization (f, s, b) y = Reshape (m, k) }""",
    "global pooling": """(float[n, 2, 4, 4] x) => (float[n, 2] y) <int64[2] axes = {2, 3}> {
        p = GlobalAveragePool (x) y = Squeeze (p, axes) }""",
    "cumulative sum in a row": """(float[n, 4] x) => (float[n, 4] y) <int64 one = {1}> { y = CumSum (x, one)
        }""",
    "static quantization": """(float[n, 4] x) => (float[n, 4] y) <float s = {0.02}, uint8 z = {128}> {
        q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z) }""",
    "split and join": """(float[n, 4] x) => (float[n, 4] y) {
        a, b = Split <axis = 1> (x) y = Concat <axis = 1> (b, a) }""",
    "slice in a row": """(float[n, 4] x) => (float[n, 2] y) <int64[1] one = {1}, int64[1] three = {3}> {
        y = Slice (x, one, three, one) }""",
    "padding in a row": """(float[n, 4] x) => (float[n, 6] y) <int64[4] p = {0, 1, 0, 1}> { y = Pad (x, p) }""",
    "einsum in a row": """(float[n, 3, 4] x) => (float[n, 3, 3] y) { y = Einsum <equation = "nid,njd->nij">
        (x, x) }""",
    "scan over steps": """(float[n, 3, 4] x) => (float[n, 4] y) <float[1, 1] none = {0}> {
        t = Transpose <perm = [1, 0, 2]> (x) z = ReduceSum <keepdims = 0> (t, first) s = Mul (z, none)
        y, all = Scan <num_scan_inputs = 1, body = body (float[n, 4] state, float[n, 4] step)
            => (float[n, 4] next, float[n, 4] out) { a = Add (state, step) next = Tanh (a) out = Identity
        (next) }>
            (s, t) }""".replace("<float[1, 1] none = {0}>", "<float[1, 1] none = {0}, int64[1] first = {0}>"),
    "mask by the number of each row": """(float[n, s] x, bool[n, s] mask) => (float[n, s] y)
        <int64 none = {0}, int64 one = {1}, int64[1] at = {1}, int64[1] last = {-1}, float zero = {0}> {
        k = Shape (mask) n = Gather (k, none) s = Gather (k, one) r = Range (none, n, one) c = Range (none, s, one)
        u = Unsqueeze (r, at) a = Expand (u, k) b = Expand (c, k) i = Unsqueeze (a, last) j = Unsqueeze (b, last)
        index = Concat <axis = -1> (i, j) own = GatherND (mask, index) y = Where (own, x, zero) }""",
    "one-hot": """(int64[n] i) => (float[n, 4] y) <int64 four = {4}, float[2] v = {0, 1}> {
        m = Mod (i, four) y = OneHot (m, four, v) }""",
    "upper triangle in a row": """(float[n, 3, 3] x) => (float[n, 3, 3] y) { y = Trilu (x) }""",
}


def model_of(text, folder):
    chance = np.random.default_rng(3)
    while "%" in text:
        before, dims, after = text.split("%", 2)
        count = int(np.prod([int(each) for each in dims.split(".")]))
        values = ", ".join(f"{value:.3f}" for value in chance.standard_normal(count))
        text = f"{before}{{{values}}}{after}"
    path = folder / "m.onnx"
    opset = 23 if " Attention " in text else 17
    domains = f'"" : {opset}, "com.microsoft" : 1'
    onnx.save(onnx.parser.parse_model(f"<ir_version: 10, opset_import: [{domains}]> g {text}"), path)
    return path


def rows_for(session, count):
    """Different for each row: loud and quiet, with small integers in falling order."""
    chance = np.random.default_rng(5)
    made = {}
    for info in session.inputs:
        shape = [count, *(each if isinstance(each, int) else 3 for each in info.shape[1:])]
        if info.dtype == "bool":
            made[info.name] = chance.random(shape) < 0.5
        elif info.dtype == "int64":
            steps = np.arange(count, 0, -1).reshape([count] + [1] * (len(shape) - 1))
            made[info.name] = (np.zeros(shape, np.int64) + steps) * 3 % 7
        else:
            loud = np.geomspace(0.1, 10, count).reshape([count] + [1] * (len(shape) - 1))
            made[info.name] = (chance.standard_normal(shape) * loud).astype(np.float32)
    return made


def rows_are_kept(session, count=4):
    """Whether a batch gives each row what it gets alone: found by running it."""
    whole = rows_for(session, count)
    if any(len(set(info.shape)) < len(info.shape) for info in session.inputs if "n" in info.shape[1:]):
        return False  # one size for two axes: a batch is no longer a sample
    together = session.run(whole)
    for row in range(count):
        alone = session.run({name: array[row : row + 1] for name, array in whole.items()})
        for name, array in alone.items():
            got = together[name]
            if len(got) != count or array.shape != got[row : row + 1].shape:
                return False
            if not np.allclose(got[row : row + 1], array, rtol=1e-4, atol=1e-5):
                return False
    return True


@pytest.mark.parametrize("name", MIXED)
def test_model_that_mixes_rows_is_refused(name, tmp_path):
    path = model_of(MIXED[name], tmp_path)
    with edgeopt.load(path, "onnxruntime-cpu") as session:
        assert not rows_are_kept(session)
    with pytest.raises(UsageError, match="cannot run samples in batches"):
        edgeopt.load(path, "onnxruntime-cpu", batching=edgeopt.Batching())


@pytest.mark.parametrize("name", INDEPENDENT)
def test_model_that_keeps_rows_apart_is_batched(name, tmp_path):
    path = model_of(INDEPENDENT[name], tmp_path)
    with edgeopt.load(path, "onnxruntime-cpu", batching=edgeopt.Batching()) as session:
        assert rows_are_kept(session)
    assert analysis.analyze_rows(path).rows == "independent"


@pytest.fixture
def no_graph(monkeypatch):
    """As of a model without a graph that could be read: only samples decide."""
    monkeypatch.setattr(analysis, "analyze_rows", lambda _: RowAnalysis("unknown"))


@pytest.mark.usefixtures("no_graph")
@pytest.mark.parametrize("name", MIXED)
def test_model_without_a_graph_that_mixes_rows_is_refused_by_samples(name, tmp_path):
    with pytest.raises(UsageError, match="cannot run samples in batches"):
        edgeopt.load(model_of(MIXED[name], tmp_path), "onnxruntime-cpu", batching=edgeopt.Batching())


@pytest.mark.usefixtures("no_graph")
@pytest.mark.parametrize("name", INDEPENDENT)
def test_model_without_a_graph_that_keeps_rows_apart_is_batched(name, tmp_path):
    edgeopt.load(model_of(INDEPENDENT[name], tmp_path), "onnxruntime-cpu", batching=edgeopt.Batching()).close()
