import numpy as np
import onnx_ir as ir
import pytest

from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.passes.cleaning.folding import FOLD_SHAPES

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
WEIGHTS = {
    "n0": np.int64(0), "n1": np.int64(1), "i0": np.int64([0]), "i1": np.int64([1]), "i2": np.int64([2]),
    "two": np.int64([2]), "twelve": np.int64([12]), "minus": np.int64([-1]), "ones": np.int64([1, 1, 1]),
    "first": np.int64([0, 1]), "big": np.int64([9]),
}  # fmt: skip

WITHOUT_ARITHMETIC = (
    # (the shape of x, how the shape is computed, what y then is)
    (
        "2,3,4",
        "s = Shape(x)  n = Gather(s, i1)  m = Mul(n, two)  t = Concat <axis = 0> (m, minus)",
        "Reshape(x, t)",
    ),
    (
        "b,3,4",
        "s = Shape(x)  n = Gather(s, n0)  u = Unsqueeze(n, i0)  t = Concat <axis = 0> (u, twelve)",
        "Reshape(x, t)",
    ),
    (
        "b,3,4",
        "s = Shape(x)  n = Gather(s, i0)  m = Mul(n, two)  d = Div(m, two)  t = Concat <axis = 0> (d, minus)",
        "Reshape(x, t)",
    ),
    (
        "b,s,4",
        "k = Shape(x)  n = Slice(k, i0, i1)  m = Slice(k, i1, i2)  t = Concat <axis = 0> (n, m, two, two)",
        "Reshape(x, t)",
    ),
    (
        "b,s,4",
        "k = Shape(x) a = Gather(k, i0) c = Gather(k, i1) m = Mul(a, c) f = Mul(m, i2) t = Concat <axis=0>(f, i2)",
        "Reshape(x, t)",
    ),
    ("b,3,4", "t = Shape(x)", "Expand(x, t)"),
    ("b,3,4", "t = Shape(x)  e = Gather(t, i0)", "Slice(x, i0, e, i0)"),
    ("b,3,4", "t = Shape(x)  f = Equal(t, minus)  g = Where(f, ones, t)", "Expand(x, g)"),
)


def build(make_model, shape, nodes, output="float y"):
    words = nodes.replace("(", " ").replace(")", " ").replace(",", " ").split()
    weights = {name: array for name, array in WEIGHTS.items() if name in words}
    return make_model(f"g (float[{shape}] x) => ({output}) {{ {nodes} }}", **weights)


@pytest.fixture
def model_of(make_model, shaped, results):
    def make(shape, nodes):
        model = build(make_model, shape, nodes)
        rank = results(model.ir, x=X)[0].ndim
        model.ir.graph.outputs[0].shape = ir.Shape([None] * rank)
        return shaped(model)

    return make


@pytest.mark.parametrize(("shape", "before", "last"), WITHOUT_ARITHMETIC)
def test_arithmetic_on_shapes_goes_away(model_of, apply_pass, kinds, shape, before, last):
    result = apply_pass(FOLD_SHAPES, model_of(shape, f"{before}  y = {last}"), x=X)
    assert kinds(result.model) == [last.split("(")[0]]


@pytest.mark.parametrize(("shape", "before", "last"), WITHOUT_ARITHMETIC[1:])
def test_open_dimensions_stay_open(model_of, results, shape, before, last):
    model = model_of(shape, f"{before}  y = {last}")
    wide = np.arange(60, dtype=np.float32).reshape(5, 3, 4)
    after = FOLD_SHAPES.apply(model.ir, PassContext()).model
    np.testing.assert_array_equal(results(after, x=wide)[0], results(model.ir, x=wide)[0])


def test_says_how_many_dimensions_are_open(model_of, kinds, reasons):
    nodes = "t0 = Shape(x)  n = Slice(t0, i1, i2)  m = Slice(t0, i0, i1)  t = Concat <axis = 0> (n, m, two, two)"
    model = model_of("b,s,4", f"{nodes}  y = Reshape(x, t)")
    result = FOLD_SHAPES.apply(model.ir, PassContext())
    assert "2 dimensions of the new shape are known only at run time" in reasons(result)
    assert result.refused[0].nodes == ("Reshape 'y'",)
    assert "Concat" in kinds(result.model)


def test_what_an_output_is_declared_to_be_proves_nothing(make_model, shaped, kinds):
    text = "g (float[b,4] x) => (float[1,4] r, int64[2] t) { r = Relu(x)  s = Shape(r)  t = Mul(s, i1) }"
    model = shaped(make_model(text, i1=WEIGHTS["i1"]))
    result = FOLD_SHAPES.apply(model.ir, PassContext())
    assert kinds(result.model) == ["Relu", "Shape", "Mul"]


def test_a_condition_on_a_shape_is_known(make_model, shaped, kinds):
    text = """g (float[b,3,4] x) => (float[b,3,4] y) {
        s = Shape(x)  n = Size(s)  c = Equal(n, three)
        y = If (c) <then_branch = t () => (float[b,3,4] a) { a = Relu(x) },
                    else_branch = e () => (float[b,3,4] d) { d = Neg(x) }> }"""
    result = FOLD_SHAPES.apply(shaped(make_model(text, three=np.int64(3))).ir, PassContext())
    assert sorted(kinds(result.model)) == ["If", "Neg", "Relu"]
    assert result.model.graph[0].inputs[0].const_value.numpy().item() is True


