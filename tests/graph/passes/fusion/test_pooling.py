import numpy as np
import pytest

from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.passes.fusion.pooling import PAD_INTO_POOL

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
