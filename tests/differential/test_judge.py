"""The judge of random graphs: what rounding explains is no difference, and all else is."""

import numpy as np
import onnx
import pytest

from tests.differential.check import Sample
from tests.differential.interpreter import program

X = np.random.default_rng(3).standard_normal((4, 5)).astype(np.float32)


def sample(body, x=X, outputs="float[a,b] y"):
    text = f'<ir_version: 8, opset_import: ["" : 17]> g (float[4,5] x) => ({outputs}) {{ {body} }}'
    numbers = program(onnx.parser.parse_model(text).graph, 17)
    return Sample("x", 0, {"x": x}, numbers), numbers.run({"x": x})


@pytest.mark.parametrize(("body", "x", "change"), [
    ("y = Exp(x)", X, lambda y: y * np.float32(1 + 1e-6)),
    # What is left of two sums that cancel out is nothing but rounding.
    ("s = ReduceSum(x) a = Add(x, s) y = Sub(a, s)", X * 1e-6 + 1000, lambda y: y + np.float32(2e-3)),
    ("s = ReduceMean <axes = [1]> (x) d = Sub(x, s) y = Sign(d)", np.ones((4, 5), np.float32), lambda y: y + 1),
    ("y = Relu(x)", X, lambda y: y * np.float32(-1) * np.float32(-1)),
])  # fmt: skip
def test_rounding_is_no_difference(body, x, change):
    one, was = sample(body, x)
    assert one.difference(was, {"y": change(was["y"]).astype(np.float32)}, "reference") is None


@pytest.mark.parametrize(("body", "x", "change"), [
    ("y = Exp(x)", X, lambda y: y * np.float32(1 + 1e-4)),
    ("y = Relu(x)", X, lambda y: y + np.float32(1e-6)),
    ("a = Abs(x) y = Log(a)", X * 0, lambda y: np.full_like(y, -100)),
    ("y = Sign(x)", X, lambda y: -y),
    ("y = Mul(x, x)", X * 1e-12, lambda y: y + np.float32(1e-26)),
    ("y = Exp(x)", X, lambda y: y.astype(np.float64)),
    ("y = Exp(x)", X, lambda y: y[:1]),
])  # fmt: skip
def test_more_than_rounding_is_one(body, x, change):
    one, was = sample(body, x)
    assert one.difference(was, {"y": change(was["y"])}, "reference") is not None


def test_ties_of_computed_numbers_may_be_broken_either_way():
    body, outputs = "e = Exp(x) p = ArgMax <axis = 1, keepdims = 1> (e) y = Identity(p)", "int64[a,b] y"
    one, was = sample(body, np.ones((4, 5), np.float32), outputs)
    assert one.difference(was, {"y": was["y"] + 1}, "reference") is None
    one, was = sample(body, X, outputs)
    assert one.difference(was, {"y": (was["y"] + 1) % 5}, "reference") is not None


@pytest.mark.parametrize(("now", "differs"), [(1e38, False), (-1e38, True), (1e30, True), (np.nan, True)])
def test_factors_in_another_order_may_overflow_or_not(now, differs):
    """Only close to the largest number, and with the same sign."""
    one, was = sample("a = Abs(x) y = Mul(a, a)", np.full((4, 5), 3e19, np.float32))
    assert np.isposinf(was["y"]).all()
    said = one.difference(was, {"y": np.full_like(was["y"], now)}, "reference")
    assert (said is not None) == differs


def test_a_shape_counts_only_where_the_reference_has_it_too():
    one, was = sample("y = Exp(x)")
    narrow, wide = was["y"][:2], was["y"][:3]
    assert one.difference(was, {"y": narrow}, "ONNX Runtime") is not None
    assert one.difference({"y": wide}, {"y": narrow}, "ONNX Runtime") is None


def test_the_largest_of_numbers_and_nan_may_be_either():
    x = np.where(np.eye(4, 5, dtype=bool), np.float32(np.nan), X)
    one, was = sample("y = ReduceMax <axes = [1]> (x)", x)
    assert np.isnan(was["y"]).all()
    assert one.difference(was, {"y": np.nanmax(x, axis=1, keepdims=True)}, "ONNX Runtime") is None
