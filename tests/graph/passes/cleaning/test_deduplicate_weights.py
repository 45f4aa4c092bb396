import numpy as np

from edgeopt.graph.passes.cleaning.unused import DEDUPLICATE_WEIGHTS

X = np.float32([[1, -2], [3, 4]])


def test_equal_weights_are_kept_once(make_model, apply_pass):
    text = "g (float[2,2] x) => (float[2,2] y) { a = Add(x, v)  y = Mul(a, w) }"
    result = apply_pass(DEDUPLICATE_WEIGHTS, make_model(text, v=X, w=X.copy()), x=X)
    assert list(result.model.graph.initializers) == ["v"]
    assert result.applied[0].what == "merged 1 equal weight (16 bytes)"


def test_biases_are_not_shared(make_model, apply_pass):
    text = "g (float[2,2] x) => (float[2,2] y) { a = Gemm(x, v, b)  y = Gemm(a, v, c) }"
    bias = np.float32([0.5, 1])
    assert not apply_pass(DEDUPLICATE_WEIGHTS, make_model(text, v=X, b=bias, c=bias.copy()), x=X).applied


def test_scalars_and_vectors_of_integers_are(make_model, apply_pass):
    text = """g (float[2,2] x) => (float[2,2] y) {
        a = Add(x, s)  b = Mul(a, t)  c = Reshape(b, m)  y = Reshape(c, n) }"""
    one, shape = np.float32(1.5), np.int64([2, 2])
    result = apply_pass(DEDUPLICATE_WEIGHTS, make_model(text, s=one, t=one.copy(), m=shape, n=shape.copy()), x=X)
    assert result.applied[0].what == "merged 2 equal weights (20 bytes)"


def test_same_bytes_of_another_type_or_shape_are_not_equal(make_model, apply_pass):
    text = """g (float[2,2] x) => (float[1,2,2] y) {
        a = Add(x, v)  i = Cast <to = 1> (k)  b = Mul(a, i)  y = Add(b, w) }"""
    model = make_model(text, v=np.zeros((2, 2), "f"), w=np.zeros((1, 2, 2), "f"), k=np.zeros((2, 2), np.int32))
    assert not apply_pass(DEDUPLICATE_WEIGHTS, model, x=X).applied


def test_minus_zero_is_not_zero(make_model, apply_pass):
    text = "g (float x) => (float y) { a = Div(x, v)  b = Div(x, w)  y = Max(a, b) }"
    model = make_model(text, v=np.float32(0.0), w=np.float32(-0.0))
    with np.errstate(divide="ignore"):
        assert not apply_pass(DEDUPLICATE_WEIGHTS, model, x=np.float32(1)).applied


def test_a_branch_uses_the_weight_of_the_graph_around_it(make_model, apply_pass):
    text = """g (bool c, float[2,2] x) => (float[2,2] y) {
        r = Add(x, w)
        y = If (c) <then_branch = t () => (float[2,2] a) <float[2,2] v = {1, -2, 3, 4}> { a = Add(r, v) },
                    else_branch = e () => (float[2,2] b) { b = Neg(r) }> }"""
    result = apply_pass(DEDUPLICATE_WEIGHTS, make_model(text, w=X), x=X, c=np.array(True))
    assert [len(graph.initializers) for graph in result.model.graphs()] == [1, 0, 0]


def test_a_weight_that_is_an_input_can_be_fed_and_stays(make_model, apply_pass):
    text = "g (float[2,2] x, float[2,2] v) => (float[2,2] y) { a = Add(x, v)  y = Mul(a, w) }"
    assert not apply_pass(DEDUPLICATE_WEIGHTS, make_model(text, v=X, w=X.copy()), x=X).applied
