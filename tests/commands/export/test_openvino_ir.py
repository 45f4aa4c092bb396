import numpy as np
import pytest

from edgeopt.errors import ConstraintError


def test_openvino_alone_runs_it_by_the_lines_of_the_page(exported, conv_bundle):
    result, out = exported("openvino", "openvino-ir")
    code = (out / "README.md").read_text().split("```")[1]
    code = code.replace("'conv.xml'", repr(str(out / "conv.xml")))
    known = {}
    exec(code, known)  # noqa: S102 - what a user would paste
    x = np.load(conv_bundle / "golden" / "inputs.npz")["x"][0]
    y = np.load(conv_bundle / "golden" / "outputs.npz")["y"][0]
    np.testing.assert_allclose(known["compiled"]({"x": x})["y"], y, atol=1e-5)
    assert known["compiled"].get_property("INFERENCE_NUM_THREADS") == 1
    assert "Carried in the .xml itself: dynamic_quantization_group_size." in result.notes


def test_another_runtime_s_bundle_is_told_apart(exported):
    result, _ = exported("onnxruntime", "openvino-ir")
    assert any("its speed in OpenVINO is unknown" in note for note in result.notes)


def test_operators_that_only_onnx_runtime_knows_are_refused(make_bundle, into):
    nodes = [("TransposeMatMul", ["x", "w"], ["y"], {"domain": "com.microsoft", "transB": 1})]
    weights = {"w": np.ones((3, 4), np.float32)}
    bundle = make_bundle(nodes, {"x": [1, 4]}, {"y": [1, 3]}, (1, 4), weights)
    with pytest.raises(ConstraintError, match="TransposeMatMul") as refused:
        into(bundle, "openvino-ir")
    assert "operators specific to ONNX Runtime" in refused.value.hint
    result, _ = into(bundle, "onnx")
    assert any("com.microsoft" in note for note in result.notes)
