import numpy as np

from edgeopt.backends.onnxruntime.opening import names_with_shape


def test_a_single_number_has_a_shape_and_an_open_tensor_has_none(tmp_path):
    import onnx
    from onnx import helper, numpy_helper

    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "one"], ["y"])],
        "g",
        [info("x", 1, []), info("open", 1, None), info("é", 1, ["n", 2])],
        [info("y", 1, None)],
        [numpy_helper.from_array(np.float32(1), "one"), numpy_helper.from_array(np.ones(40_000), "large")],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, producer_version="x" * 300), path)
    assert names_with_shape(path) == {"x", "é"}