def test_in_a_branch(make_model, shaped, apply_pass, kinds):
    text = """g (bool c, float[b,3,4] x) => (float[n,m] y) {
        y = If (c) <then_branch = t () => (float[n,m] a) {
                        s = Shape(x)  n = Gather(s, i0)  k = Concat <axis = 0> (n, twelve)  a = Reshape(x, k) },
                    else_branch = e () => (float[n,m] d) { d = Flatten(x) }> }"""
    weights = {name: WEIGHTS[name] for name in ("i0", "twelve")}
    result = apply_pass(FOLD_SHAPES, shaped(make_model(text, **weights)), x=X, c=np.array(True))
    assert sorted(kinds(result.model)) == ["Flatten", "If", "Reshape"]


def test_sizes_that_become_an_output_are_computed_as_before(make_model, shaped, apply_pass, kinds):
    model = make_model("g (float[2,3,4] x) => (int64[3] y) { y = Shape(x) }")
    assert kinds(apply_pass(FOLD_SHAPES, shaped(model), x=X).model) == ["Shape"]


def test_numbers_that_are_no_sizes_are_left_alone(make_model, shaped, apply_pass, kinds):
    text = "g (float[2,3,4] x) => (float[2,3,4] y) { a = Cast <to = 7> (x)  b = Neg(a)  y = Cast <to = 1> (b) }"
    assert kinds(apply_pass(FOLD_SHAPES, shaped(make_model(text)), x=X).model) == ["Cast", "Neg", "Cast"]


def test_what_the_file_claims_of_inner_values_proves_nothing(make_model, results):
    from edgeopt.graph.pipeline import run_pipeline

    text = "g (float[b,4] x) => (float[n] y) { r = Relu(x)  s = Shape(r)  n = ReduceProd(s)  y = Reshape(x, n) }"
    model = make_model(text)
    model.ir.graph[0].outputs[0].shape = ir.Shape([1, 4])  # as exporters write it that froze the batch of one
    after = run_pipeline(model).model_ir
    assert results(after, x=np.ones((3, 4), np.float32))[0].shape == (12,)


@pytest.mark.parametrize(("size", "power"), [(16, 60), (8, 60), ("N", 60)])
def test_what_wraps_round_is_left_to_the_runtime(make_model, shaped, kinds, size, power):
    text = f"g (float[{size}] x) => (int64[1] y) {{ s = Shape(x)  a = Mul(s, k)  b = Div(a, k)  y = Add(b, b) }}"
    result = FOLD_SHAPES.apply(shaped(make_model(text, k=np.int64([2**power]))).ir, PassContext())
    assert {"Div", "Add"} <= set(kinds(result.model))


def test_numbers_of_32_bits_wrap_sooner(make_model, shaped, kinds):
    text = """g (float[4] x) => (int32[1] y) {
        s = Shape(x)  c = Cast<to = 6>(s)  a = Mul(c, k)  b = Div(a, k)  y = Add(b, b) }"""
    result = FOLD_SHAPES.apply(shaped(make_model(text, k=np.int32([2**30]))).ir, PassContext())
    assert {"Div", "Add"} <= set(kinds(result.model))


def test_a_squeeze_by_no_axes_drops_all_dimensions_of_one_as_runtimes_do(make_model, shaped):
    text = "g (float[1,4,1] x) => (float[4] y) { q = Squeeze(x, e)  y = Neg(q) }"
    model = shaped(make_model(text, e=np.zeros(0, np.int64)))
    assert list(model.ir.graph[0].outputs[0].shape) == [4]


@pytest.mark.parametrize(("nodes", "nonempty_only"), [
    # [0, -1]: with an empty batch no runtime can tell the -1
    ("k = Shape(x) n = Gather(k, i0) c = Gather(k, i1) m = Mul(c, two) t = Concat <axis = 0> (n, m, two)", True),
    # [0, 0, 2, 2] and [-1, 2] hold for every size
    ("k = Shape(x) n = Gather(k, i0) c = Gather(k, i1) t = Concat <axis = 0> (n, c, two, two)", False),
    ("k = Shape(x) a = Gather(k, i0) c = Gather(k, i1) m = Mul(a, c) f = Mul(m, i2) t = Concat <axis = 0> (f, i2)",
     False),
])  # fmt: skip
def test_an_empty_batch_keeps_its_shape_where_that_is_asked_for(model_of, results, reasons, nodes, nonempty_only):
    model, empty = model_of("b,s,4", f"{nodes}  y = Reshape(x, t)"), np.zeros((0, 3, 4), np.float32)
    result = FOLD_SHAPES.apply(model.ir, PassContext())
    assert result.applied
    assert result.nonempty_only == nonempty_only
    kept = FOLD_SHAPES.apply(model.ir, PassContext(empty_inputs=True))
    assert bool(kept.applied) != nonempty_only
    assert ("ambiguous" in reasons(kept)) == nonempty_only
    assert results(kept.model, x=empty)[0].shape == results(model.ir, x=empty)[0].shape
