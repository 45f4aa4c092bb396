import numpy as np
import onnx
import onnx.parser
import pytest

from edgeopt.commands.simplify.request import Request
from edgeopt.commands.simplify.simplify import simplify
from edgeopt.errors import ConstraintError, UsageError

pytest.importorskip("onnxruntime", reason="models are run in ONNX Runtime")
RANDOM = np.random.default_rng(15)
FRAMES = RANDOM.integers(0, 256, (2, 3, 24, 48)).astype(np.float32)
PADDED = "c = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (image, w) y = Relu(c)"


@pytest.fixture
def model(tmp_path):
    def write(body=PADDED, shape="N,3,12,16", kind="float", opset=17):
        ports = f"({kind}[{shape}] image) => (float[N,4,h,w] y)"
        proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> g {ports} {{ {body} }}')
        weights = np.random.default_rng(1).standard_normal((4, 3, 3, 3)).astype(np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
        onnx.save(proto, tmp_path / "model.onnx")
        return tmp_path / "model.onnx"

    return write


def run(path, pixels):
    import onnxruntime

    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"image": pixels})[0]


def kinds(path):
    return [node.op_type for node in onnx.load(path).graph.node]


def smaller(frames):
    """Two rows become their mean, of three columns the middle one stays."""
    return ((frames[:, :, 0::2, 1::3] + frames[:, :, 1::2, 1::3]) / 2).astype(np.float32)


@pytest.mark.parametrize(("how", "left"), [
    ({}, ["Conv", "Relu"]),
    ({"skip": ("resize-into-conv",)}, ["Resize", "Conv", "Relu"]),
    ({"normalize": "image=1/255:0.5:0.25"}, ["Pad", "Conv", "Relu"]),
    ({"layout": "channels-last", "normalize": "image=1/255:0.5:0.25"},
     ["Transpose", "Pad", "Conv", "Relu", "Transpose"]),
])  # fmt: skip
def test_the_result_takes_frames_and_is_proved(model, tmp_path, how, left):
    source, out = model(), tmp_path / "out.onnx"
    np.savez(tmp_path / "frames.npz", image=FRAMES)
    found = simplify(Request(source, out, resize="image=48x24", data=tmp_path / "frames.npz", **how))
    assert found.snr_db > 100
    assert sorted(kinds(out)) == sorted(left)
    ready = smaller(FRAMES)
    if "normalize" in how:
        ready = ((ready / 255 - 0.5) / 0.25).astype(np.float32)
    wanted, turned = run(source, ready), "layout" in how
    got = run(out, np.ascontiguousarray(FRAMES.transpose(0, 2, 3, 1)) if turned else FRAMES)
    np.testing.assert_allclose(got.transpose(0, 3, 1, 2) if turned else got, wanted, rtol=1e-3, atol=1e-3)


def test_open_sizes_are_fixed_first(model, tmp_path):
    fixed = ("image=1x3x12x16",)
    found = simplify(Request(model(shape="N,3,H,W"), tmp_path / "out.onnx", resize="image=32x24", shape=fixed))
    assert found.snr_db > 100
    dims = onnx.load(tmp_path / "out.onnx").graph.input[0].type.tensor_type.shape.dim
    assert [each.dim_value for each in dims] == [1, 3, 24, 32]


def test_where_the_convolution_cannot_take_it_the_model_still_takes_frames(model, tmp_path):
    found = simplify(Request(model(), tmp_path / "out.onnx", resize="image=128x96"))
    assert kinds(tmp_path / "out.onnx") == ["Resize", "Conv", "Relu"]
    assert found.snr_db > 100
    (reason,) = [refusal.reason for entry in found.ledger for refusal in entry.refused]
    assert "as long as both do now" in reason


@pytest.mark.parametrize("factor", [3, 41])
def test_no_row_is_lost_to_a_factor_that_is_no_exact_number(model, tmp_path, factor):
    size, skip = f"image={16 * factor}x{12 * factor}", ("resize-into-conv",)
    simplify(Request(model(), tmp_path / "out.onnx", resize=size, skip=skip, no_verify=True))
    frame = RANDOM.random((1, 3, 12 * factor, 16 * factor), np.float32)
    middle = factor // 2
    wanted = run(tmp_path / "model.onnx", np.ascontiguousarray(frame[:, :, middle::factor, middle::factor]))
    np.testing.assert_allclose(run(tmp_path / "out.onnx", frame), wanted, rtol=1e-3, atol=1e-3)


WRONG = (
    ("image=48x", {}, UsageError, "is no size of frames"),
    ("picture=32x24", {}, UsageError, "no input 'picture'; its inputs are: image"),
    ("image=40x24", {}, UsageError, "no whole multiple of the 16x12 that 'image' takes"),
    ("image=32x24", {"shape": "N,3,H,W"}, UsageError, "is open"),
    (
        "image=32x24",
        {"shape": "N,12,16,3", "body": "y = Transpose(image)"},
        ConstraintError,
        "does not take pictures",
    ),
    ("image=32x24", {"kind": "uint8", "body": "y = Cast <to = 1> (image)"}, ConstraintError, "holds uint8"),
)


@pytest.mark.parametrize(("resize", "how", "error", "said"), WRONG)
def test_what_cannot_be_is_said_and_nothing_written(model, tmp_path, resize, how, error, said):
    with pytest.raises(error, match=said):
        simplify(Request(model(**how), tmp_path / "out.onnx", resize=resize))
    assert not (tmp_path / "out.onnx").exists()


def test_sides_in_the_wrong_order_are_noticed(model, tmp_path):
    with pytest.raises(UsageError) as raised:
        simplify(Request(model(), tmp_path / "out.onnx", resize="image=24x32"))
    assert raised.value.hint == "Did you mean 32x24?"
