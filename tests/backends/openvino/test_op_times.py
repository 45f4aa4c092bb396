import numpy as np
import pytest

from edgeopt.backends import backend_named
from edgeopt.backends.openvino.op_times import _one_run
from edgeopt.errors import ModelError

pytest.importorskip("openvino")
parser = pytest.importorskip("onnx.parser")


@pytest.fixture
def written(tmp_path):
    import onnx

    weight = f"<float[16, 3, 3, 3] w = {{{', '.join(['0.1'] * 432)}}}>"
    text = f"""<ir_version: 9, opset_import: ["" : 17]>
        g (float[n, 3, 32, 32] x) => (float[n, 16, 30, 30] y) {weight} {{
            [conv] c = Conv (x, w)
            [relu] r = Relu (c)
            [exp] y = Exp (r)
        }}"""
    path = tmp_path / "model.onnx"
    onnx.save(parser.parse_model(text), path)
    return path


def test_a_layer_says_which_nodes_it_was_made_of(written):
    feeds = {"x": np.ones((1, 3, 32, 32), np.float32)}
    found = backend_named("openvino-cpu").op_times(written, {"threads": 1, "precision": "f32"}, feeds, 4)
    running = [kernel for kernel in found.kernels if kernel.calls]
    conv = next(kernel for kernel in running if kernel.operator == "Convolution")
    assert {"relu"} < set(conv.sources)
    assert (conv.place, conv.precision) == ("CPU", "fp32")
    # The layers hang together by the tensors that go between them.
    made = {value for kernel in found.kernels for value in kernel.outputs}
    assert any(value in made for kernel in running if kernel is not conv for value in kernel.reads)
    assert not any("w" in kernel.sources for kernel in found.kernels)
    assert found.runs == 4
    assert found.plain_ms > 0
    assert sum(kernel.time_ms for kernel in running) > 0


def test_the_shapes_that_the_user_fixed_are_kept(written):
    options = {"threads": 1, "shapes": {"x": [2, 3, 32, 32]}}
    feeds = {"x": np.ones((2, 3, 32, 32), np.float32)}
    assert backend_named("openvino-cpu").op_times(written, options, feeds, 2).kernels


def test_data_that_does_not_fit_is_a_sentence(written):
    with pytest.raises(ModelError, match=r"OpenVINO cannot run 'model\.onnx'"):
        backend_named("openvino-cpu").op_times(written, {}, {"x": np.ones((1, 4, 32, 32), np.float32)}, 2)


def test_means_and_single_runs_are_told_apart():
    # Runs of 9, 1, 2 and 3 ms are told as these means.
    assert _one_run([9.0, 5.0, 4.0, 3.75], averaged=True)[0] == pytest.approx(2.0)
    assert _one_run([9.0, 1.0, 2.0, 3.0], averaged=False)[0] == 2.0
