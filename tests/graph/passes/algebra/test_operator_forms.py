import numpy as np
import pytest

from edgeopt.graph.passes.algebra.operator_forms import FORMS, PASS
from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.passes.knowledge.forms import EVERYWHERE

X = np.random.default_rng(3).standard_normal((2, 6, 4, 4)).astype(np.float32)
SHUFFLE = "a = Reshape(x, five) t = Transpose <perm = [0, 2, 1, 3, 4]> (a) y = Reshape(t, four)"
GRAPH = "g (float[2,6,4,4] x) => (float[2,6,4,4] y) {{ {} }}"
SHAPES = {"five": np.int64([2, 2, 3, 4, 4]), "four": np.int64([2, 6, 4, 4])}


@pytest.mark.parametrize("divisor", [np.float32(3), np.float32([[[1.5]], [[2]], [[3]], [[-4]], [[5]], [[6]]])])
def test_a_division_becomes_a_product(make_model, apply_pass, kinds, divisor):
    result = apply_pass(PASS, make_model(GRAPH.format("y = Div(x, c)"), c=divisor), 1e-6, x=X)
    assert kinds(result.model) == ["Mul"]
    assert [o.name for o in result.model.graph.outputs] == ["y"]
    assert result.applied[0].nodes == ("Div 'y'",)


@pytest.mark.parametrize("divisor", [0.0, 3e38, 1e-42, np.inf])
def test_a_divisor_whose_reciprocal_loses_digits_stays(make_model, kinds, reasons, divisor):
    model = make_model(GRAPH.format("y = Div(x, c)"), c=np.float32(divisor))
    result = PASS.apply(model.ir, PassContext())
    assert kinds(result.model) == ["Div"]
    assert "the reciprocal of 'c'" in reasons(result)


def test_a_channel_shuffle_becomes_one_gather(make_model, shaped, apply_pass, kinds):
    result = apply_pass(PASS, shaped(make_model(GRAPH.format(SHUFFLE), **SHAPES)), x=X)
    assert kinds(result.model) == ["Gather"]
    assert result.applied[0].nodes == ("Reshape 'a'", "Transpose 't'", "Reshape 'y'")


def test_an_open_batch(make_model, shaped, apply_pass, kinds):
    shapes = {"five": np.int64([-1, 3, 2, 4, 4]), "four": np.int64([-1, 6, 4, 4])}
    text = GRAPH.format(SHUFFLE).replace("2,6,4,4", "n,6,4,4")
    result = apply_pass(PASS, shaped(make_model(text, **shapes)), x=X)
    assert kinds(result.model) == ["Gather"]


FOLLOWED = "a = Reshape(x, five) t = Transpose <perm = [0, 2, 1, 3, 4]> (a) s = Reshape(t, four) "


@pytest.mark.parametrize(("behind", "written"), [
    ("y = Conv (s, full)", False),
    ("r = Relu(s) m = Conv <group = 6> (r, single) y = Conv (m, full)", False),
    ("y = Conv <group = 2> (s, three)", True),
    ("m = Conv <group = 2> (s, three) y = Conv (m, full)", True),
    ("p, q = Split <axis = 1> (s) r = Conv (q, three) y = Concat <axis = 1> (p, r)", True),
    ("y = Relu (s)", True),
])  # fmt: skip
def test_a_shuffle_that_openvino_would_move_into_a_convolution_stays(
    make_model, shaped, apply_pass, kinds, reasons, behind, written
):
    random = np.random.default_rng(1)
    weights = {"full": random.standard_normal((6, 6, 1, 1)), "three": random.standard_normal((6, 3, 1, 1))}
    weights["single"] = random.standard_normal((6, 1, 3, 3))
    named = {name: array.astype(np.float32) for name, array in weights.items() if f", {name})" in behind}
    result = apply_pass(PASS, shaped(make_model(GRAPH.format(FOLLOWED + behind), **named, **SHAPES)), 1e-5, x=X)
    assert ("Gather" in kinds(result.model)) == written
    assert ("OpenVINO computes the convolution behind it" in reasons(result)) != written


