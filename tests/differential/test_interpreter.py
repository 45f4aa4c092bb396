"""The reference where onnx's own is wrong, and what rounding may do to numbers too large for their type."""

import numpy as np
import pytest
from onnx import parser

from tests.differential.interpreter import Rounding, program
from tests.differential.runtimes import onnxruntime, reference

X = np.random.default_rng(3).standard_normal((2, 4, 6, 5)).astype(np.float32)


def parsed(body):
    head = '<ir_version: 8, opset_import: ["" : 13]> g (float[2,4,6,5] x) => (float[a,b,c,d] y)'
    return parser.parse_model(f"{head} {{ {body} }}")


@pytest.mark.parametrize("more", ["", ", strides = [2, 2]", ", strides = [3, 2], ceil_mode = 1"])
@pytest.mark.parametrize("pads", ["1, 1, 0, 1", "0, 0, 1, 1", "1, 0, 0, 1", "1, 1, 1, 1"])
def test_a_pool_is_padded_as_onnxruntime_does_it(pads, more):
    model = parsed(f"y = MaxPool <kernel_shape = [2, 2], pads = [{pads}]{more}> (x)")
    (was,), (now,) = (answer(model, [{"x": X}]) for answer in (reference, onnxruntime))
    assert np.array_equal(was["y"], now["y"])


def test_what_a_loop_and_a_scan_collect_gets_a_dimension_of_its_own():
    model = parser.parse_model("""<ir_version: 8, opset_import: ["" : 13]> g (int64 n, float[2,3] x)
        => (float[2,3] last, float[M,2,3] rows, float[2] state, float[3,2] sums) <float[2] zero = {0, 0}> {
        last, rows = Loop (n, , x) <body = b (int64 i, bool c, float[2,3] s)
            => (bool d, float[2,3] t, float[2,3] e) {
            d = Identity(c)  t = Neg(s)  e = Abs(t) }>
        state, sums = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1],
            body = k (float[2] before, float[2] one) => (float[2] after, float[2] sum) {
            after = Add(before, one)  sum = Identity(after) }> (zero, x) }""")
    feeds = [{"n": np.array(turns, np.int64), "x": X[0, :2, 0, :3]} for turns in (1, 3)]
    for was, now in zip(reference(model, feeds), onnxruntime(model, feeds), strict=True):
        assert {name: array.shape for name, array in was.items()} == {n: a.shape for n, a in now.items()}
        assert all(np.array_equal(was[name], now[name]) for name in now)


def kinds(body, seeds=40):
    """Which kinds of number the first value has, with so many kinds of rounding errors."""
    model = parsed(body)
    made = program(model.graph, 13)
    found = [made.run({"x": X}, Rounding(np.random.default_rng(seed)))["y"].flat[0] for seed in range(seeds)]
    return {"finite" if np.isfinite(one) else str(one) for one in found}


def test_whether_a_sum_overflows_is_not_sure():
    huge = "c = Constant <value_float = 3e38> ()  h = Add(x, c)"
    mean = "y = ReduceSum <keepdims = 1> (h)"
    assert kinds(f"{huge}  {mean}") == {"finite", "inf", "-inf", "nan"}


def test_what_was_infinite_before_stays_so():
    endless = "c = Constant <value_float = 3e38> ()  d = Mul(c, c)  h = Add(x, d)"
    assert kinds(f"{endless}  y = ReduceSum <keepdims = 1> (h)") == {"inf"}
