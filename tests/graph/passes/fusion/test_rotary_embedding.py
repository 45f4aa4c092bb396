import numpy as np
import onnx
import pytest

from edgeopt.graph.model import load
from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.passes.fusion.rotary_embedding import PASS
from edgeopt.graph.pipeline import run_pipeline
from tests.families.exporter import feeds_of
from tests.families.transformers import llama

RANDOM = np.random.default_rng(11)
X = RANDOM.standard_normal((2, 3, 5, 8)).astype(np.float32)
ANGLES = RANDOM.standard_normal((5, 4)).astype(np.float32)
WEIGHTS = {name: np.array([number]) for name, number in (("zero", 0), ("four", 4), ("far", 2**62), ("last", 3))}
WEIGHTS |= {"one": np.array([1]), "two": np.array([2]), "end": np.array([-1]), "minus": np.float32(-1)}
WEIGHTS |= {"pairs": np.array([0, 0, 0, 8]), "halves": np.array([4, 4])}

TWICE = "w = Concat <axis = -1> (a, a) cos = Cos(w) sin = Sin(w)"
ONCE = "cos = Cos(a) sin = Sin(a)"
HALVES = "l = Slice(x, zero, four, last) r = Slice(x, four, far, end)"
SPLIT = "l, r = Split <axis = -1> (x, halves)"
ADD = "p = Mul(x, cos) q = Mul(t, sin) y = Add(p, q)"
BY_HALVES = """lc = Mul(l, cos) rs = Mul(r, sin) u = Sub(lc, rs) rc = Mul(cos, r) ls = Mul(sin, l) v = Add(ls, rc)
    y = Concat <axis = 3> (u, v)"""
INTERLEAVED = """l = Slice(x, zero, far, last, two) r = Slice(x, one, far, last, two)
    lc = Mul(l, cos) rs = Mul(r, sin) u = Sub(lc, rs) rc = Mul(r, cos) ls = Mul(l, sin) v = Add(rc, ls)
    u5 = Unsqueeze(u, end) v5 = Unsqueeze(v, end) w5 = Concat <axis = -1> (u5, v5) y = Reshape(w5, pairs)"""
AT_ONCE = f"{TWICE} {HALVES} n = Neg(r) t = Concat <axis = -1> (n, l) {ADD}"
SPELLINGS = (
    AT_ONCE,
    f"{TWICE} {SPLIT} n = Mul(r, minus) t = Concat <axis = 3> (n, l) {ADD}".replace("Mul(x, cos)", "Mul(cos, x)"),
    f"{ONCE} {SPLIT} {BY_HALVES}",
    f"{ONCE} {HALVES} {BY_HALVES}",
    f"{ONCE} {INTERLEAVED}",
)
GRAPH = "g (float[2,3,5,8] x, float[5,4] a) => (float[2,3,5,8] y) {{ {} }}"


def attributes(result):
    return next(dict(node.attributes) for node in result.model.graph if node.op_type == "RotaryEmbedding")


@pytest.mark.parametrize("body", SPELLINGS)
def test_every_spelling_becomes_one_operator(make_model, shaped, apply_pass, kinds, body):
    model = shaped(make_model(GRAPH.format(body), opset=23, **WEIGHTS))
    result = apply_pass(PASS, model, 1e-5, x=X, a=ANGLES)
    assert "RotaryEmbedding" in kinds(result.model)
    assert not {"Neg", "Mul", "Add", "Sub", "Split"} & set(kinds(result.model))
    assert ("interleaved" in attributes(result)) == ("Reshape" in body)


def test_angles_by_batch_go_in_as_they_are(make_model, shaped, apply_pass, kinds):
    text = GRAPH.format(AT_ONCE).replace("float[5,4]", "float[2,1,5,4]")
    angles = RANDOM.standard_normal((2, 1, 5, 4)).astype(np.float32)
    result = apply_pass(PASS, shaped(make_model(text, opset=23, **WEIGHTS)), 1e-5, x=X, a=angles)
    assert {"RotaryEmbedding", "Squeeze"} <= set(kinds(result.model))
    assert "Expand" not in kinds(result.model)


def test_a_table_of_cosines_is_read_by_position(make_model, shaped, apply_pass, kinds):
    text = f"""g (float[2,3,5,8] x, int64[2,5] ids) => (float[2,3,5,8] y) {{
        c = Gather(cosines, ids) s = Gather(sines, ids) cos = Unsqueeze(c, one) sin = Unsqueeze(s, one)
        {HALVES} n = Neg(r) t = Concat <axis = -1> (n, l) {ADD} }}"""
    angles = np.tile(RANDOM.standard_normal((9, 4)), 2)
    tables = {"cosines": np.cos(angles).astype(np.float32), "sines": np.sin(angles).astype(np.float32)}
    model = shaped(make_model(text, opset=23, **WEIGHTS, **tables))
    result = apply_pass(PASS, model, 1e-5, x=X, ids=RANDOM.integers(0, 9, (2, 5)))
    assert "RotaryEmbedding" in kinds(result.model)


