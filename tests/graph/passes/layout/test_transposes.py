import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgeopt.graph.passes.layout.transposes import PASS

RANDOM = np.random.default_rng(11)
PICTURE = RANDOM.standard_normal((1, 4, 6, 3)).astype(np.float32)
IN = "t = Transpose <perm = [0, 3, 1, 2]> (x)"
OUT = "y = Transpose <perm = [0, 2, 3, 1]> (u)"
GRAPH = "g (float[1,4,6,3] x) => (float[a,b,c,d] y) {{ {} }}"


def array(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(("text", "left"), [
    (f"{IN} u = Relu(t) {OUT}", ["Relu"]),
    (f"{IN} r = Relu(t) u = Sigmoid(r) {OUT}", ["Relu", "Sigmoid"]),
    (f"{IN} r = Relu(t) u = Mul(r, t) {OUT}", ["Relu", "Mul"]),
    (f"{IN} u = Add(t, channel) {OUT}", ["Add"]),
    (f"{IN} u = Add(t, full) {OUT}", ["Add"]),
    (f"{IN} u = Clip(t, zero, six) {OUT}", ["Clip"]),
    (f"{IN} r = Relu(t) u = Concat <axis = 1> (t, r) {OUT}", ["Relu", "Concat"]),
    (f"{IN} u = Softmax <axis = 1> (t) {OUT}", ["Softmax"]),
    (f"{IN} u = ReduceMean <axes = [2, 3]> (t) {OUT}", ["ReduceMean"]),
    (f"{IN} u = ReduceSum (t, axes) {OUT}", ["ReduceSum"]),
    (f"{IN} u = Pad (t, pads) {OUT}", ["Pad"]),
    (f"{IN} u = Slice (t, start, end, axis) {OUT}", ["Slice"]),
    (f"{IN} u = Slice (t, start, end) {OUT}", ["Slice"]),
    (f"{IN} p, q = Split <axis = 2> (t) u = Add(p, q) {OUT}", ["Split", "Add"]),
    (f"{IN} u = ArgMax <axis = 1> (t) v = Transpose <perm = [0, 2, 3, 1]> (u) y = Cast <to = 1> (v)",
     ["ArgMax", "Cast"]),
    (f"{IN} q = QuantizeLinear(t, scale, point) u = DequantizeLinear(q, scale, point) {OUT}",
     ["QuantizeLinear", "DequantizeLinear"]),
])  # fmt: skip
def test_a_region_between_two_transposes_changes_its_order(make_model, shaped, apply_pass, kinds, text, left):
    numbers = {
        "channel": array(3, 1, 1), "full": array(1, 3, 4, 6), "zero": np.float32(0), "six": np.float32(0.6),
        "axes": np.int64([1, 3]), "pads": np.int64([0, 1, 2, 3, 0, 4, 5, 6]), "axis": np.int64([1]),
        "start": np.int64([0]), "end": np.int64([1]), "scale": np.float32(0.1), "point": np.uint8(128),
    }  # fmt: skip
    opset = 19 if "Quantize" in text else 17  # onnx's evaluator knows no older ones of these
    result = apply_pass(PASS, shaped(make_model(GRAPH.format(text), opset=opset, **numbers)), x=PICTURE)
    assert kinds(result.model) == left
    assert [o.name for o in result.model.graph.outputs] == ["y"]
    assert "saves 2 transposes" in result.applied[0].what


def test_transposes_in_a_row_become_one_or_none(make_model, shaped, apply_pass, kinds):
    text = f"{IN} s = Transpose <perm = [0, 2, 1, 3]> (t) y = Transpose <perm = [0, 2, 1, 3]> (s)"
    assert kinds(apply_pass(PASS, shaped(make_model(GRAPH.format(text))), x=PICTURE).model) == ["Transpose"]


def test_a_model_from_a_world_of_other_order_keeps_two(make_model, shaped, apply_pass, kinds):
    """Convolutions with transposes around each, as converters from TensorFlow write them."""
    layers = " ".join(
        f"a{i} = Transpose <perm = [0, 3, 1, 2]> (r{i}) c{i} = Conv <pads = [1, 1, 1, 1]> (a{i}, w)"
        f" b{i} = Transpose <perm = [0, 2, 3, 1]> (c{i}) d{i} = Add(b{i}, bias) r{i + 1} = Relu(d{i})"
        for i in range(3)
    )
    text = f"r0 = Identity(x) {layers} s = Add(r3, r1) y = Neg(s)"
    model = shaped(make_model(GRAPH.format(text), w=array(3, 3, 3, 3), bias=array(3)))
    result = apply_pass(PASS, model, 1e-5, x=PICTURE)
    assert kinds(result.model).count("Transpose") == 2
    assert kinds(model.ir).count("Transpose") == 6


def test_in_a_subgraph(make_model, shaped, apply_pass, kinds):
    text = f"""y = If (p) <
        then_branch = a () => (float[1,4,6,3] v) {{ {IN} u = Relu(t) v {OUT[1:]} }},
        else_branch = b () => (float[1,4,6,3] w) {{ w = Neg(x) }} >"""
    model = shaped(make_model(GRAPH.format(text).replace("x)", "x, bool p)", 1)))
    assert kinds(apply_pass(PASS, model, x=PICTURE, p=np.array(True)).model) == ["If", "Relu", "Neg"]


def test_a_region_that_would_need_as_many_stays_and_says_why(make_model, shaped, apply_pass, kinds, reasons):
    text = (
        "t = Transpose <perm = [1, 0]> (x) r = Relu(z) s = Add(t, r) y = Transpose <perm = [1, 0]> (s) v = Exp(s)"
    )
    model = shaped(make_model(f"g (float[2,3] x, float[3,2] z) => (float[2,3] y, float[3,2] v) {{ {text} }}"))
    result = apply_pass(PASS, model, x=array(2, 3), z=array(3, 2))
    assert not result.applied
    assert "as many values" in reasons(result)
    assert result.refused[0].nodes == ("Transpose 't'",)


@pytest.mark.parametrize("text", [f"{IN} y = Relu(t)", f"{IN} y = Conv(t, w)", "u = Relu(x) y = Neg(u)"])
def test_a_lone_transpose_is_no_news(make_model, shaped, apply_pass, text):
    result = apply_pass(PASS, shaped(make_model(GRAPH.format(text), w=array(2, 3, 1, 1))), x=PICTURE)
    assert (result.applied, result.refused) == ((), ())


def test_open_dimensions(make_model, shaped, apply_pass, kinds):
    text = GRAPH.format(f"{IN} u = Relu(t) {OUT}").replace("1,4,6,3", "n,h,w,3")
    assert kinds(apply_pass(PASS, shaped(make_model(text)), x=PICTURE).model) == ["Relu"]


def test_an_output_within_the_region_keeps_its_order(make_model, shaped, apply_pass, kinds):
    text = f"g (float[1,4,6,3] x) => (float[a,b,c,d] y, float[1,3,4,6] u) {{ {IN} r = Relu(t) u = Neg(r) {OUT} }}"
    result = apply_pass(PASS, shaped(make_model(text)), x=PICTURE)
    assert kinds(result.model).count("Transpose") == 1
    assert [o.name for o in result.model.graph.outputs] == ["y", "u"]


def test_slices_by_other_integers(make_model, shaped, apply_pass, kinds):
    """All that a Slice reads has one type, what it is told of another order too."""
    text = f"{IN} u = Slice (t, start, end, axis) {OUT}"
    numbers = {"start": np.int32([1]), "end": np.int32([3]), "axis": np.int32([-1])}
    result = apply_pass(PASS, shaped(make_model(GRAPH.format(text), **numbers)), x=PICTURE)
    onnx.shape_inference.infer_shapes(ir.to_proto(result.model), check_type=True, strict_mode=True)
    assert kinds(result.model) == ["Slice"]


def test_a_constant_without_numbers_is_turned_too(make_model, shaped, apply_pass, kinds):
    text = f"{IN} u = Concat <axis = 3> (t, none) {OUT}"
    none = np.zeros((1, 3, 4, 0), np.float32)
    result = apply_pass(PASS, shaped(make_model(GRAPH.format(text), none=none)), x=PICTURE)
    assert [tuple(value.shape) for value in result.model.graph[0].inputs] == [(1, 4, 6, 3), (1, 4, 0, 3)]


def test_a_tensor_that_is_turned_in_two_ways(make_model, shaped, apply_pass, kinds):
    """Each turned copy has a name of its own."""
    text = """g (float[2,3,4] x, float[4,2,3] z, float[3,4,2] e) => (float[2,3,4] y, float[4,2,3] w) {
        a = Transpose <perm = [1, 2, 0]> (x) c = Add(a, e) y = Transpose <perm = [2, 0, 1]> (c)
        b = Transpose <perm = [2, 0, 1]> (z) d = Mul(b, e) w = Transpose <perm = [1, 2, 0]> (d) }"""
    result = apply_pass(PASS, shaped(make_model(text)), x=array(2, 3, 4), z=array(4, 2, 3), e=array(3, 4, 2))
    assert kinds(result.model).count("Transpose") == 2
    names = [node.name for node in result.model.graph if node.name]
    assert len(set(names)) == len(names)


def test_a_transpose_outside_a_branch_is_no_neighbour(make_model, shaped, apply_pass, kinds):
    """It cannot be merged with one inside, so that the branch would need one more than before."""
    text = """g (float[1,4,6,3] x, float[1,4,6,3] z, bool p) => (float[1,3,4,6] y, float[1,3,4,6] o) {
        o = Transpose <perm = [0, 3, 1, 2]> (x) y = If (p) <
        then_branch = a () => (float[1,3,4,6] u) {
            t = Transpose <perm = [0, 3, 1, 2]> (z) s = Add(t, o) u = Relu(s) },
        else_branch = b () => (float[1,3,4,6] v) { v = Neg(o) } > }"""
    result = apply_pass(PASS, shaped(make_model(text)), x=PICTURE, z=PICTURE, p=np.array(True))
    assert kinds(result.model) == ["Transpose", "If", "Transpose", "Add", "Relu", "Neg"]


def test_many_that_save_nothing_do_not_hide_one_that_does(make_model, shaped, apply_pass, kinds):
    lone = " ".join(f"a{i} = Transpose <perm = [1, 0]> (r{i}) r{i + 1} = MatMul(a{i}, w)" for i in range(250))
    text = f"r0 = Identity(x) {lone} t = Transpose(r250) u = Relu(t) y = Transpose(u)"
    model = shaped(make_model(f"g (float[2,2] x) => (float[2,2] y) {{ {text} }}", w=np.eye(2, dtype=np.float32)))
    assert kinds(apply_pass(PASS, model, x=array(2, 2)).model).count("Transpose") == 250


def test_a_transpose_from_a_region_back_into_it_is_not_saved(make_model, shaped, apply_pass):
    """It stays a transpose in any order: counted as gone, the region would be turned to and fro without end."""
    text = """g (float[n,n] x) => (float[n,n] y, float[n,n] z) {
        r = Relu(x) a = Transpose <perm = [1, 0]> (r) y = Add(r, a)
        s = Exp(r) b = Transpose <perm = [1, 0]> (s) z = Mul(s, b) }"""
    result = apply_pass(PASS, shaped(make_model(text)), 1e-6, x=array(3, 3))
    assert not result.applied