@pytest.mark.parametrize(("text", "operators"), [
    ("a = Abs(x) y = Pow(a, half)", ["Abs", "Sqrt"]),
    ("y = Max(x, zero)", ["Relu"]),
    ("y = Max(zero, x)", ["Relu"]),
    ("a = Mul(slope, x) y = Max(x, a)", ["LeakyRelu"]),
    ("y = PRelu(x, slopes)", ["LeakyRelu"]),
    ("a = Relu(x) y = Min(a, one)", ["Clip"]),
    ("y = Conv <group = 6> (x, single)", ["Mul"]),
    ("y = Conv <group = 6> (x, single, bias)", ["Mul", "Add"]),
])  # fmt: skip
def test_activations_and_gains_are_called_by_their_names(make_model, shaped, apply_pass, kinds, text, operators):
    numbers = {"half": 0.5, "zero": 0, "slope": 0.25, "one": 1}
    weights = {name: np.asarray(number, np.float32) for name, number in numbers.items()}
    weights |= {"single": X[0, :, :1, :1, None].copy(), "bias": X[1, :, 0, 0].copy()}
    weights["slopes"] = np.full((6, 1, 1), 0.25, np.float32)
    result = apply_pass(PASS, shaped(make_model(GRAPH.format(text), **weights)), 1e-6, x=X)
    assert kinds(result.model) == operators
    assert [o.name for o in result.model.graph.outputs] == ["y"]


def test_a_convolution_of_each_channel_into_two(make_model, shaped, apply_pass, kinds):
    conv = "Conv <group = 6, strides = [2, 2], pads = [1, 1, 1, 1]> (x, w, b)"
    text = f"g (float[2,6,4,4] x) => (float[2,12,2,2] y) {{ y = {conv} }}"
    weights = {"w": np.resize(X, (12, 1, 3, 3)), "b": np.ones(12, np.float32)}
    result = apply_pass(PASS, shaped(make_model(text, **weights)), 1e-6, x=X)
    assert kinds(result.model) == ["Gather", "Conv"]
    assert result.applied[0].nodes == ("Conv 'y'",)


@pytest.mark.parametrize("text", [
    "y = Pow(x, slope)",
    "y = Max(x, slope)",
    "y = Max(x, square)",
    "a = Mul(x, two) y = Max(x, a)",
    "y = PRelu(x, several)",
    "y = PRelu(x, endless)",
    "a = Relu(x) y = Min(a, below)",
    "y = Conv <group = 6, pads = [1, 1, 1, 1]> (x, single)",
    "y = Conv <group = 2> (x, pairs)",
])  # fmt: skip
def test_what_only_looks_like_it_stays(make_model, shaped, kinds, text):
    numbers = {"slope": 0.25, "two": 2, "below": -1, "endless": -np.inf}
    weights = {name: np.asarray(number, np.float32) for name, number in numbers.items()}
    weights |= {"several": X[0, :, :1, :1], "single": X[0, :, :1, :1, None], "pairs": X[:, :3, :1, :1]}
    weights["square"] = np.float32([[[[[0.0]]]]])  # of one dimension more than x has
    model = shaped(make_model(GRAPH.format(text), **weights))
    result = PASS.apply(model.ir, PassContext())
    assert not result.applied
    assert kinds(result.model) == kinds(model.ir)


@pytest.mark.parametrize(("text", "wanted"), [
    ("a = Max(x, zero) y = Reciprocal(a)", "Max"),
    ("a = Max(x, zero) b = Mul(a, slope) y = Div(x, b)", "Max"),
    ("a = Max(x, zero) y = Pow(a, below)", "Max"),
    ("s = Abs(x) a = Max(s, zero) y = Reciprocal(a)", "Relu"),
    ("a = Max(x, zero) y = Div(a, slope)", "Relu"),
    ("a = Max(x, zero) b = Add(a, slope) y = Reciprocal(b)", "Relu"),
    ("a = Max(x, zero) b = Exp(a) y = Reciprocal(b)", "Relu"),
])  # fmt: skip
def test_max_stays_where_a_later_node_may_divide_by_a_zero_of_another_sign(
    make_model, shaped, kinds, reasons, text, wanted
):
    weights = {"slope": np.float32(0.25), "below": np.float32(-1), "zero": np.float32(0)}
    result = PASS.apply(shaped(make_model(GRAPH.format(text), **weights)).ir, PassContext())
    assert {"Max", "Relu"} & set(kinds(result.model)) == {wanted}
    assert ("a later node may divide by it" in reasons(result)) == (wanted == "Max")


@pytest.mark.parametrize("last", ["Reciprocal", "Neg"])
def test_max_in_a_branch_stays_whatever_follows_outside(make_model, shaped, kinds, last):
    text = f"""g (float[4] x, bool p) => (float[4] y) {{ m = If (p) <
        then_branch = a () => (float[4] t) {{ t = Max(x, zero) }},
        else_branch = b () => (float[4] e) {{ e = Abs(x) }} > y = {last}(m) }}"""
    result = PASS.apply(shaped(make_model(text, zero=np.float32(0))).ir, PassContext())
    assert "Max" in kinds(result.model)


def test_a_slope_that_makes_a_number_a_vector_stays(make_model, shaped, kinds):
    model = shaped(make_model("g (float x) => (float[n] y) { y = PRelu(x, slope) }", slope=np.float32([0.5])))
    assert kinds(PASS.apply(model.ir, PassContext()).model) == ["PRelu"]
    text = "g (float[4,batch] x) => (float[4,n] y) { y = PRelu(x, slopes) }"
    model = shaped(make_model(text, slopes=np.float32([0.5, 0.5])))
    assert kinds(PASS.apply(model.ir, PassContext()).model) == ["PRelu"]


