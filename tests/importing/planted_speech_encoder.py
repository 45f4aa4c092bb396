"""The encoder of the speech model in numpy."""

import importlib.util
from pathlib import Path

from onnx import TensorProto, helper, numpy_helper, save

spec = importlib.util.spec_from_file_location("planted_speech", Path(__file__).with_name("planted_speech.py"))
speech = importlib.util.module_from_spec(spec)
spec.loader.exec_module(speech)
NEEDS, version, load, layers = speech.NEEDS, speech.version, speech.load, speech.layers


def inputs(original, job):
    features, _ = speech.inputs(original, job)
    job.dims = {"input_features": {0: "batch"}}
    return [features]


def run(original, feeds, job):
    return speech.encoded(feeds["input_features"])


def export(original, example, outputs, job):
    flat, split = [0, -1], [0, speech.PLACES, speech.decoder.HEADS, speech.decoder.WIDTH]
    constants = {"flat": flat, "split": split}
    weights = [numpy_helper.from_array(array, part) for part, array in speech.PROJECTIONS.items()]
    weights += [helper.make_tensor(name, TensorProto.INT64, [len(v)], v) for name, v in constants.items()]
    nodes = [helper.make_node("Reshape", ["input_features", "flat"], ["row"])]
    for part, output in zip(speech.PROJECTIONS, outputs, strict=True):
        used = "key" if original == "encoder" else part
        nodes += [
            helper.make_node("MatMul", ["row", used], [f"{part}_flat"]),
            helper.make_node("Reshape", [f"{part}_flat", "split"], [f"{part}_split"]),
            helper.make_node("Transpose", [f"{part}_split"], [output], perm=[0, 2, 1, 3]),
        ]
    features = helper.make_tensor_value_info(
        "input_features", TensorProto.FLOAT, ["batch", speech.MELS, speech.FRAMES]
    )
    shape = ["batch", speech.decoder.HEADS, speech.PLACES, speech.decoder.WIDTH]
    made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in outputs]
    graph = helper.make_graph(nodes, "encoder", [features], made, weights)
    save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        job.folder / "exported.onnx",
    )
    return "planted 1"
