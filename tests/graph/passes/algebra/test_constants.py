import numpy as np
import onnx_ir as ir
import pytest

from edgeopt.graph.passes.algebra.constants import CONSTANT_CHAINS, SCALE_INTO_LINEAR
from edgeopt.graph.passes.base import PassContext

X = np.random.default_rng(1).standard_normal((2, 3)).astype(np.float32)
NUMBERS = {name: np.float32(value) for name, value in (("a", 2.5), ("b", -0.75), ("c", 3.0), ("d", 0.5))}


@pytest.mark.parametrize(("text", "left"), [
    ("l = Mul(x, a) y = Div(l, b)", ["Mul"]),
    ("l = Add(a, x) y = Sub(l, b)", ["Add"]),
    ("l = Sub(a, x) y = Sub(b, l)", ["Add"]),
    ("l = Mul(x, a) m = Add(l, b) n = Mul(m, c) y = Add(n, d)", ["Mul", "Add"]),
    ("l = Neg(x) m = Mul(a, l) y = Neg(m)", ["Mul"]),
    ("l = Sub(x, a) m = Div(l, b) y = Neg(m)", ["Mul", "Add"]),
])  # fmt: skip
def test_a_chain_becomes_shorter(make_model, shaped, apply_pass, kinds, text, left):
    model = shaped(make_model(f"g (float[2,3] x) => (float[2,3] y) {{ {text} }}", **NUMBERS))
    result = apply_pass(CONSTANT_CHAINS, model, 1e-5, x=X)
    assert kinds(result.model) == left
    assert [o.name for o in result.model.graph.outputs] == ["y"]
    assert "chains" in result.applied[0].what


def test_constants_by_column(make_model, shaped, apply_pass, kinds):
    text = "g (float[2,3] x) => (float[2,3] y) { l = Mul(x, r) m = Mul(l, s) y = Mul(m, a) }"
    rows = np.float32([[1], [2]]), np.float32([1, 2, 3])
    result = apply_pass(CONSTANT_CHAINS, shaped(make_model(text, r=rows[0], s=rows[1], **NUMBERS)), 1e-5, x=X)
    assert kinds(result.model) == ["Mul"]


def test_in_a_subgraph(make_model, shaped, apply_pass, kinds):
    text = """g (float[2,3] x, bool p) => (float[2,3] y) { y = If (p) <
        then_branch = t () => (float[2,3] u) { l = Mul(x, a) u = Mul(l, b) },
        else_branch = e () => (float[2,3] v) { v = Neg(x) } > }"""
    result = apply_pass(CONSTANT_CHAINS, shaped(make_model(text, **NUMBERS)), 1e-5, x=X, p=np.array(True))
    assert kinds(result.model) == ["If", "Mul", "Neg"]


@pytest.mark.parametrize("text", [
    "y = Mul(x, a)",
    "l = Mul(x, a) y = Add(l, b)",
    "l = Mul(x, a) m = Relu(l) y = Mul(m, b)",
    "l = Div(x, a) y = Div(b, l)",
])  # fmt: skip
def test_what_gets_no_shorter_stays(make_model, shaped, apply_pass, kinds, text):
    model = shaped(make_model(f"g (float[2,3] x) => (float[2,3] y) {{ {text} }}", **NUMBERS))
    result = apply_pass(CONSTANT_CHAINS, model, x=X)
    assert (result.applied, result.refused) == ((), ())
    assert kinds(result.model) == kinds(model.ir)


def test_a_result_that_is_used_elsewhere_ends_the_chain(make_model, shaped, apply_pass, kinds):
    text = "g (float[2,3] x) => (float[2,3] y, float[2,3] l) { l = Mul(x, a) y = Mul(l, b) }"
    result = apply_pass(CONSTANT_CHAINS, shaped(make_model(text, **NUMBERS)), x=X)
    assert kinds(result.model) == ["Mul", "Mul"]


