"""Arithmetic that changes nothing goes, and only that: 1e-10 is no 0, and 1 + 1e-6 no 1."""

import ml_dtypes
import numpy as np
import pytest

from edgeopt.graph.passes.cleaning.identities import PASS
from edgeopt.graph.passes.knowledge.arithmetic import SIGN

QUIET = np.float32([[0, -0.0, 1e-12], [-1e-12, 1e-40, 3]])
TINIEST = np.float32(1e-45)
GOES = (
    # (node from a to b, its constant)
    ("b = Mul(a, c)", np.float32(1)),
    ("b = Mul(c, a)", np.float32([[1, 1, 1]])),
    ("b = Div(a, c)", np.float32([1])),
    ("b = Sub(a, c)", np.float32(0)),
    ("b = Add(a, c)", np.float32(-0.0)),
    ("b = Add(c, a)", np.float32([[-0.0, -0.0, -0.0]])),
    ("b = Add(a, c)", np.float32(0)),
    ("b = Sub(a, c)", np.float32(-0.0)),
)
STAYS = (
    *(("b = Add(a, c)", np.float32(number)) for number in (1e-3, 1e-7, 1e-10, 1e-30, TINIEST, -1e-10)),
    *(("b = Sub(a, c)", np.float32(number)) for number in (1e-10, TINIEST, np.nan)),
    *(
        ("b = Mul(a, c)", np.float32(number))
        for number in (1 - 1e-6, 1 + 1e-6, np.nextafter(1, 2, dtype=np.float32))
    ),
    *(("b = Div(a, c)", np.float32(number)) for number in (1 - 1e-6, 1 + 1e-6, np.inf, np.nan)),
    ("b = Sub(c, a)", np.float32(0)),
    ("b = Div(c, a)", np.float32(1)),
    ("b = Add(a, c)", np.float32([0, 0, 1e-10])),
    ("b = Mul(a, c)", np.float32([1, 1, np.inf])),
)


@pytest.fixture
def left(make_model, apply_pass, kinds, shaped):
    """The operators that the pass leaves of a = Relu(x), a node from a to b, and what becomes of b."""

    def apply(node, number, behind="y = Exp(b)", x=QUIET, head="float[2,3] x", outputs="float y"):
        model = shaped(make_model(f"g ({head}) => ({outputs}) {{ a = Relu(x)  {node}  {behind} }}", c=number))
        return kinds(apply_pass(PASS, model, x=x).model)

    return apply


@pytest.mark.parametrize(("node", "number"), GOES)
def test_arithmetic_that_changes_nothing_goes(left, node, number):
    assert left(node, number) == ["Relu", "Exp"]


@pytest.mark.parametrize(("node", "number"), STAYS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_constant_beside_0_or_1_stays(left, node, number):
    assert left(node, number) == ["Relu", node.split("(")[0].split()[-1], "Exp"]


@pytest.mark.parametrize("kind", ["float16", "float64", "int8", "int32", "int64", "uint8", "bfloat16"])
def test_every_type_is_compared_in_itself(make_model, kinds, shaped, kind):
    from edgeopt.graph.passes.base import PassContext

    dtype = np.dtype(ml_dtypes.bfloat16 if kind == "bfloat16" else kind)
    name = {"float64": "double"}.get(kind, kind)
    text = f"g ({name}[3] x) => ({name}[3] y) {{ a = Div(x, c)  y = Mul(a, d) }}"
    one, other = np.asarray(1, dtype), np.asarray(3, dtype)
    assert kinds(PASS.apply(shaped(make_model(text, c=one, d=other)).ir, PassContext()).model) == ["Mul"]
    assert kinds(PASS.apply(shaped(make_model(text, c=other, d=other)).ir, PassContext()).model) == ["Div", "Mul"]


WIDENS = (((3, 1), (1, 4), 0), ((3, 4), (1, 1, 1), 0), ((4,), (1, 4), 0), ((1,), (0,), 0), ((1, 4), (3, 1), 0))


@pytest.mark.parametrize(("have", "constant", "number"), WIDENS)
def test_a_constant_that_gives_the_result_another_shape_stays(left, have, constant, number):
    wide = np.full(constant, number, np.float32)
    size = ",".join(map(str, have))
    assert "Sub" in left("b = Sub(a, c)", wide, x=np.ones(have, np.float32), head=f"float[{size}] x")


def test_of_an_open_dimension_it_is_not_known_whether_it_grows(left):
    node, ones = "b = Mul(a, c)", np.ones(3, np.float32)
    assert left(node, ones, head="float[2,n] x") == ["Relu", "Mul", "Exp"]
    assert left(node, np.float32(1), head="float[2,n] x") == ["Relu", "Exp"]


def test_nothing_added_to_nothing(left):
    assert left(
        "b = Add(a, c)", np.zeros((0, 3), np.float32), x=np.zeros((0, 3), np.float32), head="float[0,3] x"
    ) == ["Relu", "Exp"]


TELL = (
    "y = Reciprocal(b)",
    "y = Div(a, b)",
    "h = Mul(b, b)  n = Neg(h)  y = Reciprocal(n)",
    "n = Neg(b)  t = Transpose(n)  y = Reciprocal(t)",
    "y = Neg(b)",
    "y = Pow(b, c1)",
)
DO_NOT_TELL = (
    "y = Exp(b)",
    "y = Log(b)",
    "n = Neg(b)  y = Softmax(n)",
    "s = Add(b, c1)  y = Reciprocal(s)",
    "n = Neg(b)  y = Sigmoid(n)",
    "i = Cast <to = 7> (b)  y = Cast <to = 1> (i)",
)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("behind", TELL)
def test_plus_0_stays_where_the_sign_of_a_zero_is_seen(make_model, kinds, reasons, shaped, behind):
    result = _applied(make_model, shaped, f"b = Add(a, c)  {behind}")
    assert "Add" in kinds(result.model)
    assert SIGN in reasons(result)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("behind", DO_NOT_TELL)
def test_plus_0_goes_where_the_sign_of_a_zero_is_lost(make_model, apply_pass, kinds, shaped, behind):
    extra = {"c1": np.float32(-1)} if "c1" in behind else {}
    text = f"g (float[2,3] x) => (float y) {{ a = Neg(x)  b = Add(a, c)  {behind} }}"
    result = apply_pass(PASS, shaped(make_model(text, c=np.float32(0), **extra)), x=QUIET)
    assert kinds(result.model).count("Add") == behind.count("Add")


NEVER = ("a = Exp(x)", "a = Mul(x, x)", "z = Neg(x)  a = Add(z, c)", "e = Abs(x)  a = Transpose(e)")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("before", NEVER)
def test_plus_0_goes_where_there_is_no_negative_zero(make_model, apply_pass, kinds, shaped, before):
    text = f"g (float[3,3] x) => (float y) {{ {before}  b = Add(a, d)  y = Reciprocal(b) }}"
    extra = {"c": np.float32(0)} if "c" in before.split("(")[-1] else {}
    x = np.float32([[0, -0.0, 1], [-1, 1e-40, -1e-40], [5, 6, 7]])
    result = apply_pass(PASS, shaped(make_model(text, d=np.float32(0), **extra)), x=x)
    assert kinds(result.model).count("Add") == before.count("Add")


def _applied(make_model, shaped, nodes):
    from edgeopt.graph.passes.base import PassContext

    extra = {"c1": np.float32(-1)} if "c1" in nodes else {}
    text = f"g (float[2,3] x) => (float y) {{ a = Neg(x)  {nodes} }}"
    return PASS.apply(shaped(make_model(text, c=np.float32(0), **extra)).ir, PassContext())
