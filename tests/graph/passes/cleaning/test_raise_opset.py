import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.passes.cleaning.raise_opset import PASS

X = np.float32([[1, -2], [3, -4]])
BRANCH = """g (bool c, float[2,2] x) => (float[2,2] y) {
    y = If (c) <then_branch = t () => (float[2,2] a) { a = Relu(x) },
                else_branch = e () => (float[2,2] b) { b = Neg(x) }> }"""


def test_an_old_model_is_converted_with_its_weights(make_model, apply_pass):
    text = "g (float[2,2] x, float[2] w) => (float[2,2] y) { a = Add(x, w)  y = Softmax <axis = 1> (a) }"
    model = make_model(text, opset=9, ir_version=4, w=np.float32([1, 2]))
    result = apply_pass(PASS, model, 1e-6, x=X)
    assert result.model.opset_imports[""] == 17
    assert [i.name for i in result.model.graph.inputs] == ["x", "w"]
    assert result.applied[0].what == "raised the opset from 9 to 17"


def test_a_weight_that_is_no_input_survives_the_conversion(make_model, apply_pass):
    model = make_model("g (float[2,2] x) => (float[2,2] y) { y = Add(x, w) }", opset=8, w=np.float32([1, 2]))
    result = apply_pass(PASS, model, x=X)
    assert [i.name for i in result.model.graph.inputs] == ["x"]
    assert "w" in result.model.graph.initializers


def test_from_13_on_subgraphs_come_along(make_model, apply_pass):
    result = apply_pass(PASS, make_model(BRANCH, opset=13), x=X, c=np.array(True))
    assert result.model.opset_imports[""] == 17


def test_before_9_subgraphs_are_a_reason_to_refuse(make_model, apply_pass, reasons):
    result = apply_pass(PASS, make_model(BRANCH, opset=8, ir_version=4), x=X, c=np.array(False))
    assert "does not look into subgraphs" in reasons(result)
    assert "If 'y'" in result.refused[0].nodes
    assert result.model.opset_imports[""] == 8


def test_nodes_in_a_branch_take_their_new_form(make_model, apply_pass, shaped):
    text = BRANCH.replace("a = Relu(x)", "s = Softmax <axis = 1> (x)  a = Clip <min = 0.25, max = 0.5> (s)")
    result = apply_pass(PASS, shaped(make_model(text, opset=10, ir_version=5)), x=X, c=np.array(True))
    assert result.model.opset_imports[""] == 17


def test_a_softmax_over_several_axes_in_a_branch_stays_one(make_model, shaped):
    text = BRANCH.replace("a = Relu(x)", "a = Softmax <axis = 0> (x)")
    model = shaped(make_model(text, opset=11))
    raised = PASS.apply(model.ir, PassContext()).model
    assert raised.opset_imports[""] == 17
    feeds = {"x": X, "c": np.array(True)}
    # onnx's reference takes one axis only, whatever the opset.
    np.testing.assert_allclose(in_runtime(raised, **feeds), in_runtime(model.ir, **feeds), rtol=1e-6)


NEWER = (
    # (opset, to, nodes from x to y)
    (9, 17, "y = Slice <starts = [0], ends = [2], axes = [1]> (x)"),
    (9, 17, "y, i = TopK <k = 2> (x)"),
    (10, 17, "y = Pad <pads = [0, 1, 0, 0], value = 3.0> (x)"),
    (11, 17, "a = Unsqueeze <axes = [0]> (x)  y = Squeeze <axes = [0]> (a)"),
    (11, 17, "y, z = Split <axis = 0, split = [1, 1]> (x)"),
    (11, 17, "y = ReduceSum <axes = [1]> (x)"),
    (11, 17, "y = Dropout <ratio = 0.25> (x)"),
    (17, 18, "y = ReduceMean <axes = [1]> (x)"),
    (17, 18, "y = ReduceMax(x)"),
    (17, 18, "y, z = Split <axis = 0> (x)"),
    (17, 28, "a = ReduceL2 <axes = [0]> (x)  y = Neg(a)"),
)


@pytest.mark.parametrize(("before", "after", "nodes"), NEWER)
def test_the_results_stay_the_same(make_model, results, shaped, before, after, nodes):
    text = f"g (float[2,2] x) => (float[N,M] y) {{ {nodes} }}"
    model = shaped(make_model(text, opset=before, ir_version=4))
    result = PASS.apply(model.ir, PassContext(target_opset=after))
    assert result.model.opset_imports[""] == after
    onnx.checker.check_model(ir.to_proto(result.model), full_check=True)
    np.testing.assert_array_equal(results(result.model, x=X)[0], results(model.ir, x=X)[0])


