import numpy as np
import pytest

from edgeopt.graph.passes.fusion.batchnorm import BEFORE_CONV

RANDOM = np.random.default_rng(4)


@pytest.fixture
def norm():
    """The numbers of a batch normalization of 3 channels."""
    scale, shift, mean, variance = RANDOM.standard_normal((4, 3)).astype(np.float32)
    return {"scale": scale, "shift": shift, "mean": mean, "variance": np.abs(variance) + 0.5}


def array(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


NORM = "n = BatchNormalization(x, scale, shift, mean, variance)"


@pytest.mark.parametrize("bias", [{}, {"b": array(6)}])
def test_a_conv_takes_in_what_comes_before(make_model, apply_pass, kinds, image, norm, bias):
    text = f"g (float[1,3,8,8] x) => (float[1,6,6,6] y) {{ {NORM} y = Conv(n, w{', b' if bias else ''}) }}"
    result = apply_pass(BEFORE_CONV, make_model(text, w=array(6, 3, 3, 3), **norm, **bias), 1e-4, x=image)
    assert kinds(result.model) == ["Conv"]
    assert "folded 1 batch normalization" in result.applied[0].what


def test_a_depthwise_conv_and_a_gemm(make_model, apply_pass, kinds, image, norm):
    text = f"g (float[1,3,8,8] x) => (float[1,3,6,6] y) {{ {NORM} y = Conv <group = 3> (n, w) }}"
    assert kinds(apply_pass(BEFORE_CONV, make_model(text, w=array(3, 1, 3, 3), **norm), 1e-4, x=image).model) == [
        "Conv"
    ]
    text = f"g (float[2,3] x) => (float[2,5] y) {{ {NORM} y = Gemm <alpha = 0.5> (n, w) }}"
    assert kinds(apply_pass(BEFORE_CONV, make_model(text, w=array(3, 5), **norm), 1e-4, x=array(2, 3)).model) == [
        "Gemm"
    ]


def test_a_padding_conv_takes_a_scale_but_no_shift(make_model, apply_pass, kinds, image, norm, reasons):
    text = f"g (float[1,3,8,8] x) => (float[1,6,8,8] y) {{ {NORM} y = Conv <pads = [1, 1, 1, 1]> (n, w) }}"
    shifted = apply_pass(BEFORE_CONV, make_model(text, w=array(6, 3, 3, 3), **norm), x=image)
    assert "pads with zeros" in reasons(shifted)
    assert shifted.refused[0].nodes == ("BatchNormalization 'n'",)
    still = dict(norm, shift=np.zeros(3, np.float32), mean=np.zeros(3, np.float32))
    assert kinds(apply_pass(BEFORE_CONV, make_model(text, w=array(6, 3, 3, 3), **still), 1e-4, x=image).model) == [
        "Conv"
    ]


def test_in_a_subgraph(make_model, apply_pass, kinds, image, norm):
    text = f"""g (float[1,3,8,8] x, bool p) => (float[1,6,6,6] y) {{ y = If (p) <
        then_branch = t () => (float[1,6,6,6] u) {{ {NORM} u = Conv(n, w) }},
        else_branch = e () => (float[1,6,6,6] v) {{ v = Conv(x, w) }} > }}"""
    model = make_model(text, w=array(6, 3, 3, 3), **norm)
    assert kinds(apply_pass(BEFORE_CONV, model, 1e-4, x=image, p=np.array(True)).model) == ["If", "Conv", "Conv"]


def test_a_result_that_others_read_too_stays(make_model, apply_pass, image, norm, reasons):
    text = f"g (float[1,3,8,8] x) => (float[1,6,6,6] y, float[1,3,8,8] n) {{ {NORM} y = Conv(n, w) }}"
    result = apply_pass(BEFORE_CONV, make_model(text, w=array(6, 3, 3, 3), **norm), x=image)
    assert "used elsewhere" in reasons(result)