def test_integers_stay(make_model, shaped, apply_pass, kinds):
    text = "g (int64[2] x) => (int64[2] y) { l = Div(x, a) y = Mul(l, b) }"
    model = shaped(make_model(text, a=np.int64(2), b=np.int64(2)))
    assert kinds(apply_pass(CONSTANT_CHAINS, model, x=np.int64([3, 5])).model) == ["Div", "Mul"]


@pytest.mark.parametrize(("shape", "numbers", "reason"), [
    ("float[n,3]", {"a": np.ones((2, 3), np.float32), "b": np.float32(2)}, "'a' may broadcast the tensor"),
    ("float16[2,3]", {"a": np.float16(1e4), "b": np.float16(1e4)}, "do not fit into float16"),
])  # fmt: skip
def test_a_refusal_names_the_nodes(make_model, shaped, shape, numbers, reason, reasons):
    kind = shape.split("[")[0]
    text = f"g ({shape} x) => ({kind}[2,3] y) {{ l = Mul(x, a) y = Mul(l, b) }}"
    model = shaped(make_model(text, **numbers))
    result = CONSTANT_CHAINS.apply(model.ir, PassContext())
    assert not result.applied
    assert reason in reasons(result)
    assert result.refused[0].nodes == ("Mul 'l'", "Mul 'y'")
    assert isinstance(result.model, ir.Model)


def test_a_single_number_stays_one(make_model, shaped, apply_pass, kinds):
    """A tensor without dimensions must not get one from the merged constants."""
    model = shaped(make_model("g (float x) => (float y) { l = Mul(x, a) m = Add(l, b) y = Neg(m) }", **NUMBERS))
    result = apply_pass(CONSTANT_CHAINS, model, 1e-5, x=np.float32(3))
    assert kinds(result.model) == ["Mul", "Add"]
    assert [w.shape.numpy() for w in result.model.graph[0].inputs[1:]] == [()]


def test_a_column_and_a_row_do_not_become_a_matrix(make_model, shaped, apply_pass, reasons):
    text = "g (float[64,64] x) => (float[64,64] y) { l = Mul(x, c) y = Mul(l, r) }"
    numbers = {"c": np.full((64, 1), 2, np.float32), "r": np.full((1, 64), 3, np.float32)}
    result = apply_pass(CONSTANT_CHAINS, shaped(make_model(text, **numbers)), x=np.ones((64, 64), np.float32))
    assert not result.applied
    assert "larger than those of the chain" in reasons(result)


@pytest.mark.parametrize("text", [
    "l = Sub(x, million) m = Mul(l, a) n = Div(m, b) y = Add(n, d)",
    "l = Add(x, million) m = Sub(l, million) y = Mul(m, a)",
])  # fmt: skip
def test_a_difference_to_a_large_number_stays_exact(make_model, shaped, apply_pass, reasons, text):
    """Merged, the small rest would be rounded to steps of the large number; or no longer, where that was meant."""
    model = make_model(f"g (float[2,3] x) => (float[2,3] y) {{ {text} }}", million=np.float32(1e6), **NUMBERS)
    result = apply_pass(CONSTANT_CHAINS, shaped(model), x=X + 1e6)
    assert not result.applied
    assert "would round differently" in reasons(result)


@pytest.mark.parametrize(("text", "number"), [
    ("l = Mul(x, e) y = Mul(l, a)", 3e38),
    ("l = Div(x, e) y = Mul(l, a)", 1e-42),
    ("l = Mul(x, e) y = Div(l, a)", 1e-30),
    ("l = Mul(x, e) y = Mul(l, a)", np.nan),
])  # fmt: skip
def test_factors_that_overflow_or_vanish_stay_where_they_are(make_model, shaped, kinds, text, number):
    model = make_model(f"g (float[2,3] x) => (float[2,3] y) {{ {text} }}", e=np.float32(number), **NUMBERS)
    result = CONSTANT_CHAINS.apply(shaped(model).ir, PassContext())
    assert kinds(result.model) == kinds(model.ir)


