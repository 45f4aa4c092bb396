import numpy as np
import pytest

from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.passes.fusion.pooling import GLOBAL_POOLING, PAD_INTO_POOL

PADS = {"p": np.int64([0, 0, 1, 1, 0, 0, 1, 1])}
AVERAGE = "y = AveragePool <kernel_shape = [3, 3]> (l)"
MAXIMUM = "y = MaxPool <kernel_shape = [3, 3]> (l)"
GRAPH = "g (float[1,3,8,8] x) => (float[a,b,c,d] y) {{ {} }}"


@pytest.mark.parametrize(("text", "kinds_left", "value"), [
    (f"l = Pad(x, p) {AVERAGE}", ["AveragePool"], 0.0),
    (f"l = Pad(x, p, v) {AVERAGE}", ["AveragePool"], 0.0),
    (f"l = Pad(x, p, v) {MAXIMUM}", ["MaxPool"], -np.inf),
    (f"r = Relu(x) l = Pad(r, p, v) {MAXIMUM}", ["Relu", "MaxPool"], 0.0),
])  # fmt: skip
def test_the_pool_pads_itself(make_model, apply_pass, kinds, image, text, kinds_left, value):
    model = make_model(GRAPH.format(text), v=np.float32(value), **PADS)
    assert kinds(apply_pass(PAD_INTO_POOL, model, 1e-6, x=image).model) == kinds_left


def test_in_a_subgraph(make_model, apply_pass, kinds, image):
    text = f"""g (float[1,3,8,8] x, bool q) => (float[1,3,8,8] y) {{ y = If (q) <
        then_branch = t () => (float[1,3,8,8] u) {{ l = Pad(x, p) u {AVERAGE[1:]} }},
        else_branch = e () => (float[1,3,8,8] v) {{ v = Neg(x) }} > }}"""
    result = apply_pass(PAD_INTO_POOL, make_model(text, **PADS), 1e-6, x=image, q=np.array(True))
    assert kinds(result.model) == ["If", "AveragePool", "Neg"]


@pytest.mark.parametrize(("text", "reason"), [
    (f"l = Pad(x, p) {MAXIMUM}", "could be the maximum"),
    (f"l = Pad(x, p, one) {AVERAGE}", "pads with 1"),
    (f"l = Pad <mode = \"reflect\"> (x, p) {AVERAGE}", "reflect"),
    ("l = Pad(x, p) y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (l)", "pads too"),
    ("l = Pad(x, p) y = AveragePool <kernel_shape = [1, 1]> (l)", "runtimes refuse"),
    (f"l = Pad(x, batch) {AVERAGE}", "axes other than"),
])  # fmt: skip
def test_what_stays_says_why(make_model, apply_pass, kinds, image, reasons, text, reason):
    numbers = {"one": np.float32(1), "batch": np.int64([1, 0, 0, 0, 0, 0, 0, 0])}
    model = make_model(GRAPH.format(text), **numbers, **PADS)
    result = apply_pass(PAD_INTO_POOL, model, x=image)
    assert not result.applied
    assert reason in reasons(result)
    assert result.refused[0].nodes == ("Pad 'l'",)
    assert kinds(result.model)[0] == "Pad"


def test_axes_given_by_name(make_model, shaped, apply_pass, kinds, image):
    text = f"l = Pad(x, two, , axes) {AVERAGE}"
    numbers = {"two": np.int64([1, 2, 0, 1]), "axes": np.int64([-1, 2])}
    result = apply_pass(PAD_INTO_POOL, shaped(make_model(GRAPH.format(text), opset=18, **numbers)), 1e-6, x=image)
    assert kinds(result.model) == ["AveragePool"]
    assert list(result.model.graph[0].attributes["pads"].as_ints()) == [2, 1, 1, 0]


def test_a_dilated_pool_may_see_padding_only(make_model, reasons):
    text = "r = Relu(x) l = Pad(r, p) y = MaxPool <kernel_shape = [2, 2], dilations = [3, 3]> (l)"
    result = PAD_INTO_POOL.apply(make_model(GRAPH.format(text), **PADS).ir, PassContext())
    assert not result.applied
    assert "only padding" in reasons(result)


def test_what_a_function_gets_as_arguments_is_left_alone(make_model, kinds):
    body = """<domain: "own", opset_import: ["" : 17]> f <size> (x) => (y) {
        n = Constant <value_ints = [0, 0, 1, 1, 0, 0, 1, 1]> () p = Pad(x, n)
        y = AveragePool <kernel_shape: ints = @size> (p) }"""
    text = "g (float[1,3,8,8] x) => (float[1,3,8,8] y) { y = own.f <size = [3, 3]> (x) }"
    result = PAD_INTO_POOL.apply(make_model(text, functions=body).ir, PassContext())
    assert (result.applied, result.refused) == ((), ())
    assert "Pad" in kinds(result.model)


@pytest.mark.parametrize(("shape", "nonempty_only"), [("n,3,8,8", False), ("1,3,h,8", True)])
def test_a_picture_that_may_be_empty_is_padded_for_non_empty_inputs_only(
    make_model, apply_pass, kinds, image, reasons, shape, nonempty_only
):
    model = make_model(f"g (float[{shape}] x) => (float[a,b,c,d] y) {{ l = Pad(x, p) {AVERAGE} }}", **PADS)
    result = apply_pass(PAD_INTO_POOL, model, 1e-6, x=image)
    assert kinds(result.model) == ["AveragePool"]
    assert result.nonempty_only == nonempty_only
    kept = PAD_INTO_POOL.apply(model.ir, PassContext(empty_inputs=True))
    assert kinds(kept.model) == (["Pad", "AveragePool"] if nonempty_only else ["AveragePool"])
    assert ("may be empty" in reasons(kept)) == nonempty_only


