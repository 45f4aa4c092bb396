import onnx
import pytest

from edgeopt.errors import ModelError
from edgeopt.graph.model import load

RELU = "g (float[2] x) => (float[2] y) { y = Relu(x) }"
NEWEST = onnx.defs.onnx_opset_version()


@pytest.mark.parametrize("opset", [6, 7, 13, 21, NEWEST])
def test_old_and_new_models_are_taken(write_model, opset):
    assert load(write_model(RELU, opset=opset, ir_version=onnx.IR_VERSION)).ir.opset_imports[""] == opset


def test_an_opset_before_7_whose_operators_have_changed_since(write_model):
    path = write_model("g (float[2] x) => (float[2] y) { y = Add(x, x) }", opset=6)
    with pytest.raises(ModelError, match="uses opset 6, where Add has another meaning than in 7"):
        load(path)


def test_an_opset_of_the_future_says_which_is_the_newest_known(write_model):
    with pytest.raises(ModelError, match=f"uses opset 999; the newest supported is {NEWEST}"):
        load(write_model(RELU, opset=999))


def changed(path, change):
    proto = onnx.load(path)
    change(proto)
    path.write_bytes(proto.SerializeToString())
    return path


def test_a_domain_of_the_future(write_model):
    path = changed(write_model(RELU), lambda p: p.opset_import.add(domain="ai.onnx.ml", version=99))
    with pytest.raises(ModelError, match=r"uses opset 99 of ai\.onnx\.ml"):
        load(path)


def test_operators_of_other_domains_need_not_be_known(write_model):
    path = changed(write_model(RELU), lambda p: p.opset_import.add(domain="com.microsoft", version=1))
    changed(path, lambda p: p.graph.node[0].MergeFrom(onnx.NodeProto(domain="com.microsoft", op_type="QuickGelu")))
    assert load(path).repairs == ()


def test_a_domain_that_nobody_imports_is_imported(write_model):
    path = changed(write_model(RELU), lambda p: setattr(p.graph.node[0], "domain", "own"))
    model = load(path)
    assert model.repairs == ("added missing imports of 'own'",)
    assert model.ir.opset_imports["own"] == 1
