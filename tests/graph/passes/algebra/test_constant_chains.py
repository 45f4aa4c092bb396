import numpy as np
import onnx_ir as ir
import pytest

from edgeopt.graph.passes.algebra.constants import CONSTANT_CHAINS
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
