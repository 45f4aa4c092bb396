import numpy as np
import onnx_ir as ir
import pytest

from edgeopt.graph.passes.algebra.matrix_products import EINSUM_INTO_MATMUL
from edgeopt.graph.passes.base import PassContext

LENGTHS = dict(zip("abcdehijknqs", (2, 3, 4, 5, 2, 3, 4, 5, 6, 4, 3, 7), strict=True))
RANDOM = np.random.default_rng(11)


def numbers(term):
    return RANDOM.standard_normal([LENGTHS[c] for c in term.replace("...", "ab")]).astype(np.float32)


@pytest.fixture
def einsum(make_model, shaped):
    """A model of one Einsum, and numbers for it; the indices named are open."""

    def build(equation, still_open="", dtype="float", opset=17):
        terms = equation.partition("->")[0].replace(" ", "").split(",")
        feeds = {name: numbers(term) for name, term in zip("xzw", terms, strict=False)}
        named = [term.replace("...", "ab") for term in terms]
        shapes = [",".join(c if c in still_open else str(LENGTHS[c]) for c in term) for term in named]
        ports = ", ".join(f"{dtype}[{shape}] {name}" for shape, name in zip(shapes, feeds, strict=True))
        rank = np.einsum(equation, *feeds.values()).ndim
        result = f"[{','.join('tuvwxyz'[:rank])}]" if rank else ""
        text = (
            f'g ({ports}) => ({dtype}{result} y) {{ y = Einsum <equation = "{equation}"> ({", ".join(feeds)}) }}'
        )
        return shaped(make_model(text, opset=opset)), feeds

    return build


@pytest.mark.parametrize(("equation", "operators"), [
    ("ij,jk->ik", ["MatMul"]),
    ("bid,bjd->bij", ["Transpose", "MatMul"]),
    ("bqhd,bkhd->bhqk", ["Transpose", "Transpose", "MatMul"]),
    ("bhqk,bkhd->bqhd", ["Transpose", "MatMul", "Transpose"]),
    ("bsd,dhe->bshe", ["Reshape", "MatMul", "Reshape"]),
    ("bshe,hed->bsd", ["Reshape", "Reshape", "MatMul"]),
    ("kj,bsj->bsk", ["Transpose", "MatMul"]),
    ("k,kn->n", ["MatMul"]),
    ("bk,bkn->bn", ["Reshape", "MatMul", "Reshape"]),
    ("ijk,kji->", ["Reshape", "Transpose", "Reshape", "MatMul", "Reshape"]),
    (" bid , djb ", ["Transpose", "Reshape", "Transpose", "Reshape", "MatMul"]),
    ("...ij,...jk->...ik", ["MatMul"]),
    ("...ij,jk->...ik", ["MatMul"]),
    ("i,j->ij", ["Reshape", "Reshape", "MatMul"]),
    ("bi,bj->ibj", ["Reshape", "Reshape", "MatMul", "Transpose"]),
    ("bij,b->bij", ["Unsqueeze", "Mul"]),
    ("bij,bj->jbi", ["Transpose", "Transpose", "Unsqueeze", "Mul"]),
    ("ijk->kij", ["Transpose"]),
    ("ij->ij", ["Identity"]),
])  # fmt: skip
def test_it_computes_the_same(einsum, apply_pass, kinds, equation, operators):
    model, feeds = einsum(equation)
    result = apply_pass(EINSUM_INTO_MATMUL, model, 1e-5, **feeds)
    assert kinds(result.model) == operators
    assert [change.nodes for change in result.applied] == [("Einsum 'y'",)]
    assert [output.name for output in result.model.graph.outputs] == ["y"]


@pytest.mark.parametrize(("equation", "still_open"), [
    ("bhqd,bhkd->bhqk", "bqk"),
    ("bsd,dhe->bshe", "bs"),
    ("bsd,bdhe->bshe", "bs"),
    ("bij,bj->bi", "bij"),
])  # fmt: skip
def test_open_dimensions(einsum, apply_pass, kinds, equation, still_open):
    model, feeds = einsum(equation, still_open)
    assert "Einsum" not in kinds(apply_pass(EINSUM_INTO_MATMUL, model, 1e-5, **feeds).model)


