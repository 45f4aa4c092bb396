import numpy as np
import onnx
import onnx_ir as ir

from edgeopt.graph.files.stripped import MARK, checkable, inferable, skeleton, without_big_tensors
from edgeopt.graph.model import load, save
from edgeopt.graph.structure import fault, signature

TEXT = """g (bool c, float[600] x) => (float[600] y) {
    a = Add(x, w)  s = Add(a, small)
    y = If (c) <then_branch = t () => (float[600] p) { p = Add(s, w) },
                else_branch = e () => (float[600] q) { q = Neg(s) }> }"""
WEIGHTS = {"w": np.ones(600, np.float32), "small": np.float32([1])}


def test_big_weights_are_left_out_of_the_copy_and_stay_in_the_model(make_model):
    model = make_model(TEXT, **WEIGHTS).ir
    before = ir.to_proto(model).SerializeToString()
    proto, big = skeleton(model)
    assert [tensor.name for tensor in big] == ["w"]
    assert proto.ByteSize() < len(before) - 2000
    assert ir.to_proto(model).SerializeToString() == before


def test_the_checker_and_shape_inference_take_the_skeleton(make_model):
    model = make_model(TEXT, **WEIGHTS).ir
    onnx.checker.check_model(checkable(skeleton(model)[0]))
    inferred = onnx.shape_inference.infer_shapes(inferable(skeleton(model)[0]))
    sizes = {v.name: v.type.tensor_type.shape.dim[0].dim_value for v in inferred.graph.value_info}
    assert sizes["a"] == 600


def test_a_file_is_copied_without_its_big_tensors(write_model):
    proto = onnx.load(write_model(TEXT, **WEIGHTS))
    constant = onnx.helper.make_node("Constant", [], ["k"], value=onnx.numpy_helper.from_array(np.ones(600)))
    branch = next(a.g for a in proto.graph.node[2].attribute if a.name == "then_branch")
    branch.node.insert(0, constant)
    copy = without_big_tensors(proto)
    assert copy.ByteSize() < 1500
    assert copy.graph.initializer[1] == proto.graph.initializer[1], "small ones come along"
    onnx.checker.check_model(checkable(copy))


def test_values_without_type_or_shape_pass_the_checker(write_model):
    proto = onnx.load(write_model("g (float[2] x) => (float[2] y, float[2] z) { y = Relu(x)  z = Neg(x) }"))
    proto.graph.output[0].ClearField("type")
    proto.graph.output[1].type.tensor_type.ClearField("shape")
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    onnx.checker.check_model(checkable(without_big_tensors(proto)))


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
