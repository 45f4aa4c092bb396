import numpy as np
import onnx
import pytest

from edgeopt.data import Samples
from edgeopt.errors import ModelError
from edgeopt.quant.qdq import SampleReader, quant_type, quantize_static
from edgeopt.quant.settings import QuantSettings


@pytest.mark.parametrize("reduce_range", [False, True])
@pytest.mark.parametrize("activation_type", ["uint8", "int8"])
def test_a_convolution(conv_model, conv_samples, sound, stored_types, tmp_path, activation_type, reduce_range):
    out = tmp_path / "q.onnx"
    settings = QuantSettings(activation_type=activation_type, reduce_range=reduce_range)
    quantize_static(conv_model, conv_samples, settings, out)
    assert sound(conv_model, out, conv_samples) > 20
    operators = {node.op_type for node in onnx.load(out).graph.node}
    assert {"QuantizeLinear", "DequantizeLinear"} <= operators
    assert stored_types(out) == {"INT8": 2}


def test_a_matrix_product(matmul_model, row_samples, sound, stored_types, tmp_path):
    quantize_static(matmul_model, row_samples, QuantSettings(), tmp_path / "q.onnx")
    assert sound(matmul_model, tmp_path / "q.onnx", row_samples) > 20
    assert stored_types(tmp_path / "q.onnx")["INT8"] == 2


def test_reduced_range_leaves_the_eighth_bit_out(conv_model, conv_samples, tmp_path):
    for reduce_range, most in ((True, 64), (False, 127)):
        quantize_static(conv_model, conv_samples, QuantSettings(reduce_range=reduce_range), tmp_path / "q.onnx")
        weights = [onnx.numpy_helper.to_array(w) for w in onnx.load(tmp_path / "q.onnx").graph.initializer]
        kernel = next(w for w in weights if w.shape == (16, 3, 3, 3))
        assert abs(kernel.astype(int)).max() == most


def test_the_model_stays_as_it_is_and_nothing_else_is_left(conv_model, conv_samples, tmp_path):
    before, beside = conv_model.read_bytes(), sorted(conv_model.parent.iterdir())
    quantize_static(conv_model, conv_samples, QuantSettings(), tmp_path / "q.onnx")
    assert conv_model.read_bytes() == before
    assert sorted(conv_model.parent.iterdir()) == beside
    assert [p.name for p in tmp_path.iterdir()] == ["q.onnx"]


def test_every_type_of_a_profile_is_known():
    from edgeopt.profiles import INTEGER_TYPES

    assert all(quant_type(name) is not None for name in INTEGER_TYPES)


def test_each_calibration_of_a_profile_gives_ranges_of_its_own(conv_model, conv_samples, sound, tmp_path):
    images = conv_samples.arrays["x"].copy()
    images[-1] *= 10  # what minmax stretches over, and percentile cuts off
    written = set()
    for calibration in ("minmax", "percentile"):
        out = tmp_path / f"{calibration}.onnx"
        quantize_static(conv_model, Samples({"x": images}, {"x": 4}), QuantSettings(calibration=calibration), out)
        assert sound(conv_model, out, conv_samples) > 10
        written.add(out.read_bytes())
    assert len(written) == 2


def test_a_calibration_that_onnx_runtime_lacks_is_refused(conv_model, conv_samples, tmp_path):
    with pytest.raises(ModelError, match="has no calibration 'mse'"):
        quantize_static(conv_model, conv_samples, QuantSettings(calibration="mse"), tmp_path / "q.onnx")
    assert list(tmp_path.iterdir()) == []


def everything(reader):
    found = []
    while (feeds := reader.get_next()) is not None:
        found.append(feeds["x"])
    return found


def test_the_reader_gives_every_sample_once_with_its_batch_axis(conv_samples):
    found = everything(SampleReader(conv_samples))
    assert [f.shape for f in found] == [(1, 3, 16, 16)] * 24
    assert np.array_equal(np.concatenate(found), conv_samples.arrays["x"])


def test_the_reader_can_be_read_again(conv_samples):
    reader = SampleReader(conv_samples[range(3)])
    assert len(everything(reader)) == 3
    assert reader.get_next() is None
    reader.rewind()
    assert len(everything(reader)) == 3