X = np.float32(np.random.default_rng(8).standard_normal((2, 3, 5, 4)))
AXES = {"picture": [2, 3], "back": [-1, -2], "last": [3], "all": [1, 2, 3]}
HEADER = "g (float[2,3,5,4] x) => (float[2,3,1,1] y) "


def test_a_maximum_over_the_picture(make_model, apply_pass, kinds, image):
    text = "g (float[1,3,8,8] x) => (float[1,3,1,1] y) { y = ReduceMax(x, picture) }"
    result = apply_pass(GLOBAL_POOLING, make_model(text, opset=18, **AXES), x=image)
    assert kinds(result.model) == ["GlobalMaxPool"]


@pytest.mark.parametrize("axes", ["picture", "back"])
def test_a_mean_over_the_picture_becomes_pooling(make_model, apply_pass, kinds, axes):
    model = make_model(HEADER + f"{{ y = ReduceMean(x, {axes}) }}", opset=18, **AXES)
    result = apply_pass(GLOBAL_POOLING, model, tolerance=1e-6, x=X)
    assert kinds(result.model) == ["GlobalAveragePool"]
    assert result.applied[0].nodes


def test_axes_as_an_attribute_before_opset_18(make_model, apply_pass, kinds):
    model = make_model(HEADER + "{ y = ReduceMean <axes = [2, 3]> (x) }", opset=17)
    assert kinds(apply_pass(GLOBAL_POOLING, model, tolerance=1e-6, x=X).model) == ["GlobalAveragePool"]


def test_inside_a_branch(make_model, apply_pass, kinds):
    text = """g (bool c, float[2,3,5,4] x) => (float[2,3,1,1] y) {
        y = If (c) <then_branch = t () => (float[2,3,1,1] a) { a = ReduceMean <axes = [2, 3]> (x) },
                    else_branch = e () => (float[2,3,1,1] b) { b = GlobalMaxPool(x) }> }"""
    result = apply_pass(GLOBAL_POOLING, make_model(text), tolerance=1e-6, x=X, c=np.array(True))
    assert sorted(kinds(result.model)) == ["GlobalAveragePool", "GlobalMaxPool", "If"]


@pytest.mark.parametrize(
    ("nodes", "shape", "reason"),
    [
        ("y = ReduceMean <keepdims = 0> (x, picture)", "2,3", "drops the dimensions"),
        ("m = ReduceMean(x, picture)  y = Sub(x, m)", "2,3,5,4", "part of a normalization"),
    ],
)
def test_what_is_left_alone_is_told_why(make_model, apply_pass, reasons, nodes, shape, reason):
    model = make_model(f"g (float[2,3,5,4] x) => (float[{shape}] y) {{ {nodes} }}", opset=18, **AXES)
    result = apply_pass(GLOBAL_POOLING, model, x=X)
    assert not result.applied
    assert reason in reasons(result)


@pytest.mark.parametrize(("axes", "shape"), [("last", "2,3,5,1"), ("all", "2,1,1,1")])
def test_other_means_are_none_of_its_business(make_model, apply_pass, axes, shape):
    text = f"g (float[2,3,5,4] x) => (float[{shape}] y) {{ y = ReduceMean(x, {axes}) }}"
    model = make_model(text, opset=18, **AXES)
    result = apply_pass(GLOBAL_POOLING, model, x=X)
    assert not result.applied
    assert not result.refused


@pytest.mark.parametrize(("text", "reason"), [
    ("g (int8[2,3,5,4] x) => (int8[2,3,1,1] y) { y = MaxPool <kernel_shape = [5, 4]> (x) }", "int8"),
    ("g (double[2,3,5,4] x) => (double[2,3,1,1] y) { y = ReduceMean <axes = [2, 3]> (x) }", "double"),
])  # fmt: skip
def test_types_that_runtimes_do_not_pool_stay(make_model, reasons, text, reason):
    result = GLOBAL_POOLING.apply(make_model(text).ir, PassContext())
    assert not result.applied
    assert reason in reasons(result)


def test_tensors_of_more_dimensions_than_pictures_stay(make_model, apply_pass):
    text = "g (float[1,1,1,1,1,1] x) => (float[1,1,1,1,1,1] y) { y = ReduceMean <axes = [2, 3, 4, 5]> (x) }"
    assert not apply_pass(GLOBAL_POOLING, make_model(text), x=np.ones((1,) * 6, np.float32)).applied


@pytest.mark.parametrize(("shape", "nonempty_only"), [("n,3,5,4", False), ("2,3,h,4", True), ("2,3,h,w", True)])
def test_a_picture_that_may_be_empty_is_pooled_for_non_empty_inputs_only(
    make_model, apply_pass, kinds, reasons, shape, nonempty_only
):
    text = f"g (float[{shape}] x) => (float[a,b,c,d] y) {{ y = ReduceMean(x, picture) }}"
    model = make_model(text, opset=18, **AXES)
    result = apply_pass(GLOBAL_POOLING, model, tolerance=1e-6, x=X)
    assert kinds(result.model) == ["GlobalAveragePool"]
    assert result.nonempty_only == nonempty_only
    kept = GLOBAL_POOLING.apply(model.ir, PassContext(empty_inputs=True))
    assert kinds(kept.model) == ["ReduceMean" if nonempty_only else "GlobalAveragePool"]
    assert ("may be empty" in reasons(kept)) == nonempty_only
