"""Limits one after another become one that gives the same for every number, however they lie."""

from itertools import product

import numpy as np
import pytest

from edgeopt.graph.passes.algebra.rewrite_patterns import PASS
from edgeopt.graph.passes.base import PassContext

X = np.float32([-np.inf, -7, -1, -0.0, 0, 1e-40, 0.5, 1, 3, 5.5, 7, np.inf, np.nan])
PLACES = (None, 0.0, 1.0, 5.0)


def clip(source, name, lowest, highest, weights):
    weights |= {f"{name}{end}": np.float32(n) for end, n in (("lo", lowest), ("hi", highest)) if n is not None}
    names = [f"{name}{end}" if n is not None else '""' for end, n in (("lo", lowest), ("hi", highest))]
    return f"{name} = Clip({', '.join([source, *names])})"


def test_two_clips_wherever_their_limits_lie(make_model, results, kinds, shaped):
    """All pairs of limits in one graph: after Clip(0, 1) and Clip(5, ...) all is 5, not 1."""
    nodes, weights, outputs = [], {}, []
    for number, ends in enumerate(product(PLACES, repeat=4)):
        nodes.append(clip("x", f"a{number}", *ends[:2], weights))
        nodes.append(clip(f"a{number}", f"b{number}", *ends[2:], weights))
        outputs.append(f"float[13] b{number}")
    model = shaped(make_model(f"g (float[13] x) => ({', '.join(outputs)}) {{ {' '.join(nodes)} }}", **weights))
    result = PASS.apply(model.ir, PassContext()).model
    assert len(kinds(result)) == len(outputs)
    for wanted, got in zip(results(model.ir, x=X), results(result, x=X), strict=True):
        np.testing.assert_array_equal(got, wanted)


PAIRS = (
    # (nodes from x to y, the operators left)
    ("a = Relu(x)  y = Clip(a, m2, m1)", ["Clip"]),
    ("a = Clip(x, m2, m1)  y = Relu(a)", ["Clip"]),
    ("a = Clip(x, one, two)  y = Relu(a)", ["Clip"]),
    ("a = Clip(x, \"\", m1)  y = Relu(a)", ["Clip"]),
    ("a = Relu(x)  y = Relu(a)", ["Relu"]),
    ("a = Min(x, one)  y = Max(a, two)", ["Clip"]),
    ("a = Max(x, two)  y = Min(a, one)", ["Clip"]),
    ("a = Max(x, m1, one)  y = Min(a, two)", ["Clip"]),
    ("a = Min(x, one)  y = Min(a, two)", ["Min"]),
    ("a = Max(x, each)  y = Max(a, two)", ["Max"]),
    ("a = Max(x, each)  y = Min(a, two)", ["Max", "Min"]),
    ("a = Max(x, nothing)  y = Min(a, two)", ["Max", "Min"]),
    ("a = Max(x, flat)  y = Min(a, two)", ["Max", "Min"]),
)  # fmt: skip
NUMBERS = {"m2": -2.0, "m1": -1.0, "one": 1.0, "two": 2.0, "nothing": np.nan}
LARGER = {"each": np.arange(13), "flat": np.ones((1, 1))}


@pytest.mark.parametrize(("nodes", "left"), PAIRS)
def test_other_limits(make_model, results, kinds, shaped, nodes, left):
    weights = {k: np.float32(v) for k, v in (NUMBERS | LARGER).items() if f" {k}" in nodes}
    model = shaped(make_model(f"g (float[13] x) => (float y) {{ {nodes} }}", **weights))
    result = PASS.apply(model.ir, PassContext()).model
    assert kinds(result) == left
    np.testing.assert_array_equal(results(result, x=X)[0], results(model.ir, x=X)[0])


def test_limits_that_an_input_may_replace_stay(make_model, kinds, reasons, shaped):
    text = "g (float[3] x, float top) => (float y) { a = Max(x, zero)  y = Min(a, top) }"
    result = PASS.apply(shaped(make_model(text, zero=np.float32(0), top=np.float32(6))).ir, PassContext())
    assert kinds(result.model) == ["Max", "Min"]
    assert "top is not a constant" in reasons(result)


def test_whole_numbers(make_model, apply_pass, kinds, shaped):
    text = "g (int32[4] x) => (int32 y) { a = Max(x, low)  y = Min(a, high) }"
    model = shaped(make_model(text, low=np.int32(-(2**31)), high=np.int32(2**31 - 1)))
    result = apply_pass(PASS, model, x=np.int32([-(2**31), -1, 0, 2**31 - 1]))
    assert kinds(result.model) == ["Clip"]


def test_limits_that_would_grow_as_a_row_and_a_column_stay(make_model, kinds, shaped):
    text = "g (float[40,40] x) => (float y) { a = Min(x, row)  y = Min(a, column) }"
    model = shaped(make_model(text, row=np.ones((1, 40), np.float32), column=np.ones((40, 1), np.float32)))
    assert kinds(PASS.apply(model.ir, PassContext()).model) == ["Min", "Min"]
