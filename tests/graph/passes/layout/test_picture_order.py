import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.passes.layout import transposes
from edgeopt.graph.passes.layout.picture_order import FIRST, LAST, PASS
from edgeopt.graph.shapes.infer import infer_shapes
from edgeopt.graph.structure import as_model_takes, as_source_gives, axis_orders

RANDOM = np.random.default_rng(21)
IN, OUT = "Transpose <perm = [0, 3, 1, 2]>", "Transpose <perm = [0, 2, 3, 1]>"
CLASSIFIER = "c = Conv(x, w) r = Relu(c) p = GlobalAveragePool(r) y = Flatten(p)"


def array(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


@pytest.fixture
def turn(make_model, shaped, results):
    """Turns a model, saves transposes, and sees to it that it gives what it gave."""

    def apply(text, layout, **weights):
        model = shaped(make_model(text, **weights))
        before = ir.to_proto(model.ir).SerializeToString()
        result = PASS.apply(model.ir, PassContext(layout=layout))
        assert ir.to_proto(model.ir).SerializeToString() == before
        infer_shapes(result.model)
        done = transposes.PASS.apply(result.model, PassContext()).model
        onnx.checker.check_model(ir.to_proto(done), full_check=True)
        sample = {
            str(value.name): array(*value.shape)
            if value.dtype == ir.DataType.FLOAT
            else RANDOM.integers(0, 256, tuple(value.shape)).astype(value.dtype.numpy())
            for value in model.ir.graph.inputs
        }
        wanted = dict(zip([o.name for o in model.ir.graph.outputs], results(model.ir, **sample), strict=True))
        names = [o.name for o in done.graph.outputs]
        got = ReferenceEvaluator(ir.to_proto(done)).run(None, as_model_takes(sample, done))
        (got,) = as_source_gives([dict(zip(names, got, strict=True))], done)
        for name, numbers in wanted.items():
            np.testing.assert_allclose(got[name], numbers, rtol=1e-5, atol=1e-5)
        return result, done

    return apply


def border(model):
    return {v.name: tuple(v.shape) for v in (*model.graph.inputs, *model.graph.outputs)}


def test_a_classifier_takes_channels_last_with_one_transpose(turn, kinds):
    text = f"g (float[1,3,8,6] x) => (float[1,4] y) {{ {CLASSIFIER} }}"
    result, model = turn(text, LAST, w=array(4, 3, 3, 3))
    assert border(model) == {"x": (1, 8, 6, 3), "y": (1, 4)}
    assert kinds(model) == ["Transpose", "Conv", "Relu", "GlobalAveragePool", "Flatten"]
    assert [c.what for c in result.applied] == ["takes 'x' as [1, 8, 6, 3]"]
    assert result.applied[0].nodes == ("x",)


def test_pictures_that_come_out_are_turned_too(turn, kinds):
    text = """g (uint8[n,3,h,w] x) => (float[n,4,h,w] y, float[n,4,h,w] inner) {
        f = Cast <to = 1> (x) d = Div(f, k) inner = Conv <pads = [1, 1, 1, 1]> (d, w) y = Sigmoid(inner) }"""
    fixed = text.replace("n,", "2,").replace("h,w", "8,6")
    result, model = turn(fixed, LAST, w=array(4, 3, 3, 3), k=np.float32([[[127]], [[128]], [[129]]]))
    assert border(model) == {"x": (2, 8, 6, 3), "y": (2, 8, 6, 4), "inner": (2, 8, 6, 4)}
    assert kinds(model).count("Transpose") == 3
    assert [c.nodes for c in result.applied] == [("x",), ("y",), ("inner",)]


def test_open_dimensions_keep_their_names(make_model, shaped):
    model = shaped(
        make_model("g (float[n,3,h,w] x) => (float[n,4,h,w] y) { y = Conv(x, v) }", v=array(4, 3, 1, 1))
    )
    result = PASS.apply(model.ir, PassContext(layout=LAST))
    assert [c.what for c in result.applied] == ["takes 'x' as [n, h, w, 3]", "gives 'y' as [n, h, w, 4]"]


@pytest.mark.parametrize(("first", "last", "to_first", "kernel"), [
    ("1,3,8", "1,8,3", "0, 2, 1", (4, 3, 3)),
    ("1,3,4,5,6", "1,4,5,6,3", "0, 4, 1, 2, 3", (4, 3, 3, 3, 3)),
])  # fmt: skip
def test_signals_and_volumes(turn, kinds, first, last, to_first, kernel):
    out = ",".join("abcde"[: len(kernel)])
    text = f"g (float[{first}] x) => (float[{out}] y) {{ y = Conv(x, w) }}"
    _, model = turn(text, LAST, w=array(*kernel))
    assert border(model)["x"] == tuple(map(int, last.split(",")))
    text = f"g (float[{last}] x) => (float[{out}] y) {{ t = Transpose <perm = [{to_first}]> (x) y = Conv(t, w) }}"
    _, model = turn(text, FIRST, w=array(*kernel))
    assert border(model)["x"] == tuple(map(int, first.split(",")))
    assert kinds(model) == ["Conv"]


def test_a_model_from_tensorflow_loses_its_transposes(turn, kinds):
    """Pixels are prepared, convolved and handed out in the order of TensorFlow."""
    text = f"""g (float[1,8,6,3] x) => (float[1,4,3,4] y, float[1,4] scores) {{
        s = Sub(x, mean) t = {IN} (s) c = Conv <pads = [1, 1, 1, 1]> (t, w) r = Relu(c)
        p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r) u = {OUT} (p) y = Sigmoid(u)
        g = GlobalAveragePool(p) scores = Flatten(g) }}"""
    result, model = turn(text, FIRST, w=array(4, 3, 3, 3), mean=array(3))
    assert border(model) == {"x": (1, 3, 8, 6), "y": (1, 4, 4, 3), "scores": (1, 4)}
    assert "Transpose" not in kinds(model)
    assert [c.what for c in result.applied] == ["takes 'x' as [1, 3, 8, 6]", "gives 'y' as [1, 4, 4, 3]"]


def test_of_two_inputs_only_the_picture_is_turned(turn, kinds):
    text = """g (float[1,3,8,8] picture, float[1,2,4,4] state) => (float[1,4] y, float[1,2,4,4] z) {
        c = Conv(picture, w) p = GlobalAveragePool(c) y = Flatten(p) z = MatMul(state, state) }"""
    result, model = turn(text, LAST, w=array(4, 3, 3, 3))
    assert border(model) == {"picture": (1, 8, 8, 3), "state": (1, 2, 4, 4), "y": (1, 4), "z": (1, 2, 4, 4)}
    assert (len(result.applied), result.refused) == (1, ())


def test_two_pictures_that_are_put_together(turn):
    text = """g (float[1,3,8,6] a, float[1,3,8,6] b) => (float[1,4] y) {
        x = Concat <axis = 1> (a, b) c = Conv(x, w) p = GlobalAveragePool(c) y = Flatten(p) }"""
    _, model = turn(text, LAST, w=array(4, 6, 3, 3))
    assert border(model) == {"a": (1, 8, 6, 3), "b": (1, 8, 6, 3), "y": (1, 4)}


def test_a_convolution_in_a_branch_reads_the_turned_input(turn, kinds):
    text = """g (float[1,3,8,6] x, bool p) => (float[1,4,6,4] y) {
        y = If (p) < then_branch = a () => (float[1,4,6,4] u) { u = Conv(x, w) },
                     else_branch = b () => (float[1,4,6,4] v) { c = Conv(x, w) v = Neg(c) } > }"""
    _, model = turn(text, LAST, w=array(4, 3, 3, 3))
    assert border(model) == {"x": (1, 8, 6, 3), "p": (), "y": (1, 4, 6, 4)}
    assert kinds(model).count("Transpose") == 1


@pytest.mark.parametrize(("text", "layout", "reason", "nodes"), [
    ("c = Conv(x, w) y = Flatten(x)", LAST,
     "the input 'x' is also read by nodes that depend on the order of its dimensions", ("Flatten 'y'",)),
    (f"t = {IN} (x) c = Conv(t, w) n = Neg(x) y = MatMul(n, n)", FIRST,
     "the input 'x' is also read", ("MatMul 'y'",)),
    (f"c = Conv(x, w) t = {IN} (x) y = MaxPool <kernel_shape = [2, 2]> (t)", LAST, "in both orders",
     ("Conv 'c'", "MaxPool 'y'")),
    ("y = Conv(x, w)", FIRST, "'x' is channels-first already", ("Conv 'y'",)),
    ("y = MatMul(x, x)", LAST, "no input is read as a picture", ()),
    ("y = Conv(x, w)", "", "--layout channels-last or --layout channels-first", ()),
])  # fmt: skip
def test_what_cannot_be_says_why(make_model, shaped, reasons, text, layout, reason, nodes):
    model = shaped(make_model(f"g (float[1,6,6,6] x) => (float[a,b] y) {{ {text} }}", w=array(4, 6, 3, 3)))
    result = PASS.apply(model.ir, PassContext(layout=layout))
    assert not result.applied, "neither an input nor an output is turned alone"
    assert reason in reasons(result)
    assert result.refused[0].nodes == nodes


def test_keys_of_attention_are_no_picture(make_model, shaped, reasons):
    text = f"""g (float[1,7,2,4] q, float[1,7,2,4] k) => (float[a,b,c,d] y) {{
        p = Transpose <perm = [0, 2, 1, 3]> (q) t = {OUT} (k) y = MatMul(p, t) }}"""
    result = PASS.apply(shaped(make_model(text)).ir, PassContext(layout=LAST))
    assert (result.applied, "no input is read as a picture" in reasons(result)) == ((), True)


@pytest.mark.parametrize(("scales", "taken"), [([1, 1, 2, 2], (1, 8, 6, 3)), ([1, 2, 2, 1], None)])
def test_a_resize_tells_the_order_by_what_it_leaves(make_model, shaped, scales, taken):
    text = "g (float[1,3,8,6] x) => (float[a,b,c,d] y) { y = Resize(x, , s) }"
    model = shaped(make_model(text, s=np.float32(scales)))
    result = PASS.apply(model.ir, PassContext(layout=LAST))
    assert bool(result.applied) == bool(taken)
    if taken:
        assert border(result.model)["x"] == taken


def test_another_round_turns_nothing_back(make_model, shaped):
    model = shaped(
        make_model("g (float[1,3,8,6] x) => (float[a,b,c,d] y) { y = Conv(x, w) }", w=array(4, 3, 3, 3))
    )
    first = PASS.apply(model.ir, PassContext(layout=LAST))
    again = PASS.apply(first.model, PassContext(layout=LAST))
    assert (again.applied, again.refused) == ((), ())
    assert axis_orders(again.model) == {"x": (0, 2, 3, 1), "y": (0, 2, 3, 1)}
    assert axis_orders(model.ir) == {}
