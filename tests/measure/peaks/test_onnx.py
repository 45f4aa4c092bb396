import numpy as np
import onnx

from edgeopt.measure.peaks import onnx as peaks_onnx


def test_a_model_of_bytes_is_one_that_onnx_accepts():
    weights = np.arange(300, dtype=np.float32).reshape(20, 15)
    nodes = [
        peaks_onnx.node("MatMul", ["x", "w"], "m"),
        peaks_onnx.node("Transpose", ["m"], "y", perm=(1, 0)),
    ]
    ends = peaks_onnx.port("x", "float32", (2, 20)), peaks_onnx.port("y", "float32", (15, 2))
    model = onnx.load_from_string(peaks_onnx.model(nodes, {"w": weights}, *ends))
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in model.graph.node] == ["MatMul", "Transpose"]
    assert list(model.graph.node[1].attribute[0].ints) == [1, 0]
    assert np.array_equal(onnx.numpy_helper.to_array(model.graph.initializer[0]), weights)
    assert [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim] == [2, 20]
