import numpy as np
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

from edgeopt.errors import UsageError
from edgeopt.graph.passes.base import Normalization, PassContext
from edgeopt.graph.passes.fusion.normalization_into_conv import PASS

RANDOM = np.random.default_rng(9)
PIXELS = RANDOM.integers(0, 256, (1, 3, 8, 8)).astype(np.float32)
WEIGHT = RANDOM.standard_normal((4, 3, 3, 3)).astype(np.float32)
COLOURS = Normalization("x", 1 / 255, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
GREY = Normalization("x", 1.0, (127.0,), (128.0,))


def applied(model, normalize):
    return PASS.apply(model.ir, PassContext(normalize=normalize))


def normalized(pixels, by):
    mean, deviation = (np.reshape(np.float32(each), (1, -1, 1, 1)) for each in (by.mean, by.deviation))
    return (pixels * np.float32(by.scale) - mean) / deviation


@pytest.mark.parametrize(("text", "by", "left"), [
    ("y = Conv(x, w)", COLOURS, ["Conv"]),
    ("y = Conv <pads = [1, 1, 1, 1]> (x, w)", GREY, ["Pad", "Conv"]),
    ("y = Conv <pads = [1, 1, 1, 1]> (x, w)", Normalization("x", 2.0, (0.0,), (3.0,)), ["Conv"]),
])  # fmt: skip
def test_the_model_takes_raw_pixels(make_model, results, kinds, text, by, left):
    model = make_model(f"g (float[1,3,8,8] x) => (float[a,b,c,d] y) {{ {text} }}", w=WEIGHT)
    result = applied(model, by)
    assert kinds(result.model) == left
    got = ReferenceEvaluator(ir.to_proto(result.model)).run(None, {"x": PIXELS})[0]
    np.testing.assert_allclose(got, results(model.ir, x=normalized(PIXELS, by))[0], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("text", "by", "reason"), [
    ("y = Conv <pads = [1, 1, 1, 1]> (x, w)", COLOURS, "different means"),
    ("r = Relu(x) y = Conv(r, w)", COLOURS, "read by a Relu"),
    ("y = Conv(x, w)", Normalization("x", 1.0, (1.0, 2.0), (1.0, 1.0)), "2 means and 3 channels"),
    ("y = Conv(x, w)", Normalization("x", 1.0, (1.0,), (1.0, 1.0, 1.0)), "1 means and 3 deviations"),
    ('y = Conv <auto_pad = "SAME_UPPER"> (x, w)', GREY, "auto_pad"),
])  # fmt: skip
def test_what_cannot_be_says_why(make_model, reasons, kinds, text, by, reason):
    model = make_model(f"g (float[1,3,8,8] x) => (float[a,b,c,d] y) {{ {text} }}", w=WEIGHT)
    result = applied(model, by)
    assert not result.applied
    assert reason in reasons(result)
    assert kinds(result.model) == kinds(model.ir)


def test_an_unknown_input_is_a_wrong_request(make_model):
    model = make_model("g (float[1,3,8,8] x) => (float[1,4,6,6] y) { y = Conv(x, w) }", w=WEIGHT)
    with pytest.raises(UsageError, match="no input 'picture'"):
        applied(model, Normalization("picture", 1.0, (0.0,), (1.0,)))


def test_nothing_is_done_unasked(make_model):
    model = make_model("g (float[1,3,8,8] x) => (float[1,4,6,6] y) { y = Conv(x, w) }", w=WEIGHT)
    assert not PASS.apply(model.ir, PassContext()).applied
    assert PASS.on_request
