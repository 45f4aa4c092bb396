import numpy as np
import onnx_ir as ir

from edgeopt.graph.passes.cleaning.strip_metadata import PASS


def test_what_exporters_leave_behind_goes_away(make_model, apply_pass):
    model = make_model("g (float[2] x) => (float[2] y) { y = Neg(x) }")
    node = model.ir.graph[0]
    node.doc_string = "File /home/somebody/train.py, line 3"
    node.metadata_props["stack_trace"] = "secret"
    node.outputs[0].metadata_props["origin"] = "secret"
    model.ir.doc_string = "made by somebody"
    result = apply_pass(PASS, model, x=np.float32([1, 2]))
    written = ir.to_proto(result.model).SerializeToString()
    assert b"secret" not in written
    assert b"somebody" not in written
    assert result.applied[0].what == "cleared notes of the exporter in 3 places"


def test_the_models_own_metadata_stays(make_model, apply_pass):
    model = make_model("g (float[2] x) => (float[2] y) { y = Neg(x) }")
    model.ir.metadata_props["names"] = "cat,dog"
    result = apply_pass(PASS, model, x=np.float32([1, 2]))
    assert result.model.metadata_props["names"] == "cat,dog"
    assert not result.applied