@pytest.mark.parametrize("first", ["nothing", "past"])
def test_positions_that_count_the_rows_are_known_to_be_as_many(make_model, shaped, apply_pass, kinds, first):
    text = f"""g (float[batch,3,rows,8] x, int64 past) => (float[batch,3,rows,8] y) {{
        rows1 = Shape <start = 2, end = 3> (x) count = Squeeze(rows1) end_of = Add(count, {first})
        at = Range({first}, end_of, step) places = Cast <to = 1> (at) column = Unsqueeze(places, one)
        a = MatMul(column, speeds) {AT_ONCE} }}"""
    numbers = {"nothing": np.array(0), "step": np.array(1), "speeds": ANGLES[:1]}
    numbers = {name: number for name, number in numbers.items() if f"{name}," in text or f"{name})" in text}
    if first == "nothing":
        text = text.replace("end_of = Add(count, nothing)", "").replace("end_of", "count")
    model = shaped(make_model(text, opset=23, **WEIGHTS, **numbers))
    result = apply_pass(PASS, model, 1e-5, x=X, past=np.array(4))
    assert "RotaryEmbedding" in kinds(result.model)


def test_inside_a_branch(make_model, shaped, apply_pass, kinds):
    text = f"""g (bool b, float[2,3,5,8] x, float[5,4] a) => (float[2,3,5,8] o) {{
        o = If (b) <then_branch = t () => (float[2,3,5,8] y) {{ {AT_ONCE} }},
                    else_branch = e () => (float[2,3,5,8] m) {{ m = Neg(x) }}> }}"""
    model = shaped(make_model(text, opset=23, **WEIGHTS))
    result = apply_pass(PASS, model, 1e-5, x=X, a=ANGLES, b=np.array(True))
    assert "RotaryEmbedding" in kinds(result.model)


def test_other_signs_are_no_rotation(make_model, shaped, kinds):
    for body in (AT_ONCE.replace("(n, l)", "(l, n)"), SPELLINGS[2].replace("Sub", "Add")):
        result = PASS.apply(shaped(make_model(GRAPH.format(body), opset=23, **WEIGHTS)).ir, PassContext())
        assert "RotaryEmbedding" not in kinds(result.model)
        assert not result.refused


REFUSED = (
    (AT_ONCE.replace("(a, a)", "(a, z)"), "of the halves may differ"),
    (AT_ONCE.replace("q = Mul(t, sin)", "q = Mul(t, sin) extra = Neg(q)"), "'q' is used elsewhere too"),
    (AT_ONCE.replace("w = Concat", "h = Concat").replace("(a, a)", "(a, a) w = Mul(h, heads)"), "head to head"),
)


@pytest.mark.parametrize(("body", "reason"), REFUSED)
def test_says_why_it_does_not_fuse(make_model, shaped, kinds, reasons, body, reason):
    weights = {"z": ANGLES, "heads": np.arange(3, dtype=np.float32).reshape(3, 1, 1)}
    weights = {name: array for name, array in weights.items() if f" {name})" in body}
    text = GRAPH.format(body)
    if "extra" in body:
        text = text.replace("float[2,3,5,8] y)", "float[2,3,5,8] y, float[2,3,5,8] extra)")
    result = PASS.apply(shaped(make_model(text, opset=23, **WEIGHTS, **weights)).ir, PassContext())
    assert reason in reasons(result)
    assert result.refused[0].nodes == ("Add 'y'",)
    assert "RotaryEmbedding" not in kinds(result.model)


def test_one_row_of_many_positions_is_not_taken_for_a_rotation(make_model, shaped, reasons):
    # The parts would repeat the row for every angle, which the operator does not.
    text = GRAPH.format(AT_ONCE).replace("float[2,3,5,8] x", "float[2,3,rows,8] x").replace("[5,4]", "[places,4]")
    result = PASS.apply(shaped(make_model(text, opset=23, **WEIGHTS)).ir, PassContext())
    assert "a row for every rotated row" in reasons(result)


def test_below_opset_23_it_says_what_raises_it(make_model, shaped, reasons):
    result = PASS.apply(shaped(make_model(GRAPH.format(AT_ONCE), **WEIGHTS)).ir, PassContext())
    assert "RotaryEmbedding needs opset 23; `--opset 23` raises it" in reasons(result)


def test_all_layers_of_a_llama_share_what_was_made_of_the_angles(tmp_path, kinds, results):
    source = llama(opset=14)
    onnx.save(source, tmp_path / "llama.onnx")
    model = load(tmp_path / "llama.onnx")
    wanted = results(model.ir, **feeds_of(source))
    context = PassContext(target_opset=23)
    rewritten = run_pipeline(model, also=["rotary-embedding"], context=context).model_ir
    assert kinds(rewritten).count("RotaryEmbedding") == 4
    assert kinds(rewritten).count("Squeeze") == 2
    np.testing.assert_allclose(results(rewritten, **feeds_of(source))[0], wanted[0], atol=1e-4)
