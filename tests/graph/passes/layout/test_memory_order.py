import numpy as np

from edgeopt.graph.analysis.liveness import peak_bytes
from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.passes.layout.memory_order import PASS

X = np.random.default_rng(13).standard_normal((4, 4)).astype(np.float32)
# Four wide tensors are made before the first of them is summed up.
WIDE = """g (float[4,4] x) => (float[] y) {
    a = Concat <axis = 0> (x, x, x, x, x, x, x, x) b = Neg(a) c = Abs(a) d = Exp(c) e = Tanh(c)
    p = ReduceSum <keepdims = 0> (b) q = ReduceSum <keepdims = 0> (d) r = ReduceSum <keepdims = 0> (e)
    s = Add(p, q) y = Add(s, r) }"""


def peak(model):
    sizes = {value: int(np.prod(list(value.shape))) * 4 for node in model.graph for value in node.outputs}
    return peak_bytes(model.graph, sizes)[0]


def test_the_peak_falls_and_nothing_else_changes(make_model, shaped, apply_pass, kinds):
    model = shaped(make_model(WIDE))
    result = apply_pass(PASS, model, x=X)
    assert sorted(kinds(result.model)) == sorted(kinds(model.ir))
    assert peak(result.model) < 0.8 * peak(model.ir)
    assert "at their peak" in result.applied[0].what
    assert len(result.applied[0].nodes) > 1


def test_in_a_subgraph(make_model, shaped, apply_pass):
    body = WIDE[WIDE.index("{") + 1 : WIDE.rindex("}")]
    text = f"""g (float[4,4] x, bool p_) => (float[] out) {{ out = If (p_) <
        then_branch = t () => (float[] y) {{ {body} }},
        else_branch = f () => (float[] z) {{ z = ReduceSum <keepdims = 0> (x) }} > }}"""
    model = shaped(make_model(text))
    assert apply_pass(PASS, model, x=X, p_=np.array(True)).applied


def test_what_a_subgraph_reads_is_there_before_it(make_model, shaped, apply_pass, kinds):
    text = """g (float[4,4] x, bool p) => (float[] y) {
        a = Concat <axis = 0> (x, x, x, x, x, x, x, x) b = Neg(a) c = Exp(a) i = If (p) <
            then_branch = t () => (float[] u) { u = ReduceSum <keepdims = 0> (c) },
            else_branch = f () => (float[] v) { v = ReduceSum <keepdims = 0> (a) } >
        s = ReduceSum <keepdims = 0> (b) y = Add(i, s) }"""
    result = apply_pass(PASS, shaped(make_model(text)), x=X, p=np.array(True))
    order = [node.op_type for node in result.model.graph]
    assert order.index("Exp") < order.index("If")


def test_a_chain_has_only_one_order(make_model, shaped, apply_pass):
    model = shaped(make_model("g (float[4,4] x) => (float[4,4] y) { a = Neg(x) b = Exp(a) y = Abs(b) }"))
    assert not apply_pass(PASS, model, x=X).applied


def test_random_numbers_keep_their_order(make_model, shaped, reasons):
    text = """g (float[4,4] x) => (float[4,4] y) {
        a = RandomUniformLike(x) b = RandomUniformLike(x) c = Neg(b) d = Add(a, c) y = Add(d, x) }"""
    result = PASS.apply(shaped(make_model(text)).ir, PassContext())
    assert not result.applied
    assert "random" in reasons(result)
    assert result.refused[0].nodes == ("RandomUniformLike 'a'", "RandomUniformLike 'b'")