def test_roi_align_keeps_its_rounding(make_model, kinds):
    text = "g (float[1,1,4,4] x, float[1,4] r, int64[1] i) => (float[1,1,1,1] y) { y = RoiAlign(x, r, i) }"
    result = PASS.apply(make_model(text, opset=13).ir, PassContext())
    mode = result.model.graph[0].attributes["coordinate_transformation_mode"].as_string()
    assert mode == "output_half_pixel"


def test_scales_by_group_become_scales_by_channel(results):
    text = "g (float[1,4,2] x) => (float[1,4,2] y) { y = GroupNormalization <num_groups = 2> (x, s, b) }"
    proto = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 18]> ' + text)
    for name, numbers in (("s", [1, 2]), ("b", [3, 4])):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(numbers), name))
    result = PASS.apply(ir.from_proto(proto), PassContext(target_opset=21))
    given = np.arange(8, dtype=np.float32).reshape(1, 4, 2)
    flat = given.reshape(1, 2, 4)
    normal = (flat - flat.mean(2, keepdims=True)) / np.sqrt(flat.var(2, keepdims=True) + 1e-5)
    wanted = normal.reshape(1, 4, 2) * np.float32([1, 1, 2, 2])[:, None] + np.float32([3, 3, 4, 4])[:, None]
    np.testing.assert_allclose(results(result.model, x=given)[0], wanted, rtol=1e-5)


def test_an_average_over_a_rounded_border_is_a_reason_to_refuse(make_model, reasons):
    pool = "AveragePool <kernel_shape = [3, 3], ceil_mode = 1> (x)"
    model = make_model(f"g (float[1,1,4,4] x) => (float[1,1,2,2] y) {{ y = {pool} }}")
    result = PASS.apply(model.ir, PassContext(target_opset=19))
    assert "the border changed with opset 19" in reasons(result)
    assert result.refused[0].nodes == ("AveragePool 'y'",)


def test_there_is_no_opset_that_is_not_known(make_model, reasons):
    model = make_model("g (float[2,2] x) => (float[2,2] y) { y = Relu(x) }")
    assert "opset 99 does not exist" in reasons(PASS.apply(model.ir, PassContext(target_opset=99)))


def test_a_newer_opset_is_left_alone(make_model, apply_pass):
    model = make_model("g (float[2,2] x) => (float[2,2] y) { y = Relu(x) }", opset=18)
    assert not apply_pass(PASS, model, x=X).applied


def in_runtime(model_ir, **feeds):
    """What ONNX Runtime computes; its older kernels say what older opsets mean."""
    onnxruntime = pytest.importorskip("onnxruntime")
    onnxruntime.set_default_logger_severity(4)
    return onnxruntime.InferenceSession(ir.to_proto(model_ir).SerializeToString()).run(None, feeds)


@pytest.mark.parametrize("opset", [8, 11])
def test_a_hardmax_over_several_axes_is_refused(make_model, shaped, opset):
    model = shaped(make_model("g (float[2,3,4] x) => (float[2,3,4] y) { y = Hardmax<axis = 1>(x) }", opset=opset))
    result = PASS.apply(model.ir, PassContext())
    assert (result.applied, len(result.refused)) == ((), 1)


@pytest.mark.parametrize("opset", [7, 9, 11])
def test_a_dropout_whose_mask_is_an_output_is_refused(make_model, shaped, opset):
    kind = "bool" if opset >= 10 else "float"
    text = f"g (float[2,3] x) => (float[2,3] y, {kind}[2,3] m) {{ y, m = Dropout<ratio = 0.5>(x) }}"
    result = PASS.apply(shaped(make_model(text, opset=opset)).ir, PassContext())
    assert (result.applied, len(result.refused)) == ((), 1)


PICTURE = np.random.default_rng(0).standard_normal((1, 1, 4, 4)).astype(np.float32)


@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("scale", [3.0, 1.7, 0.6])
def test_a_resize_keeps_its_places(make_model, shaped, mode, scale):
    text = f'g (float[1,1,4,4] x) => (float[1,1,A,B] y) {{ y = Resize<mode = "{mode}">(x, s) }}'
    model = shaped(make_model(text, opset=10, s=np.float32([1, 1, scale, scale])))
    raised = PASS.apply(model.ir, PassContext())
    assert raised.applied
    np.testing.assert_allclose(in_runtime(raised.model, x=PICTURE), in_runtime(model.ir, x=PICTURE), rtol=1e-5)