LOSES = (
    # (what rounds otherwise than one step would, what the pass says)
    ("l = Add(x, one) y = Sub(l, one)", {"one": 1}, None),
    ("l = Add(x, one) m = Mul(l, two) y = Sub(m, two)", {"one": 1, "two": 2}, "subtracts it again"),
    ("l = Add(x, one) y = Add(l, tiny)", {"one": 1, "tiny": 1e-10}, "rounded away beside another"),
    ("l = Mul(x, small) y = Mul(l, large)", {"small": 1e-30, "large": 1e30}, None),
    ("l = Mul(x, small) y = Mul(l, large)", {"small": 1e-9, "large": 1e8}, "leave the range"),
)


@pytest.mark.parametrize("case", LOSES)
def test_a_chain_whose_rounding_counts_stays(make_model, shaped, apply_pass, kinds, reasons, case):
    """Of 1e-12, x + 1 - 1 makes 0."""
    text, numbers, says = case
    weights = {name: np.float32(number) for name, number in numbers.items()}
    model = shaped(make_model(f"g (float[2,3] x) => (float[2,3] y) {{ {text} }}", **weights))
    result = apply_pass(CONSTANT_CHAINS, model, x=np.full((2, 3), 1e-12, np.float32))
    assert kinds(result.model) == kinds(model.ir)
    assert says is None or says in reasons(result)


RANDOM = np.random.default_rng(5)


