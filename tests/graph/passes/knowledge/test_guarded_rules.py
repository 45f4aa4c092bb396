"""What onnxscript's rules take for granted is asked: each of these models was computed otherwise before."""

from itertools import product

import numpy as np
import pytest

from edgeopt.graph.passes.algebra.rewrite_patterns import PASS
from edgeopt.graph.passes.base import PassContext


def test_a_product_of_rows_that_were_cut_otherwise_stays(make_model, apply_pass, kinds, shaped):
    text = """g (float[4,1,1] a, float[4,1,1] b) => (float y) {
        p = Reshape(a, square)  q = Reshape(b, square)  m = MatMul(p, q)  y = Reshape(m, back) }"""
    model = shaped(make_model(text, square=np.int64([2, 2]), back=np.int64([4, 1, 1])))
    a, b = (np.float32(np.random.default_rng(k).standard_normal((4, 1, 1))) for k in (1, 2))
    assert kinds(apply_pass(PASS, model, a=a, b=b).model).count("Reshape") == 3


PRODUCTS = (
    ((2, 3, 4), (2, 4, 5), (2, 3, 4), (2, 4, 5), (2, 3, 5)),
    ((2, 3, 4, 6), (2, 3, 6, 5), (6, 4, 6), (6, 6, 5), (2, 3, 4, 5)),
    ((2, 3, 4), (4, 5), (6, 4), (4, 5), (2, 3, 5)),
)


@pytest.mark.parametrize("shapes", PRODUCTS)
def test_a_product_that_broadcasts_by_itself_needs_no_reshapes(make_model, apply_pass, kinds, shaped, shapes):
    a, b, to_a, to_b, back = shapes
    sizes = [",".join(map(str, shape)) for shape in (a, b)]
    text = f"""g (float[{sizes[0]}] a, float[{sizes[1]}] b) => (float y) {{
        p = Reshape(a, to_a)  q = Reshape(b, to_b)  m = MatMul(p, q)  y = Reshape(m, back) }}"""
    model = shaped(make_model(text, to_a=np.int64(to_a), to_b=np.int64(to_b), back=np.int64(back)))
    feeds = {
        name: np.float32(np.random.default_rng(3).standard_normal(shape)) for name, shape in (("a", a), ("b", b))
    }
    assert kinds(apply_pass(PASS, model, 1e-6, **feeds).model) == ["MatMul"]


FILLED = (
    # (type before, the number, type after as onnx counts them, whether it may be filled at once)
    (np.float32, 3.0, 7, True),
    (np.float32, 3.7, 7, False),
    (np.float32, -0.5, 9, False),
    (np.int64, 300, 2, False),
    (np.int64, -1, 2, False),
    (np.int64, 2**31, 6, False),
    (np.float32, 1e6, 10, False),
    (np.float32, 1e-30, 10, False),
    (np.float32, 0.5, 10, True),
    (np.float32, np.nan, 6, False),
    (np.float32, -0.0, 11, True),
    (np.bool_, True, 1, True),
)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("kind", "number", "to", "at_once"), FILLED)
def test_a_tensor_is_filled_in_another_type_only_with_the_same_number(
    make_model, kinds, shaped, kind, number, to, at_once
):
    import onnx_ir as ir

    model = make_model(f"g (int64[1] s) => (y) {{ a = ConstantOfShape(s)  y = Cast <to = {to}> (a) }}")
    node = next(iter(model.ir.graph))
    node.attributes["value"] = ir.AttrTensor("value", ir.tensor(np.array([number], kind)))
    left = kinds(PASS.apply(shaped(model).ir, PassContext()).model)
    assert left == (["ConstantOfShape"] if at_once else ["ConstantOfShape", "Cast"])


def test_the_number_keeps_its_bits(make_model, apply_pass, shaped):
    import onnx_ir as ir

    model = make_model("g (int64[1] s) => (double[n] y) { a = ConstantOfShape(s)  y = Cast <to = 11> (a) }")
    next(iter(model.ir.graph)).attributes["value"] = ir.AttrTensor("value", ir.tensor(np.float32([-0.0])))
    result = apply_pass(PASS, shaped(model), s=np.int64([2]))
    value = next(iter(result.model.graph)).attributes["value"].as_tensor().numpy()
    assert np.signbit(value).all()
    assert value.dtype == np.float64