@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("opset", [8, 9])
def test_an_upsample_keeps_its_places(make_model, shaped, mode, opset):
    given, scales = ("x, s", "") if opset == 9 else ("x", ", scales = [1.0, 1.0, 2.0, 3.0]")
    text = f'g (float[1,1,4,4] x) => (float[1,1,A,B] y) {{ y = Upsample<mode = "{mode}"{scales}>({given}) }}'
    weights = {"s": np.float32([1, 1, 2, 3])} if opset == 9 else {}
    model = shaped(make_model(text, opset=opset, **weights))
    raised = PASS.apply(model.ir, PassContext())
    np.testing.assert_allclose(in_runtime(raised.model, x=PICTURE), in_runtime(model.ir, x=PICTURE), rtol=1e-5)


@pytest.mark.parametrize("opset", [8, 9, 11])
@pytest.mark.parametrize("limits", ["", "<min = -1.0>"])
def test_a_clip_of_halves_lets_infinity_pass_where_it_has_no_limit(make_model, shaped, opset, limits):
    text = f"g (float16[1,4] x) => (float16[1,4] y) {{ y = Clip{limits if opset < 11 else ''}(x) }}"
    model, x = shaped(make_model(text, opset=opset)), np.float16([[np.inf, -np.inf, np.nan, 0.5]])
    raised = PASS.apply(model.ir, PassContext())
    np.testing.assert_array_equal(in_runtime(raised.model, x=x), in_runtime(model.ir, x=x))


@pytest.mark.parametrize("opset", [8, 9, 13])
@pytest.mark.parametrize("to", ["int8", "uint8", "int32", "int64", "bool"])
@pytest.mark.parametrize("of", ["float", "float16"])
def test_a_cast_of_nan_and_infinity_gives_the_same_integer(make_model, shaped, opset, to, of):
    number = onnx.TensorProto.DataType.Value(to.upper())
    text = f"g ({of}[1,4] x) => ({to}[1,4] y) {{ y = Cast <to = {number}> (x) }}"
    x = np.array([[np.nan, np.inf, -np.inf, -0.0]], np.float16 if of == "float16" else np.float32)
    model = shaped(make_model(text, opset=opset))
    raised = PASS.apply(model.ir, PassContext())
    np.testing.assert_array_equal(in_runtime(raised.model, x=x), in_runtime(model.ir, x=x))


@pytest.mark.parametrize("opset", [8, 11, 12])
@pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("sizes", [(2, 3, 0), (0, 3, 4), (2, 3, 4)])
def test_a_softmax_over_several_axes_keeps_the_shape_of_what_is_empty(make_model, shaped, opset, kind, sizes):
    model = shaped(
        make_model(f"g (float[n,3,m] x) => (float[a,b,c] y) {{ y = {kind} <axis = 1> (x) }}", opset=opset)
    )
    raised = PASS.apply(model.ir, PassContext())
    assert raised.model.opset_imports[""] == 17
    x = np.random.default_rng(2).standard_normal(sizes).astype(np.float32)
    np.testing.assert_allclose(in_runtime(raised.model, x=x), in_runtime(model.ir, x=x), rtol=1e-6)


def test_a_split_of_known_size_may_be_empty_elsewhere(make_model, shaped):
    text = "g (float[n,4] x) => (float[a,b] y, float[c,d] z) { y, z = Split <axis = 1> (x) }"
    raised = PASS.apply(shaped(make_model(text)).ir, PassContext(target_opset=18))
    assert raised.applied
    assert not raised.nonempty_only
    assert in_runtime(raised.model, x=np.zeros((0, 4), np.float32))[0].shape == (0, 2)


def test_a_split_along_an_open_dimension_holds_for_non_empty_inputs_only(make_model, shaped, reasons):
    model = shaped(make_model("g (float[n,4] x) => (float[a,b] y, float[c,d] z) { y, z = Split(x) }"))
    raised = PASS.apply(model.ir, PassContext(target_opset=18))
    assert raised.applied
    assert raised.nonempty_only
    kept = PASS.apply(model.ir, PassContext(target_opset=18, empty_inputs=True))
    assert not kept.applied
    assert "may be empty" in reasons(kept)
