import numpy as np
import onnx
import onnx.parser
import pytest

from edgeopt.commands.simplify.request import Request
from edgeopt.commands.simplify.simplify import simplify
from edgeopt.errors import ConstraintError, UsageError

pytest.importorskip("onnxruntime", reason="models are run in ONNX Runtime")
PIXELS = np.random.default_rng(0).integers(0, 256, (1, 3, 6, 6)).astype(np.float32)


@pytest.fixture
def model(tmp_path):
    def write(body, opset=17):
        ports = "(float[1,3,6,6] x) => (float[P,Q,R,S] y)"
        proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> g {ports} {{ {body} }}')
        weights = np.random.default_rng(1).standard_normal((4, 3, 3, 3)).astype(np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
        onnx.save(proto, tmp_path / "model.onnx")
        return tmp_path / "model.onnx"

    return write


def run(path, x):
    import onnxruntime

    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


@pytest.mark.parametrize("opset", [9, 17])
@pytest.mark.parametrize(
    ("body", "normalize", "mean", "deviation"),
    [
        ("a = Conv(x, w)  y = Relu(a)", "x=1/255:0.5,0.4,0.3:0.2,0.3,0.4", (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)),
        ('a = Conv <auto_pad = "NOTSET", pads = [1, 1, 1, 1]> (x, w)  y = Relu(a)', "x=1/255:0.5:0.25", 0.5, 0.25),
        ("a = Conv(x, w)  s = Shape(x)  r = ConstantOfShape(s)  y = Relu(a)", "x=1/255:0:1", 0.0, 1.0),
    ],
)
def test_the_result_takes_raw_pixels_and_is_proved(model, tmp_path, body, normalize, mean, deviation, opset):
    source = model(body, opset)
    found = simplify(Request(source, tmp_path / "out.onnx", normalize=normalize))
    done = [change for entry in found.ledger for change in entry.applied if "normalization of" in change.what]
    assert len(done) == 1  # a second time would normalize what is normalized
    assert found.snr_db > 100
    by_channel = (np.reshape(each, (1, -1, 1, 1)) for each in (mean, deviation))
    shift, scale = by_channel
    ready = ((PIXELS / 255 - shift) / scale).astype(np.float32)
    np.testing.assert_allclose(run(tmp_path / "out.onnx", PIXELS), run(source, ready), rtol=1e-3, atol=1e-3)


def test_where_it_does_not_go_in_nothing_is_written_and_the_reason_said(model, tmp_path):
    source = model("a = Conv <pads = [1, 1, 1, 1]> (x, w)  y = Relu(a)")
    with pytest.raises(ConstraintError, match="channels have different means"):
        simplify(Request(source, tmp_path / "out.onnx", normalize="x=1/255:0.5,0.4,0.3:0.2,0.3,0.4"))
    assert not (tmp_path / "out.onnx").exists()


def test_an_input_that_is_not_there_is_named(model, tmp_path):
    with pytest.raises(UsageError, match="no input 'image'; its inputs are: x"):
        simplify(Request(model("y = Conv(x, w)"), tmp_path / "out.onnx", normalize="image=1/255:0:1"))


@pytest.mark.parametrize("shape", ["z=1x3x6x6", "x=1x3x6", "x=2x3x6x6"])
def test_a_shape_that_does_not_fit_is_said_before_any_work(model, tmp_path, shape):
    with pytest.raises(UsageError):
        simplify(Request(model("y = Conv(x, w)"), tmp_path / "out.onnx", shape=(shape,)))