def test_what_an_output_is_declared_to_be_makes_no_constant_shape(make_model, results, kinds, shaped):
    """The file declares one row; with two the declared shape does not hold, and the model still runs."""
    text = """g (float[n,6] x) => (float[1,6] y) {
        s = Shape(x)  t = Mul(s, ones)  a = Relu(x)  y = Reshape(a, t) }"""
    model = shaped(make_model(text, ones=np.int64([1, 1])))
    result = PASS.apply(model.ir, PassContext())
    x = np.ones((2, 6), np.float32)
    np.testing.assert_array_equal(results(result.model, x=x)[0], results(model.ir, x=x)[0])


def test_what_an_output_is_declared_to_be_is_no_reason_to_merge_reshapes(make_model, results, shaped):
    text = "g (float[n,6] x) => (float[1,2,3] y) { a = Reshape(x, flat)  y = Reshape(a, rows) }"
    model = shaped(make_model(text, flat=np.int64([-1]), rows=np.int64([-1, 2, 3])))
    result = PASS.apply(model.ir, PassContext())
    x = np.ones((2, 6), np.float32)
    np.testing.assert_array_equal(results(result.model, x=x)[0], results(model.ir, x=x)[0])
    assert result.applied


def test_a_convolution_of_integers_pads_with_its_own_zero(make_model, apply_pass, kinds, shaped, reasons):
    text = """g (uint8[1,1,4,4] x) => (int32[1,1,4,4] y) {
        a = Pad(x, pads, fill)  y = ConvInteger(a, w, point) }"""
    weights = {
        "pads": np.int64([0, 0, 1, 1, 0, 0, 1, 1]),
        "fill": np.uint8(0),
        "w": np.ones((1, 1, 3, 3), np.uint8),
    }
    model = shaped(make_model(text, point=np.uint8(128), **weights))
    x = np.full((1, 1, 4, 4), 130, np.uint8)
    result = apply_pass(PASS, model, x=x)
    assert kinds(result.model) == ["Pad", "ConvInteger"]
    assert "which is not 0" in reasons(result)
    model = shaped(make_model(text, point=np.uint8(0), **weights))
    assert kinds(apply_pass(PASS, model, x=x).model) == ["ConvInteger"]


@pytest.mark.parametrize("fill", [1e-10, 1e-30, np.nan])
def test_a_pad_with_anything_but_zero_stays(make_model, apply_pass, kinds, shaped, fill):
    text = "g (float[1,1,4,4] x) => (float y) { a = Pad(x, pads, fill)  y = Conv(a, w) }"
    weights = {"pads": np.int64([0, 0, 1, 1, 0, 0, 1, 1]), "w": np.ones((1, 1, 3, 3), np.float32)}
    model = shaped(make_model(text, fill=np.float32(fill), **weights))
    assert kinds(apply_pass(PASS, model, x=np.zeros((1, 1, 4, 4), np.float32)).model) == ["Pad", "Conv"]


@pytest.mark.parametrize("number", [1e-10, 1e-30, 1e-45, np.nan])
def test_a_bias_of_almost_nothing_stays(make_model, apply_pass, kinds, shaped, number):
    text = "g (float[1,1,4,4] x) => (float y) { a = Conv(x, w, b)  y = Log(a) }"
    weights = {"w": np.ones((1, 1, 3, 3), np.float32), "b": np.full(1, number, np.float32)}
    model = shaped(make_model(text, **weights))
    result = apply_pass(PASS, model, x=np.zeros((1, 1, 4, 4), np.float32))
    assert len(next(iter(result.model.graph)).inputs) == 3


def test_a_bias_that_may_be_given_stays(make_model, kinds, shaped):
    text = "g (float[1,2] x, float[2] b) => (float y) { y = Gemm(x, w, b) }"
    model = shaped(make_model(text, w=np.ones((2, 2), np.float32), b=np.zeros(2, np.float32)))
    assert len(next(iter(PASS.apply(model.ir, PassContext()).model.graph)).inputs) == 3


def test_integers_that_wrap_round_are_cast_as_they_were(make_model, kinds, shaped, reasons):
    text = "g (int32[2] x) => (uint8[2] y) { a = Cast <to = 11> (x)  y = Cast <to = 2> (a) }"
    result = PASS.apply(shaped(make_model(text)).ir, PassContext())
    assert kinds(result.model) == ["Cast", "Cast"]
    assert "wrap around" in reasons(result)


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