def test_what_is_read_elsewhere_stays(make_model, shaped, kinds):
    text = GRAPH.format("a = Relu(x) y = Min(a, one)").replace("y)", "y, float[2,6,4,4] a)", 1)
    model = shaped(make_model(text, one=np.float32(1)))
    assert kinds(PASS.apply(model.ir, PassContext()).model) == ["Relu", "Min"]


def test_the_forms_of_all_runtimes_lose_in_none():
    assert all(form.runtimes == EVERYWHERE for form in FORMS)


def test_in_a_subgraph(make_model, apply_pass, kinds):
    text = """g (float[2,6,4,4] x, bool p) => (float[2,6,4,4] y) { y = If (p) <
        then_branch = t () => (float[2,6,4,4] u) { u = Div(x, c) },
        else_branch = e () => (float[2,6,4,4] v) { v = Neg(x) } > }"""
    result = apply_pass(PASS, make_model(text, c=np.float32(3)), 1e-6, x=X, p=np.array(True))
    assert kinds(result.model) == ["If", "Mul", "Neg"]


@pytest.mark.parametrize("number", [0.0, np.inf, 1e-45])
def test_a_divisor_without_a_reciprocal_stays_and_is_named(make_model, reasons, number):
    model = make_model(GRAPH.format("y = Div(x, c)"), c=np.float32(number))
    result = PASS.apply(model.ir, PassContext())
    assert not result.applied
    assert "reciprocal of 'c'" in reasons(result)
    assert result.refused[0].nodes == ("Div 'y'",)


def test_a_shuffle_that_others_read_stays_and_says_why(make_model, shaped, apply_pass, reasons):
    text = GRAPH.format(SHUFFLE).replace("float[2,6,4,4] y)", "float[2,6,4,4] y, float[2,3,2,4,4] t)")
    result = apply_pass(PASS, shaped(make_model(text, **SHAPES)), x=X)
    assert "used elsewhere" in reasons(result)


@pytest.mark.parametrize("text", [
    "y = Div(c, x)",
    "a = Reshape(x, five) t = Transpose <perm = [0, 1, 2, 4, 3]> (a) y = Reshape(t, four)",
    # A GELU, which runtimes make one operator.
    "d = Div(x, root) e = Erf(d) f = Add(e, one) g = Mul(x, f) y = Mul(g, half)",
])  # fmt: skip
def test_other_nodes_are_no_news(make_model, shaped, apply_pass, kinds, text):
    numbers = {"c": np.float32(2), "root": np.float32(2**0.5), "one": np.float32(1), "half": np.float32(0.5)}
    model = shaped(make_model(GRAPH.format(text), **numbers, **SHAPES))
    result = apply_pass(PASS, model, x=X)
    assert (result.applied, result.refused) == ((), ())
    assert kinds(result.model) == kinds(model.ir)


def test_whole_numbers_are_divided_as_they_are(make_model, apply_pass, kinds):
    text = "g (int64[2] x) => (int64[2] y) { y = Div(x, c) }"
    assert kinds(apply_pass(PASS, make_model(text, c=np.int64(3)), x=np.int64([7, 9])).model) == ["Div"]


@pytest.mark.parametrize(("kind", "number", "multiplied"), [
    ("float16", 60000, False), ("float16", 3, True), ("float", 1e-39, False), ("float", 3, True),
    ("double", 3, True),
])  # fmt: skip
def test_a_reciprocal_with_few_digits_left_is_none(make_model, shaped, kinds, kind, number, multiplied):
    from edgeopt.graph.passes.base import PassContext

    dtype = {"float": np.float32, "double": np.float64, "float16": np.float16}[kind]
    model = shaped(
        make_model(f"g ({kind}[3] x) => ({kind}[3] y) {{ y = Div(x, c) }}", c=np.asarray(number, dtype))
    )
    assert kinds(PASS.apply(model.ir, PassContext()).model) == (["Mul"] if multiplied else ["Div"])


@pytest.mark.parametrize(("slope", "fused"), [(0.1, False), (0.125, True)])
def test_a_slope_that_no_attribute_can_hold_stays(make_model, shaped, kinds, slope, fused):
    from edgeopt.graph.passes.base import PassContext

    text = "g (double[3] x) => (double[3] y) { a = Mul(x, c) y = Max(x, a) }"
    model = shaped(make_model(text, c=np.float64(slope)))
    assert ("LeakyRelu" in kinds(PASS.apply(model.ir, PassContext()).model)) is fused