def array(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


CONV = "float[1,3,8,8] x", "Conv(x, w)", {"w": array(4, 3, 3, 3)}, (1, 3, 8, 8), (1, 4, 1, 1)
BIASED = "float[1,3,8,8] x", "Conv(x, w, b)", {"w": array(4, 3, 3, 3), "b": array(4)}, (1, 3, 8, 8), (4, 1, 1)
TRANSPOSED = "float[1,3,4,4] x", "ConvTranspose(x, w)", {"w": array(3, 4, 3, 3)}, (1, 3, 4, 4), (4, 1, 1)
GEMM = (
    "float[2,3] x",
    "Gemm <alpha = 0.5, beta = 2.0> (x, w, b)",
    {"w": array(3, 4), "b": array(4)},
    (2, 3),
    (4,),
)
GEMM_B = "float[2,3] x", "Gemm <transB = 1> (x, w)", {"w": array(4, 3)}, (2, 3), (1, 4)


@pytest.mark.parametrize("linear", [CONV, BIASED, TRANSPOSED, GEMM, GEMM_B])
@pytest.mark.parametrize("step", ["Mul(l, c)", "Div(l, c)", "Add(c, l)", "Sub(l, c)", "Sub(c, l)", "Neg(l)"])
def test_what_comes_behind_goes_into_the_weights(make_model, shaped, apply_pass, kinds, linear, step):
    given, node, weights, shape, channels = linear
    text = f"g ({given}) => (float[a,b,c,d] y) {{ l = {node} y = {step} }}"
    text = text.replace("float[a,b,c,d]", "float[a,b]") if len(shape) == 2 else text
    model = shaped(make_model(text, c=array(*channels) + 3, **weights))
    result = apply_pass(SCALE_INTO_LINEAR, model, 1e-4, x=array(*shape))
    assert kinds(result.model) == [node.split("(")[0].split(" ")[0]]


@pytest.mark.parametrize("linear", [CONV, BIASED, GEMM, GEMM_B])
@pytest.mark.parametrize("step", ["Mul(x, c)", "Div(x, c)", "Add(x, c)", "Sub(c, x)"])
def test_what_comes_before_goes_into_the_weights(make_model, shaped, apply_pass, kinds, linear, step):
    given, node, weights, shape, _ = linear
    text = f"g ({given}) => (float[a,b,c,d] y) {{ l = {step} y = {node.replace('x,', 'l,')} }}"
    text = text.replace("float[a,b,c,d]", "float[a,b]") if len(shape) == 2 else text
    channels = (3,) if len(shape) == 2 else (3, 1, 1)
    model = shaped(make_model(text, c=array(*channels) + 3, **weights))
    result = apply_pass(SCALE_INTO_LINEAR, model, 1e-4, x=array(*shape))
    assert kinds(result.model) == [node.split("(")[0].split(" ")[0]]


@pytest.mark.parametrize(("text", "shapes"), [
    ("l = MatMul(x, w) y = Mul(l, c)", (4,)),
    ("l = Mul(x, c) y = MatMul(l, w)", (3,)),
    ("l = MatMul(x, w) y = Div(l, c)", ()),
])  # fmt: skip
def test_a_matrix_product_takes_scales(make_model, shaped, apply_pass, kinds, text, shapes):
    model = f"g (float[2,5,3] x) => (float[2,5,4] y) {{ {text} }}"
    made = shaped(make_model(model, w=array(3, 4), c=array(*shapes) + 2))
    assert kinds(apply_pass(SCALE_INTO_LINEAR, made, 1e-4, x=array(2, 5, 3)).model) == ["MatMul"]


def test_a_matrix_product_takes_no_shift_even_where_some_channels_have_none(make_model, shaped, apply_pass, kinds):
    model = "g (float[2,5,3] x) => (float[2,5,4] y) { l = MatMul(x, w) y = Add(l, c) }"
    made = shaped(make_model(model, w=array(3, 4), c=np.float32([0, 1, 0, 2])))
    assert kinds(apply_pass(SCALE_INTO_LINEAR, made, 1e-4, x=array(2, 5, 3)).model) == ["MatMul", "Add"]


def test_convolutions_in_groups(make_model, shaped, apply_pass, kinds):
    text = """g (float[1,4,8,8] x) => (float[1,6,6,6] y) {
        a = Mul(x, before) l = Conv <group = 2> (a, w) y = Mul(l, behind) }"""
    weights = {"w": array(6, 2, 3, 3), "before": array(4, 1, 1), "behind": array(1, 6, 1, 1)}
    result = apply_pass(SCALE_INTO_LINEAR, shaped(make_model(text, **weights)), 1e-4, x=array(1, 4, 8, 8))
    assert kinds(result.model) == ["Conv"]


def test_scale_in_a_subgraph(make_model, shaped, apply_pass, kinds, image):
    text = """g (float[1,3,8,8] x, bool p) => (float[1,4,6,6] y) { y = If (p) <
        then_branch = a () => (float[1,4,6,6] t) { l = Conv(x, w) t = Mul(l, two) },
        else_branch = b () => (float[1,4,6,6] e) { e = Conv(x, w) } > }"""
    model = shaped(make_model(text, w=array(4, 3, 3, 3), two=np.float32(2)))
    result = apply_pass(SCALE_INTO_LINEAR, model, 1e-4, x=image, p=np.array(True))
    assert kinds(result.model) == ["If", "Conv", "Conv"]


@pytest.mark.parametrize(("text", "const", "reason"), [
    ("l = Conv(x, w) y = Mul(l, c) z = Relu(l)", (4, 1, 1), "used elsewhere too"),
    ("l = Conv(x, w) y = Mul(l, c) z = Relu(x)", (6, 6), "differs within a channel"),
    ("l = Conv(x, w) y = Mul(l, c) z = Relu(x)", (2, 1, 4, 1, 1), "broadcasts the tensor"),
    ("l = Add(x, c) y = Conv <pads = [1, 1, 1, 1]> (l, w) z = Relu(x)", (3, 1, 1), "pads with zeros"),
    ("l = Add(x, c) y = ConvTranspose (l, t) z = Relu(x)", (3, 1, 1), "fewer products"),
    ("v = Abs(w) l = Conv(x, v) y = Mul(l, c) z = Relu(x)", (4, 1, 1), "'v' is not constant"),
])  # fmt: skip
def test_what_stays_says_why(make_model, apply_pass, reasons, image, text, const, reason):
    model = make_model(
        f"g (float[1,3,8,8] x) => (float[a,b,c,d] y, float[e,f,g,h] z) {{ {text} }}".replace(
            "float[a,b,c,d] y", "float[i,a,b,c,d] y" if len(const) == 5 else "float[a,b,c,d] y"
        ),
        w=array(4, 3, 3, 3), t=array(3, 4, 3, 3), c=array(*const),
    )  # fmt: skip
    result = apply_pass(SCALE_INTO_LINEAR, model, 1e-4, x=image)
    assert not result.applied
    assert reason in reasons(result)


def test_attention_scores_and_biases_of_matrix_products_are_no_news(make_model, apply_pass):
    text = """g (float[2,3] x, float[3,4] k) => (float[2,4] y, float[2,4] z) {
        s = MatMul(x, k) y = Mul(s, half) p = MatMul(x, w) z = Add(p, b) }"""
    model = make_model(text, half=np.float32(0.5), w=array(3, 4), b=array(4))
    result = apply_pass(SCALE_INTO_LINEAR, model, x=array(2, 3), k=array(3, 4))
    assert (result.applied, result.refused) == ((), ())


def test_scales_by_channel_of_an_input_without_a_shape_stay(make_model, apply_pass, reasons):
    text = "g (float[2,3] x, int64[2] s) => (float[2,4] y) { r = Reshape(x, s) l = Mul(r, c) y = MatMul(l, w) }"
    model = make_model(text, c=array(3), w=array(3, 4))
    result = apply_pass(SCALE_INTO_LINEAR, model, x=array(2, 3), s=np.int64([2, 3]))
    assert not result.applied
    assert "the number of dimensions of 'r' is not known" in reasons(result)


def test_a_constant_that_widens_the_input_stays(make_model, shaped, apply_pass, reasons):
    """It has as many values as the product reads, but its input has one column only."""
    text = "g (float[2,1] x) => (float[2,4] y) { l = Mul(x, c) y = Gemm(l, w) }"
    result = apply_pass(SCALE_INTO_LINEAR, shaped(make_model(text, c=array(3), w=array(3, 4))), x=array(2, 1))
    assert not result.applied
    assert "may broadcast 'x'" in reasons(result)


@pytest.mark.parametrize(("weight", "factor"), [(3e3, 100), (1e-3, 1e-4)])
def test_numbers_that_leave_the_range_of_half_precision_stay(
    make_model, shaped, apply_pass, reasons, weight, factor
):
    text = "g (float16[1,3,8,8] x) => (float16[1,4,6,6] y) { l = Conv(x, w) y = Mul(l, c) }"
    weights = {"w": (array(4, 3, 3, 3) * weight).astype(np.float16), "c": np.float16(factor)}
    image = (array(1, 3, 8, 8) / weight / 100).astype(np.float16)
    result = apply_pass(SCALE_INTO_LINEAR, shaped(make_model(text, **weights)), x=image)
    assert "range of float16" in reasons(result)
    assert result.refused[0].nodes == ("Mul 'y'",)


def test_an_infinite_shift_stays(make_model, shaped, apply_pass, reasons, image):
    text = "g (float[1,3,8,8] x) => (float[1,4,6,6] y) { l = Conv(x, w) y = Add(l, c) }"
    made = make_model(text, w=array(4, 3, 3, 3), c=np.float32(-np.inf))
    assert "the bias of the Conv would leave the range" in reasons(
        apply_pass(SCALE_INTO_LINEAR, shaped(made), x=image)
    )


def test_large_weights_that_others_use_are_not_kept_twice(make_model, shaped, reasons, kinds):
    text = (
        "g (float[1,3,8,8] x) => (float[1,4,6,6] y, float[1,4,6,6] z) { l = Conv(x, w) y = Neg(l) z = Conv(x, w) }"
    )
    model = shaped(make_model(text, w=array(4, 3, 3, 3))).ir
    assert kinds(SCALE_INTO_LINEAR.apply(model, PassContext()).model) == ["Conv", "Conv"]
    result = SCALE_INTO_LINEAR.apply(model, PassContext(folded_limit_bytes=100))
    assert not result.applied
    assert "'w' are also used elsewhere, and are too large" in reasons(result)


def test_weights_in_bfloat16(make_model, shaped, kinds):
    dtype = ir.DataType.BFLOAT16.numpy()
    text = "g (bfloat16[1,3,8,8] x) => (bfloat16[1,4,6,6] y) { l = Conv(x, w) y = Mul(l, c) }"
    model = shaped(make_model(text, w=array(4, 3, 3, 3).astype(dtype), c=np.asarray(2, dtype)))
    folded = SCALE_INTO_LINEAR.apply(model.ir, PassContext()).model
    assert kinds(folded) == ["Conv"]
    assert folded.graph[0].inputs[1].dtype == ir.DataType.BFLOAT16


def test_a_difference_to_a_large_number_stays_before_the_product(make_model, shaped, apply_pass, reasons):
    text = "g (float[2,3] x) => (float[2,4] y) { l = Sub(x, c) y = Gemm(l, w) }"
    model = shaped(make_model(text, c=np.float32(1e6), w=array(3, 4)))
    assert "rounded away" in reasons(apply_pass(SCALE_INTO_LINEAR, model, x=array(2, 3) + np.float32(1e6)))


def test_a_shift_alone_leaves_the_weights_as_they_are(make_model, shaped, apply_pass, image):
    text = """g (float[1,3,8,8] x) => (float[1,4,6,6] y, float[1,4,6,6] z) {
        l = Conv(x, w) y = Add(l, c) z = Conv(x, w) }"""
    model = shaped(make_model(text, w=array(4, 3, 3, 3), c=array(4, 1, 1)))
    result = apply_pass(SCALE_INTO_LINEAR, model, 1e-5, x=image)
    assert [node.inputs[1].name for node in result.model.graph] == ["w", "w"]


def test_quantized_weights_stay(make_model, shaped, reasons):
    text = """g (float[1,3,8,8] x) => (float[1,4,6,6] y) {
        w = DequantizeLinear(q, s) l = Conv(x, w) y = Mul(l, s) }"""
    model = shaped(make_model(text, q=np.ones((4, 3, 3, 3), np.int8), s=np.float32(0.5)))
    result = SCALE_INTO_LINEAR.apply(model.ir, PassContext())
    assert not result.applied
    assert "'w' is quantized" in reasons(result)


@pytest.mark.parametrize("number", [3e38, 1e-30, np.inf])
def test_factors_that_overflow_or_vanish_stay_before_the_product(make_model, shaped, kinds, number):
    text = "g (float[2,3] x) => (float[2,4] y) { l = Mul(x, c) y = MatMul(l, w) }"
    model = shaped(make_model(text, c=np.float32(number), w=array(3, 4)))
    assert kinds(SCALE_INTO_LINEAR.apply(model.ir, PassContext()).model) == ["Mul", "MatMul"]


def test_an_epsilon_that_would_vanish_in_a_bias_stays(make_model, shaped, apply_pass, kinds, reasons):
    """W x + b may be 0, and the logarithm behind it needs the epsilon."""
    text = "g (float[2,2] x) => (float y) { a = Gemm(x, w, b) e = Add(a, c) y = Log(e) }"
    weights = {"w": np.eye(2, dtype=np.float32), "c": np.float32(1e-10)}
    model = shaped(make_model(text, b=np.full(2, 0.5, np.float32), **weights))
    result = apply_pass(SCALE_INTO_LINEAR, model, x=np.full((2, 2), -0.5, np.float32))
    assert kinds(result.model) == ["Gemm", "Add", "Log"]
    assert "rounded away in the bias" in reasons(result)
    model = shaped(make_model(text, b=np.zeros(2, np.float32), **weights))
    assert kinds(apply_pass(SCALE_INTO_LINEAR, model, x=np.zeros((2, 2), np.float32)).model) == ["Gemm", "Log"]
