import onnx

from edgeopt.quant.dynamic import quantize_dynamic
from edgeopt.quant.settings import QuantSettings


def test_a_matrix_product(matmul_model, row_samples, sound, stored_types, tmp_path):
    quantize_dynamic(matmul_model, QuantSettings(), tmp_path / "q.onnx")
    assert sound(matmul_model, tmp_path / "q.onnx", row_samples) > 20
    assert stored_types(tmp_path / "q.onnx")["INT8"] == 2
    assert "DynamicQuantizeLinear" in {node.op_type for node in onnx.load(tmp_path / "q.onnx").graph.node}
    assert (tmp_path / "q.onnx").stat().st_size < 0.7 * matmul_model.stat().st_size


def test_a_convolution_and_a_transposed_product(conv_model, conv_samples, sound, stored_types, tmp_path):
    quantize_dynamic(conv_model, QuantSettings(reduce_range=True), tmp_path / "q.onnx")
    assert sound(conv_model, tmp_path / "q.onnx", conv_samples) > 15
    assert stored_types(tmp_path / "q.onnx")["INT8"] >= 1


def test_nothing_else_is_left(matmul_model, tmp_path):
    quantize_dynamic(matmul_model, QuantSettings(), tmp_path / "q.onnx")
    assert [p.name for p in tmp_path.iterdir()] == ["q.onnx"]