def test_weights_are_turned_rather_than_what_flows(make_model, shaped, apply_pass):
    text = 'g (float[3,5] x) => (float[6,3] y) {{ y = Einsum <equation = "{}"> (x, w) }}'
    weights = {"w": numbers("kj")}
    model = shaped(make_model(text.format("bj,kj->kb"), **weights))
    result = apply_pass(EINSUM_INTO_MATMUL, model, 1e-5, x=numbers("bj"))
    (product,) = (node for node in result.model.graph if node.op_type == "MatMul")
    assert product.inputs[0].name == "w"


def test_in_a_subgraph(make_model, shaped, apply_pass, kinds):
    text = """g (float[2,3] x, bool p) => (float[2,4] y) { y = If (p) <
        then_branch = t () => (float[2,4] u) { u = Einsum <equation = "ij,kj->ik"> (x, w) },
        else_branch = e () => (float[2,4] v) { v = MatMul(x, m) } > }"""
    model = shaped(make_model(text, w=numbers("nb"), m=numbers("bc")))
    result = apply_pass(EINSUM_INTO_MATMUL, model, 1e-5, x=numbers("ab"), p=np.array(True))
    assert sorted(kinds(result.model)) == ["If", "MatMul", "MatMul", "Transpose"]


@pytest.mark.parametrize(("equation", "says", "given"), [
    ("iij,j->i", "'i' is twice in one operand", {}),
    ("ij,k->k", "it sums 'i' over one operand only", {}),
    ("ij->i", "it sums 'j' over one operand only", {}),
    ("ij,jk,kd->id", "it has 3 operands", {}),
    ("aij,ajkd->aikd", "'d' is open like another index", {"still_open": "ikd"}),
    ("ij,jk->ik", "may not be floats", {"dtype": "int64"}),
    ("ij,jk->ik", "needs opset 13", {"opset": 12}),
])  # fmt: skip
def test_what_is_no_product_stays_and_is_named(einsum, reasons, equation, says, given):
    model, _ = einsum(equation, **given)
    before = ir.to_proto(model.ir).SerializeToString()
    result = EINSUM_INTO_MATMUL.apply(model.ir, PassContext())
    assert not result.applied
    assert says in reasons(result)
    assert result.refused[0].nodes == ("Einsum 'y'",)
    assert ir.to_proto(result.model).graph.node[0].op_type == "Einsum"
    assert ir.to_proto(model.ir).SerializeToString() == before


@pytest.mark.parametrize(("ports", "says"), [
    ("float[2,n] x, float[m,4] z", "'j' may have different sizes"),
    ("float[2,1] x, float[3,4] z", "'j' is 1 long in one operand and 3 in the other"),
    ("float[2,0] x, float[0,4] z", "'j' has no elements"),
])  # fmt: skip
def test_sums_over_lengths_that_may_differ_stay(make_model, reasons, ports, says):
    model = make_model(f'g ({ports}) => (float[2,4] y) {{ y = Einsum <equation = "ij,jk->ik"> (x, z) }}')
    assert says in reasons(EINSUM_INTO_MATMUL.apply(model.ir, PassContext()))


@pytest.mark.parametrize(("equation", "still_open", "nonempty_only"), [
    ("bij,bij->bi", "bj", True),
    ("bij,bjk->bik", "b", False),
])  # fmt: skip
def test_a_reshape_that_cannot_tell_what_is_empty_is_for_non_empty_inputs(
    einsum, kinds, equation, still_open, nonempty_only
):
    model, _ = einsum(equation, still_open)
    result = EINSUM_INTO_MATMUL.apply(model.ir, PassContext())
    assert result.applied
    assert result.nonempty_only == nonempty_only
    kept = EINSUM_INTO_MATMUL.apply(model.ir, PassContext(empty_inputs=True))
    assert ("Einsum" in kinds(kept.model)) == nonempty_only
