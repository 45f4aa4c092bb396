import numpy as np
import onnx_ir as ir

from edgeopt.graph.passes.cleaning.unused import STRIP_METADATA


def test_what_exporters_leave_behind_goes_away(make_model, apply_pass):
    model = make_model("g (float[2] x) => (float[2] y) { y = Neg(x) }")
    node = model.ir.graph[0]
    node.doc_string = "File /home/somebody/train.py, line 3"
    node.metadata_props["stack_trace"] = "secret"
    node.outputs[0].metadata_props["origin"] = "secret"
    model.ir.doc_string = "made by somebody"
    result = apply_pass(STRIP_METADATA, model, x=np.float32([1, 2]))
    written = ir.to_proto(result.model).SerializeToString()
    assert b"secret" not in written
    assert b"somebody" not in written
    assert result.applied[0].what == "cleared notes of the exporter in 3 places"


def test_the_models_own_metadata_stays(make_model, apply_pass):
    model = make_model("g (float[2] x) => (float[2] y) { y = Neg(x) }")
    model.ir.metadata_props["names"] = "cat,dog"
    result = apply_pass(STRIP_METADATA, model, x=np.float32([1, 2]))
    assert result.model.metadata_props["names"] == "cat,dog"
    assert not result.applied


def test_exporters_names_and_paths_go_away_and_a_quantizers_stays(make_model, apply_pass):
    model = make_model("g (float[2] x) => (float[2] y) { y = Neg(x) }")
    model.ir.producer_name, model.ir.producer_version = "pytorch", "2.1"
    extra = {"pkg.torch.export.graph": "secret", "source": "/home/somebody/best.pt", "stride": "32"}
    model.ir.metadata_props.update(extra)
    result = apply_pass(STRIP_METADATA, model, x=np.float32([1, 2]))
    assert dict(result.model.metadata_props) == {"stride": "32"}
    assert not result.model.producer_name
    assert "dropped the name of the exporter (pytorch)" in [change.what for change in result.applied]
    model.ir.producer_name = "onnx.quantize"
    assert apply_pass(STRIP_METADATA, model, x=np.float32([1, 2])).model.producer_name == "onnx.quantize"


def test_inside_a_branch(make_model, apply_pass):
    model = make_model("""g (bool c, float[2] x) => (float[2] y) {
        y = If (c) <then_branch = t () => (float[2] a) { a = Relu(x) },
                    else_branch = e () => (float[2] b) { b = Neg(x) }> }""")
    model.ir.graph[0].attributes["then_branch"].as_graph()[0].doc_string = "secret"
    result = apply_pass(STRIP_METADATA, model, x=np.float32([1, 2]), c=np.array(True))
    assert b"secret" not in ir.to_proto(result.model).SerializeToString()
