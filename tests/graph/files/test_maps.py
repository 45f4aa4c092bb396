import onnx

from edgeopt.graph.files.stripped import MARK
from edgeopt.graph.model import load, save
from edgeopt.graph.structure import fault, signature

helper = onnx.helper
NUMBER = helper.make_tensor_type_proto(1, [])
OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]


def written(path, node, input_, output):
    graph = helper.make_graph([node], "g", [input_], [output])
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=OPSETS), path)
    return path


def zip_map(path):
    maps = helper.make_value_info("z", helper.make_sequence_type_proto(helper.make_map_type_proto(7, NUMBER)))
    node = helper.make_node("ZipMap", ["x"], ["z"], domain="ai.onnx.ml", classlabels_int64s=[1, 2])
    return written(path, node, helper.make_tensor_value_info("x", 1, [1, 2]), maps)


def test_a_classical_model_with_maps_goes_in_and_out_as_it_is(folder):
    path = zip_map(folder / "zip.onnx")
    model = load(path)
    assert model.ir.graph.outputs[0].type.elem_type.denotation.startswith(MARK)
    assert fault(model.ir, signature(model.ir)) is None
    save(model.ir, folder / "copy.onnx")
    assert onnx.load(folder / "copy.onnx") == onnx.load(path)


def test_a_map_as_an_input(folder):
    map_ = helper.make_value_info("m", helper.make_map_type_proto(8, NUMBER))
    node = helper.make_node("DictVectorizer", ["m"], ["y"], domain="ai.onnx.ml", string_vocabulary=["a", "b"])
    path = written(folder / "m.onnx", node, map_, helper.make_tensor_value_info("y", 1, [1, 2]))
    save(load(path).ir, folder / "copy.onnx")
    assert onnx.load(folder / "copy.onnx") == onnx.load(path)
