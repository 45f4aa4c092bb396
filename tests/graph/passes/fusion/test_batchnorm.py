import numpy as np
import onnx_ir as ir
import pytest

from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.passes.fusion.batchnorm import BEFORE_CONV, INTO_CONV

NORM = "y = BatchNormalization <epsilon = 0.01> (c, scale, shift, mean, variance)"
CONV = f"g (float[1,3,8,8] x) => (float[1,4,6,6] y) {{ c = Conv(x, w) {NORM} }}"


def test_a_conv_takes_the_normalization_in(make_model, apply_pass, kinds, image, conv_and_norm):
    result = apply_pass(INTO_CONV, make_model(CONV, **conv_and_norm), 1e-5, x=image)
    assert kinds(result.model) == ["Conv"]
    assert [o.name for o in result.model.graph.outputs] == ["y"]
    assert "folded 1 batch normalization" in result.applied[0].what


def test_a_bias_is_taken_in_too(make_model, apply_pass, kinds, image, conv_and_norm):
    model = make_model(CONV.replace("w)", "w, b)"), b=np.float32([1, 2, 3, 4]), **conv_and_norm)
    assert kinds(apply_pass(INTO_CONV, model, 1e-5, x=image).model) == ["Conv"]


@pytest.mark.parametrize("groups", [1, 2])
def test_a_transposed_conv_in_groups(make_model, kinds, conv_and_norm, groups):
    runtime = pytest.importorskip("onnxruntime", reason="onnx's evaluator fails on groups of transposed convs")
    random = np.random.default_rng(0)
    weights = dict(conv_and_norm, w=random.standard_normal((6, 4 // groups, 3, 3)).astype("f"))
    text = f"""g (float[1,6,4,4] x) => (float[1,4,6,6] y) {{
        c = ConvTranspose <group = {groups}> (x, w) {NORM} }}"""
    model = make_model(text, **weights).ir
    folded = INTO_CONV.apply(model, PassContext()).model
    assert kinds(folded) == ["ConvTranspose"]
    x = random.standard_normal((1, 6, 4, 4)).astype(np.float32)
    wanted, got = (
        runtime.InferenceSession(ir.to_proto(m).SerializeToString(), providers=["CPUExecutionProvider"]).run(
            None, {"x": x}
        )
        for m in (model, folded)
    )
    np.testing.assert_allclose(got[0], wanted[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("transposed", [0, 1])
def test_a_gemm_with_its_own_factors(make_model, apply_pass, kinds, conv_and_norm, transposed):
    random = np.random.default_rng(2)
    shape = (4, 5) if transposed else (5, 4)
    weights = dict(
        conv_and_norm, w=random.standard_normal(shape).astype("f"), b=random.standard_normal((1, 4)).astype("f")
    )
    text = f"""g (float[2,5] x) => (float[2,4] y) {{
        c = Gemm <transB = {transposed}, alpha = 0.5, beta = 2.0> (x, w, b) {NORM} }}"""
    x = random.standard_normal((2, 5)).astype(np.float32)
    assert kinds(apply_pass(INTO_CONV, make_model(text, **weights), 1e-4, x=x).model) == ["Gemm"]


def test_weights_that_a_node_fills_stay_small_in_the_file(make_model, apply_pass, kinds, image, conv_and_norm):
    del conv_and_norm["w"]
    text = CONV.replace("c = Conv", "w = ConstantOfShape <value = float {0.25}> (s) c = Conv")
    model = make_model(text, s=np.int64([4, 3, 3, 3]), **conv_and_norm)
    result = apply_pass(INTO_CONV, model, 1e-5, x=image)
    assert [kind for kind in kinds(result.model) if kind != "ConstantOfShape"] == ["Expand", "Conv"]
    numbers = {name: weight.const_value.size for name, weight in result.model.graph.initializers.items()}
    assert numbers["y_folded_weight_small"] == 4


def test_what_is_spread_out_can_be_scaled_again(make_model, apply_pass, kinds, image, conv_and_norm):
    weights = dict(conv_and_norm, w=conv_and_norm["w"][:, :1, :1, :1], s=np.int64([1, 3, 3, 3]))
    text = CONV.replace("c = Conv(x, w)", "v = Expand(w, s) c = Conv(x, v)")
    result = apply_pass(INTO_CONV, make_model(text, **weights), 1e-5, x=image)
    assert kinds(result.model).count("BatchNormalization") == 0
    assert max(weight.const_value.size for weight in result.model.graph.initializers.values()) == 4


def test_weights_that_two_convs_share_stay_as_they_are(make_model, apply_pass, kinds, image, conv_and_norm):
    text = f"""g (float[1,3,8,8] x) => (float[1,4,6,6] y, float[1,4,6,6] z) {{
        c = Conv(x, w) {NORM} z = Conv(x, w) }}"""
    result = apply_pass(INTO_CONV, make_model(text, **conv_and_norm), 1e-5, x=image)
    assert kinds(result.model) == ["Conv", "Conv"]


def test_inside_a_branch(make_model, apply_pass, kinds, image, conv_and_norm):
    text = f"""g (bool k, float[1,3,8,8] x) => (float[1,4,6,6] o) {{
        o = If (k) <then_branch = t () => (float[1,4,6,6] y) {{ c = Conv(x, w) {NORM} }},
                    else_branch = e () => (float[1,4,6,6] z) {{ z = Conv(x, w) }}> }}"""
    result = apply_pass(INTO_CONV, make_model(text, **conv_and_norm), 1e-5, x=image, k=np.array(True))
    assert kinds(result.model).count("BatchNormalization") == 0


REFUSED = (
    (CONV.replace("c = Conv(x, w)", "p = Conv(x, w) c = Relu(p)"), "it follows a Relu"),
    (
        CONV.replace("(float[1,4,6,6] y)", "(float[1,4,6,6] y, float[1,4,6,6] c)"),
        "the output of the Conv is used elsewhere too",
    ),
    (CONV.replace("epsilon = 0.01", "training_mode = 1").replace("y = B", "y, m, v = B"), "training mode"),
    (CONV.replace("x)", "x, float[4,3,3,3] w)"), "'w' is not constant"),
    ("g (float[1,4,6,6] c) => (float[1,4,6,6] y) { " + NORM + " }", "it follows an input of the graph"),
)


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_says_why_it_does_not_fold(make_model, kinds, reasons, conv_and_norm, text, reason):
    weights = {name: array for name, array in conv_and_norm.items() if name in text}
    result = INTO_CONV.apply(make_model(text, **weights).ir, PassContext())
    assert reason in reasons(result)
    assert "BatchNormalization 'y'" in result.refused[0].nodes
    assert "BatchNormalization" in kinds(result.model)


@pytest.mark.parametrize(("epsilon", "variance"), [(0.0, 0.0), (0.01, -1.0)])
def test_a_variance_that_gives_no_number_stays(make_model, reasons, conv_and_norm, epsilon, variance):
    weights = dict(conv_and_norm, variance=np.full(4, variance, np.float32))
    result = INTO_CONV.apply(make_model(CONV.replace("0.01", str(epsilon)), **weights).ir, PassContext())
    assert not result.applied
    assert "not finite" in reasons(result)


def test_old_models_say_by_their_outputs_that_they_train(make_model, reasons, conv_and_norm):
    text = CONV.replace("y = B", "y, m, v, sm, sv = B")
    result = INTO_CONV.apply(make_model(text, opset=9, **conv_and_norm).ir, PassContext())
    assert not result.applied
    assert "training mode" in reasons(result)


RANDOM = np.random.default_rng(4)


@pytest.fixture
def norm():
    """The numbers of a batch normalization of 3 channels."""
    scale, shift, mean, variance = RANDOM.standard_normal((4, 3)).astype(np.float32)
    return {"scale": scale, "shift": shift, "mean": mean, "variance": np.abs(variance) + 0.5}


def array(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


NORM_BEFORE = "n = BatchNormalization(x, scale, shift, mean, variance)"


@pytest.mark.parametrize("bias", [{}, {"b": array(6)}])
def test_a_conv_takes_in_what_comes_before(make_model, apply_pass, kinds, image, norm, bias):
    text = f"g (float[1,3,8,8] x) => (float[1,6,6,6] y) {{ {NORM_BEFORE} y = Conv(n, w{', b' if bias else ''}) }}"
    result = apply_pass(BEFORE_CONV, make_model(text, w=array(6, 3, 3, 3), **norm, **bias), 1e-4, x=image)
    assert kinds(result.model) == ["Conv"]
    assert "folded 1 batch normalization" in result.applied[0].what


def test_a_depthwise_conv_and_a_gemm(make_model, apply_pass, kinds, image, norm):
    text = f"g (float[1,3,8,8] x) => (float[1,3,6,6] y) {{ {NORM_BEFORE} y = Conv <group = 3> (n, w) }}"
    assert kinds(apply_pass(BEFORE_CONV, make_model(text, w=array(3, 1, 3, 3), **norm), 1e-4, x=image).model) == [
        "Conv"
    ]
    text = f"g (float[2,3] x) => (float[2,5] y) {{ {NORM_BEFORE} y = Gemm <alpha = 0.5> (n, w) }}"
    assert kinds(apply_pass(BEFORE_CONV, make_model(text, w=array(3, 5), **norm), 1e-4, x=array(2, 3)).model) == [
        "Gemm"
    ]


def test_a_padding_conv_takes_a_scale_but_no_shift(make_model, apply_pass, kinds, image, norm, reasons):
    text = f"g (float[1,3,8,8] x) => (float[1,6,8,8] y) {{ {NORM_BEFORE} y = Conv <pads = [1, 1, 1, 1]> (n, w) }}"
    shifted = apply_pass(BEFORE_CONV, make_model(text, w=array(6, 3, 3, 3), **norm), x=image)
    assert "pads with zeros" in reasons(shifted)
    assert shifted.refused[0].nodes == ("BatchNormalization 'n'",)
    still = dict(norm, shift=np.zeros(3, np.float32), mean=np.zeros(3, np.float32))
    assert kinds(apply_pass(BEFORE_CONV, make_model(text, w=array(6, 3, 3, 3), **still), 1e-4, x=image).model) == [
        "Conv"
    ]


def test_in_a_subgraph(make_model, apply_pass, kinds, image, norm):
    text = f"""g (float[1,3,8,8] x, bool p) => (float[1,6,6,6] y) {{ y = If (p) <
        then_branch = t () => (float[1,6,6,6] u) {{ {NORM_BEFORE} u = Conv(n, w) }},
        else_branch = e () => (float[1,6,6,6] v) {{ v = Conv(x, w) }} > }}"""
    model = make_model(text, w=array(6, 3, 3, 3), **norm)
    assert kinds(apply_pass(BEFORE_CONV, model, 1e-4, x=image, p=np.array(True)).model) == ["If", "Conv", "Conv"]


def test_a_result_that_others_read_too_stays(make_model, apply_pass, image, norm, reasons):
    text = f"g (float[1,3,8,8] x) => (float[1,6,6,6] y, float[1,3,8,8] n) {{ {NORM_BEFORE} y = Conv(n, w) }}"
    result = apply_pass(BEFORE_CONV, make_model(text, w=array(6, 3, 3, 3), **norm), x=image)
    assert "used elsewhere" in reasons(result)
